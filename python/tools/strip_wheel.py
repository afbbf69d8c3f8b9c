"""Takes the symbols out of the libraries of a wheel and puts them into files beside it: `strip_wheel.py dist/x.whl`.

`NAME.debug` beside the wheel has what was taken out. Backtraces of Rust and debuggers find it if it lies beside the
installed library.
"""

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

OBJCOPY = os.environ.get("OBJCOPY", "objcopy")


def stripped(path, symbols):
    """Writes the symbols of a library to a file and takes them out of the library."""
    subprocess.run([OBJCOPY, "--only-keep-debug", "--compress-debug-sections", path, symbols], check=True)
    link = "--add-gnu-debuglink=" + symbols
    subprocess.run([OBJCOPY, "--strip-all", link, path], check=True)


def digest(data):
    """A digest as the list of a wheel's files has it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def strip_wheel(wheel):
    """Replaces a wheel by one without symbols; returns the files of symbols."""
    written, lines = [], {}
    new = wheel + ".new"
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as old:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for info in old.infolist():
                data = old.read(info)
                if info.filename.endswith(".so"):
                    name = os.path.basename(info.filename)
                    path = os.path.join(folder, name)
                    with open(path, "wb") as file:
                        file.write(data)
                    symbols = os.path.join(os.path.dirname(os.path.abspath(wheel)), name + ".debug")
                    stripped(path, symbols)
                    written.append(symbols)
                    with open(path, "rb") as file:
                        data = file.read()
                    lines[info.filename] = "%s,%s,%d" % (info.filename, digest(data), len(data))
                elif info.filename.endswith(".dist-info/RECORD"):
                    # It is the last file of a wheel: all others are known.
                    rows = data.decode().splitlines()
                    data = "".join(lines.get(row.split(",")[0], row) + "\n" for row in rows).encode()
                info.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(info, data)
    os.replace(new, wheel)
    return written


if __name__ == "__main__":
    for path in sys.argv[1:]:
        before = os.path.getsize(path)
        kept = strip_wheel(path)
        print("%s: %.1f MB, was %.1f MB" % (path, os.path.getsize(path) / 1e6, before / 1e6))
        for symbols in kept:
            print("%s: %.1f MB of symbols" % (symbols, os.path.getsize(symbols) / 1e6))
