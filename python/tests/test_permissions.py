"""The permissions of a job's files: the umask decides, but snapshots are for the user alone."""

import os

import pytest

from clusters import Cluster, wait_until
from conftest import HERE

JOB = os.path.join(HERE, "jobs", "kept.py")
SAVE = """
import sys
import paddlewheel.fluid as fluid

x = fluid.data("x", [None, 3])
y = fluid.layers.fc(x, 2)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fluid.io.save_persistables(exe, "model/nested")
fluid.io.save_inference_model("served", ["x"], [y], exe)
"""


@pytest.fixture
def job(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def modes(folder):
    """The permissions of everything below a folder, and of itself, by whether it is a folder."""
    found = {True: set(), False: set()}
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            found[path.is_dir()].add(oct(path.stat().st_mode & 0o777))
    return found


@pytest.mark.parametrize("umask, folder, file", [("022", "0o755", "0o644"), ("077", "0o700", "0o600")])
def test_the_umask_decides_for_saves(job, umask, folder, file):
    (job.folder / "save.py").write_text(SAVE)
    job.shell("save", "umask %s; exec python save.py" % umask)
    job.expect("save")
    for name in ("model", "served"):
        assert modes(job.folder / name) == {True: {folder}, False: {file}}
    assert (job.folder / "model" / "nested" / ".paddlewheel").is_file()


@pytest.mark.parametrize("umask, file", [("022", "0o644"), ("077", "0o600")])
def test_snapshots_are_for_the_user_alone_and_logs_as_the_umask_says(job, umask, file):
    command = "python -m paddlewheel launch_ps --worker_num 1 --server_num 1 --snapshot_dir kept --snapshot_secs 0.1"
    job.shell("job", "umask %s; exec %s %s" % (umask, command, JOB))
    log = job.folder / "logs" / "serverlog.0"
    wait_until("a cut", lambda: log.exists() and log.read_text().count("is kept: ") > 2, context=job.logs)
    (job.folder / "enough").touch()
    job.expect("job")
    assert modes(job.folder / "kept") == {True: {"0o700"}, False: {"0o600"}}
    logs = [path for path in (job.folder / "logs").rglob("*log.0") if not path.is_symlink()]
    assert logs and {oct(path.stat().st_mode & 0o777) for path in logs} == {file}
