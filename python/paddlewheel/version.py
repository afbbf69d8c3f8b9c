"""The version of Fluid whose behaviour this package has; `paddlewheel --version` says our own."""

full_version = "1.8.5"
major, minor, patch = full_version.split(".")
rc = "0"
istaged = True
with_mkl = "OFF"


def show():
    """Prints the version, part by part."""
    for name in ("full_version", "major", "minor", "patch", "rc"):
        print("{}: {}".format(name, globals()[name]))


def mkl():
    """Whether Intel's library multiplies matrices: no, the kernels are our own."""
    return with_mkl
