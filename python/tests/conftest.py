"""Common parts of the tests."""

import os
import signal
import subprocess
import sys

import pytest

import paddlewheel.fluid as fluid
from clusters import Cluster

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
#: Scripts that tests run as they are.
PROGRAMS = os.path.join(HERE, "programs")
# Tests in the background of a shell ignore Ctrl-C, and so do all processes that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["paddlewheel"].__file__)))


def pytest_terminal_summary(terminalreporter):
    """Notes what was skipped where `make test` prints it, in its last lines."""
    if "SKIPPED_TESTS" not in os.environ:
        return
    skipped = terminalreporter.stats.get("skipped", [])
    lines = {"%s: %s\n" % (report.nodeid, report.longrepr[2].partition("Skipped: ")[2]) for report in skipped}
    # Where tests run side by side, this is called more than once.
    with open(os.environ["SKIPPED_TESTS"], "a+", encoding="utf-8") as file:
        file.seek(0)
        file.writelines(sorted(lines.difference(file)))


def saved_in(folder):
    """The names of what was saved into a folder, sorted, but for the list of it."""
    return sorted(name for name in os.listdir(str(folder)) if name != ".paddlewheel")


def files_in(folder):
    """The names of all files that were saved into a folder and the folders in it, sorted, but for the list of them."""
    paths = (os.path.join(at, name) for at, _, names in os.walk(str(folder)) for name in names)
    return sorted(name for name in (os.path.relpath(path, str(folder)) for path in paths) if name != ".paddlewheel")


@pytest.fixture(autouse=True)
def fresh():
    """Each test has its own programs, scope and names."""
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield


@pytest.fixture
def child(tmp_path):
    """Runs Python in a process and folder of its own; returns what came of it."""

    def run(*arguments, alias=False, **options):
        environment = dict(os.environ)
        paths = [PACKAGES] + ([os.path.join(PACKAGES, "paddlewheel", "_alias")] if alias else [])
        paths.append(environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        environment.update(options.pop("environment", {}))
        return subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            **options,
        )

    return run


@pytest.fixture
def cluster(tmp_path):
    """Processes of this test, in a folder of its own."""
    mine = Cluster(tmp_path)
    yield mine
    mine.close()
