"""Folders of snapshots that cannot be used: an error that says why, at the start, and nothing is trained."""

import os
import shutil
import sys

import pytest

from clusters import Cluster, wait_until
from conftest import HERE

JOB = os.path.join(HERE, "jobs", "kept.py")
COMMAND = ["-m", "paddlewheel", "launch_ps", "--worker_num", "1", "--server_num", "1"]
COMMAND += ["--snapshot_dir", "kept", "--snapshot_secs", "0.1", JOB]


@pytest.fixture
def job(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def said(folder):
    """The output of the processes."""
    logs = folder / "logs"
    texts = [path.read_text(errors="replace") for path in sorted(logs.glob("*log.0"))] if logs.exists() else []
    return "\n".join(texts)


def begin(job, **variables):
    """A job that has kept a cut, and whose launcher was killed then."""
    job.start("first", *COMMAND, **variables)
    kept = lambda: "cut 2 is kept" in said(job.folder) or said(job.folder).count("is kept: ") > 1  # noqa: E731
    wait_until("a cut", kept, context=lambda: job.logs() + said(job.folder))
    job.kill("first")
    lock = job.folder / "kept" / "server.0" / "lock"
    wait_until("all are gone", lambda: not is_locked(lock))


def is_locked(path):
    """Whether a process holds the lock of a file."""
    import fcntl

    with open(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def check_refused(job, text, **variables):
    """The same command again is an error with these words, and no process trains."""
    shutil.rmtree(job.folder / "logs", ignore_errors=True)
    job.start("second", *COMMAND, **variables)
    job.expect("second", 1)
    everything = job.log("second") + said(job.folder)
    assert text in everything, everything
    assert "joined" not in said(job.folder), "no trainer came so far"


def test_snapshots_of_another_model(job):
    begin(job, OUTPUTS="4")
    before = sorted(os.listdir(str(job.folder / "kept" / "server.0")))
    check_refused(job, "of another model", OUTPUTS="5")
    assert sorted(os.listdir(str(job.folder / "kept" / "server.0"))) == before, "they are left alone"


def test_snapshots_of_a_later_format(job):
    begin(job)
    for path in (job.folder / "kept" / "server.0").glob("base.*"):
        bytes_of = bytearray(path.read_bytes())
        bytes_of[8] = 2
        path.write_bytes(bytes_of)
    check_refused(job, "has format 2, which is newer than what is known here (1)")


def needs_mounts():
    """Where file systems can be mounted, for this process alone."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("it mounts file systems, for which it must be root")
    if os.system("unshare -m mount -t tmpfs none /mnt 2> /dev/null") != 0:
        pytest.skip("file systems cannot be mounted here")


@pytest.mark.parametrize(
    "mount, outputs, text",
    [
        ("mount -t tmpfs -o size=1m none kept", "4", "no space is left for snapshots in "),
        # There is space for a trial, but not for the model.
        ("mount -t tmpfs -o size=6m none kept", "3000", "o space"),
        ("mount -t tmpfs -o ro none kept", "4", "snapshots cannot be written to "),
    ],
    ids=["full", "small", "read_only"],
)
def test_disks_without_space_or_permission(job, mount, outputs, text):
    needs_mounts()
    (job.folder / "kept").mkdir()
    command = " ".join(["'%s'" % sys.executable, *COMMAND])
    job.shell("second", "exec unshare -m sh -c \"%s && exec %s\"" % (mount, command), OUTPUTS=outputs)
    job.expect("second", 1)
    everything = job.log("second") + said(job.folder)
    assert text in everything, everything
    assert "joined" not in said(job.folder), "no trainer came so far"


def test_a_disk_that_stays_full_does_not_keep_a_job_from_its_end(job):
    needs_mounts()
    (job.folder / "kept").mkdir()
    command = " ".join(["'%s'" % sys.executable, *COMMAND])
    mount = "mount -t tmpfs -o size=16m none kept"
    job.shell("job", 'exec unshare -m sh -c "%s && exec %s"' % (mount, command))
    wait_until("a cut", lambda: "is kept: " in said(job.folder), context=job.logs)
    # The folder as the job sees it.
    inside = "/proc/%d/root%s" % (job.pid("job"), job.folder / "kept")
    with open(os.path.join(inside, "filler"), "wb", buffering=0) as filler:
        with pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))
    wait_until("a cut that fails", lambda: "was not made: " in said(job.folder), context=lambda: said(job.folder))
    (job.folder / "enough").touch()
    job.expect("job", 0)
    assert "the last snapshot" in said(job.folder) and "no space" in said(job.folder), said(job.folder)


def process_of(job, role):
    """The first process of a role that the launcher has started."""
    launcher = job.pid("job")
    with open("/proc/%d/task/%d/children" % (launcher, launcher)) as file:
        children = [int(word) for word in file.read().split()]
    for pid in sorted(children):
        with open("/proc/%d/environ" % pid) as file:
            if "TRAINING_ROLE=" + role in file.read().split("\0"):
                return pid
    raise AssertionError("no %s among %s" % (role, children))


@pytest.mark.parametrize("role", ["PSERVER", "TRAINER"])
def test_a_lost_folder_of_a_server_ends_the_job_at_the_next_death_with_a_remedy(job, role):
    command = list(COMMAND)
    command[command.index("--server_num") + 1] = "2"
    job.start("job", *command)
    # The first cuts, which every server has, have been removed.
    wait_until("cuts", lambda: "cut 8 is kept" in said(job.folder), context=lambda: job.logs() + said(job.folder))
    (job.folder / "kept" / "server.0").rename(job.folder / "lost")
    os.kill(process_of(job, role), 9)
    log = job.expect("job", 1, limit=30)
    for words in ("server 0 (127.0.0.1:", "has lost its snapshots", "Put back the folder", "start the job again"):
        assert words in log, log


def test_a_lost_folder_is_said_while_the_job_runs_and_the_job_ends_as_usual(job):
    job.start("job", *COMMAND)
    wait_until("a cut", lambda: "is kept: " in said(job.folder), context=lambda: job.logs() + said(job.folder))
    (job.folder / "kept" / "server.0").rename(job.folder / "lost")
    job.wait_for("job", "The folder was removed while the job runs", limit=30)
    assert "Server 0: " in job.log("job")
    (job.folder / "enough").touch()
    job.expect("job", 0)


def test_a_table_that_memory_does_not_hold_is_an_error_that_says_what_to_do(job):
    command = ["-m", "paddlewheel", "launch_ps", "--worker_num", "1", "--server_num", "1"]
    job.start("job", *command, os.path.join(HERE, "jobs", "growing.py"), ROOM="300")
    log = job.expect("job", 1)
    for words in ("there is no memory for table `grows`", "MiB in all", "use more servers", "There was not enough memory"):
        assert words in log, log
    assert "SIGABRT" not in log, log


def test_a_process_that_ends_without_memory_is_named_as_that(job):
    """Memory that is asked for without a way back: the process aborts with a line of its own."""
    (job.folder / "aborts.py").write_text(
        "import os, sys\n"
        "if os.environ['TRAINING_ROLE'] == 'PSERVER':\n"
        "    sys.stderr.write('memory allocation of 1073741824 bytes failed\\n')\n"
        "    sys.stderr.flush()\n"
        "    os.abort()\n"
        "import signal; signal.pause()\n"
    )
    job.start("job", "-m", "paddlewheel", "launch_ps", "--worker_num", "1", "--server_num", "1", "aborts.py")
    wait_until("the end", lambda: not job.is_running("job"), context=job.logs)
    log = job.log("job")
    assert job.processes["job"].returncode != 0, log
    assert "server 0" in log and "ended without memory. There was not enough memory" in log, log
