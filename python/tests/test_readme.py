"""The program in the README runs as it stands there."""

import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def test_the_program_in_the_readme_fits_its_data(tmp_path):
    (text,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, "-m", "paddlewheel", "run", str(script)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    word, value = printed.split()
    assert word == "loss"
    assert float(value) < 1e-3
