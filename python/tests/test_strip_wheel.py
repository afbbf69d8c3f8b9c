"""Wheels are shipped without symbols; a file beside them has these."""

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "python", "tools", "strip_wheel.py")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=60).stdout.decode(errors="replace")


def test_symbols_go_from_a_wheel_to_a_file_beside_it(tmp_path):
    for tool in ("cc", "objcopy", "addr2line", "readelf", "nm"):
        if not shutil.which(tool):
            pytest.skip(tool + " is not installed")
    source = tmp_path / "core.c"
    source.write_text("static int twice(int x) {\n  return 2 * x;\n}\n\nint shown(int x) {\n  return twice(x) + 1;\n}\n")
    library = tmp_path / "_core.abi3.so"
    output("cc", "-g", "-shared", "-fPIC", "-o", str(library), str(source))
    address = next(line.split()[0] for line in output("nm", str(library)).splitlines() if line.endswith(" twice"))
    (tmp_path / "dist").mkdir()
    wheel = tmp_path / "dist" / "paddlewheel-0.1.0-cp39-abi3-linux.whl"
    text = b"A text.\n"
    with zipfile.ZipFile(str(wheel), "w") as file:
        file.writestr("paddlewheel/text.txt", text)
        file.write(str(library), "paddlewheel/_core.abi3.so")
        names = ["paddlewheel/text.txt", "paddlewheel/_core.abi3.so", "paddlewheel-0.1.0.dist-info/RECORD"]
        file.writestr(names[2], "%s,sha256=x,8\n%s,sha256=y,9\n%s,,\n" % tuple(names))
    output(sys.executable, TOOL, str(wheel))

    with zipfile.ZipFile(str(wheel)) as file:
        assert file.namelist() == names and file.read(names[0]) == text
        stripped = file.read(names[1])
        rows = list(csv.reader(io.StringIO(file.read(names[2]).decode())))
    digest = base64.urlsafe_b64encode(hashlib.sha256(stripped).digest()).rstrip(b"=").decode()
    assert rows == [[names[0], "sha256=x", "8"], [names[1], "sha256=" + digest, str(len(stripped))], [names[2], "", ""]]
    library.write_bytes(stripped)
    sections = output("readelf", "-S", str(library))
    assert ".debug_line" not in sections and ".symtab" not in sections
    symbols = str(tmp_path / "dist" / "_core.abi3.so.debug")
    assert "core.c:1" in output("addr2line", "-e", symbols, address)
    assert "_core.abi3.so.debug" in output("readelf", "--string-dump=.gnu_debuglink", str(library))
