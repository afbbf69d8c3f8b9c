"""`make test` runs both halves, and fails at the end."""

import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def script(path, text):
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("python_fails, rust_fails", [(True, False), (True, True), (False, True), (False, False)])
def test_both_halves_run_whatever_the_first_finds(tmp_path, python_fails, rust_fails):
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "ready").touch()
    script(tmp_path / "bin" / "maturin", "exit 0")
    ran = tmp_path / "ran.txt"
    half = lambda name, fails: script(tmp_path / name, 'echo %s >> "%s"; exit %d' % (name, ran, fails))  # noqa: E731
    overrides = {
        "VENV": os.path.relpath(str(tmp_path), ROOT),
        "PYTEST": half("pytest", python_fails),
        "CARGO": half("cargo", rust_fails),
        "OLD_NUMPY": "true",
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-C", ROOT, "test"] + ["%s=%s" % pair for pair in overrides.items()]
    made = subprocess.run(command, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    text = made.stdout.decode()
    assert ran.read_text().split() == ["pytest", "cargo"], text
    failed = [name for name, fails in (("py", python_fails), ("rust", rust_fails)) if fails]
    assert (made.returncode != 0) == bool(failed), text
    assert "0 skipped" in text
    assert ("failed: %s (" % " ".join(failed) in text) == bool(failed), text
