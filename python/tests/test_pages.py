"""Every program and every command of these pages is run, in the order of the page, in one folder.

A block of Python begins with a comment that is the name of its file. A block of `bash` is run with
`sh -e`, with this package's `python` and `paddlewheel`. A block of `text` behind it has lines that the
commands print. Ports are replaced by free ones. `kubectl` and `sbatch` are stand-ins here that check
their input; `make interop` runs the real Slurm.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from clusters import free_port
from conftest import PACKAGES
from test_engines import no_engine  # noqa: F401

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guides"
PAGES = ["many-machines.md", "modes.md", "checkpoints.md", "engines.md", "stuck.md", "paddle2.md"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LIMIT = 180

#: The names that a page may take from an earlier page.
FROM = {page: "many-machines.md" for page in PAGES if page != "many-machines.md"}

SHIMS = {
    "python": 'exec "{python}" "$@"',
    "paddlewheel": 'exec "{python}" -m paddlewheel "$@"',
    # The file must be complete documents, each with what Kubernetes needs to know it.
    "kubectl": 'test "$1 $2" = "apply -f" && grep -q "^apiVersion: " "$3" && grep -q "^kind: " "$3" && '
    'grep "^  name: " "$3" | sed "s/  name: /created: /"',
    "sbatch": 'sh -n "$1" && grep -q "^#SBATCH --ntasks" "$1" && grep -q "^srun " "$1" && '
    'echo "Submitted batch job 1"',
}


def blocks(page):
    return FENCE.findall((DOCS / page).read_text(encoding="utf-8"))


class Folder:
    """Where the blocks of a page are run."""

    def __init__(self, path):
        self.path = path
        self.ports = {}
        shims = path / ".bin"
        shims.mkdir()
        for name, text in SHIMS.items():
            shim = shims / name
            shim.write_text("#!/bin/sh\n%s\n" % text.format(python=sys.executable))
            shim.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(shims), os.environ["PATH"]]),
            "PYTHONPATH": PACKAGES,
            # A container's user is root, and it has few cores.
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def here(self, text):
        """With ports that are free."""
        for port in set(re.findall(r"\b36\d\d\d\b", text)) - set(self.ports):
            self.ports[port] = str(free_port())
        return re.sub(r"\b36\d\d\d\b", lambda found: self.ports[found.group()], text)

    def write(self, body):
        name = re.match(r"# ([\w./]+)\n", body).group(1)
        (self.path / name).write_text(body, encoding="utf-8")

    def run(self, body):
        if "mpirun" in body and shutil.which("mpirun") is None:
            pytest.skip("mpirun is not installed: apt-get install openmpi-bin")
        result = subprocess.run(
            ["/bin/sh", "-e", "-c", self.here(body)],
            cwd=str(self.path),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
        assert result.returncode == 0, "%s\n%s" % (body, result.stdout)
        return result.stdout


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(tmp_path, page):
    folder = Folder(tmp_path)
    for language, body in blocks(FROM[page]) if page in FROM else []:
        if language == "python":
            folder.write(body)
    printed, n_run = None, 0
    for language, body in blocks(page):
        if language == "python":
            folder.write(body)
        elif language == "bash":
            printed, n_run = folder.run(body), n_run + 1
        else:
            assert language == "text" and printed is not None, language
            for line in folder.here(body).splitlines():
                assert line in printed, "`%s` is not in\n%s" % (line, printed)
    assert n_run > 0


def test_no_command_of_a_page_is_left_out():
    """A page has no block that is not run."""
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        assert text.count("```") == 2 * len(blocks(page)), page


def test_ten_lines_are_enough():
    """The code that the page marks as new, without its imports."""
    (text,) = (body for language, body in blocks("many-machines.md") if body.startswith("# train.py"))
    new = re.findall(r"# >>>\n(.*?)# <<<", text, re.DOTALL)
    lines = [line.strip() for part in new for line in part.splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith("from")]) <= 10, lines
