"""Settings that come from the environment as `FLAGS_<name>`; unknown ones are ignored."""

from .._core import fleet as _native


def set_flags(flags):
    """Changes flags, given as a dict of `FLAGS_<name>` to value."""
    if not isinstance(flags, dict):
        raise TypeError("flags in set_flags should be a dict")
    for name, value in flags.items():
        _native.set_flag(name, value)


def get_flags(flags):
    """The values of flags, given as one name or a list of them."""
    if isinstance(flags, str):
        flags = [flags]
    if not isinstance(flags, (list, tuple)):
        raise TypeError("Flags in get_flags should be a list, tuple or string.")
    return {name: _native.get_flag(name) for name in flags}


class Flags:
    """All flags as a mapping: `core.globals()["FLAGS_cpu_deterministic"] = True`."""

    def __getitem__(self, name):
        return _native.get_flag(name)

    def __setitem__(self, name, value):
        _native.set_flag(name, value)


_flags = Flags()


def globals():
    """All flags as a mapping."""
    return _flags
