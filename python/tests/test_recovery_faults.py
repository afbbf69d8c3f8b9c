"""A job continues while its disk of snapshots is full or read-only, when processes stand still, and when a cut is damaged.

`python rig/faults.py` does the same again and again.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from clusters import Cluster, free_endpoints, is_alive, server_variables, trainer_variables, wait_until
from conftest import HERE
from test_recovery import JOB, STEPS, job, undisturbed  # noqa: F401: fixtures

sys.path.insert(0, os.path.join(HERE, "rig"))
import faults  # noqa: E402

#: Slow enough for something to happen between two steps.
PACE = "0.02"


def steps_of(job):
    return job.log("workerlog.0").count("\nstep ")


def wait_for_more_steps(job, n=10):
    before = steps_of(job)
    job.wait_for("%d more steps" % n, lambda: steps_of(job) >= before + n)


def kept(job, server):
    return job.log("serverlog.%d" % server).count("is kept: ")


def wait_for_more_cuts(job, n=2):
    before = [kept(job, server) for server in (0, 1)]
    job.wait_for("more cuts", lambda: all(kept(job, at) >= before[at] + n for at in (0, 1)))


@pytest.fixture
def disk():
    if why := faults.why_no_disk():
        pytest.skip(why)
    disks = []

    def make(folder):
        disks.append(faults.SmallDisk(folder / "snapshots", 8))
        return disks[-1]

    make.disks = disks
    yield make
    for one in disks:
        one.close()


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_job_trains_on_while_its_disk_takes_nothing(disk, job, undisturbed, fault):  # noqa: F811
    disturbed = job("disturbed", "sync", prepare=disk, PACE=PACE)
    try:
        disturbed.wait_for_step(20, n_cuts=1)
        [own] = disk.disks
        own.fill() if fault == "full" else own.forbid_writing()
        failed = lambda at: "was not made: " in disturbed.log("serverlog.%d" % at)  # noqa: E731
        disturbed.wait_for("a warning", lambda: failed(0) or failed(1))
        wait_for_more_steps(disturbed)
        own.free() if fault == "full" else own.allow_writing()
        wait_for_more_cuts(disturbed)
        disturbed.signal("server.1")
        wait_for_more_steps(disturbed)
        disturbed.signal("trainer.0")
        disturbed.finish()
        assert disturbed.saved() == undisturbed, disturbed.logs()
    finally:
        disturbed.cluster.close()


def test_a_rollback_waits_for_a_disk_that_takes_nothing(disk, job, undisturbed):  # noqa: F811
    disturbed = job("disturbed", "sync", prepare=disk, PACE=PACE)
    try:
        disturbed.wait_for_step(20, n_cuts=1)
        [own] = disk.disks
        own.fill()
        disturbed.signal("trainer.1")
        tried = lambda at: "it is tried again" in disturbed.log("serverlog.%d" % at)  # noqa: E731
        disturbed.wait_for("a warning", lambda: tried(0) or tried(1))
        own.free()
        disturbed.finish()
        assert disturbed.saved() == undisturbed, disturbed.logs()
    finally:
        disturbed.cluster.close()


#: A server is silent for so long. Its trainers call it lost after 20 s; rig/faults.py waits longer than that.
SERVER_SECS = int(os.environ.get("SERVER_SECS", 5))


@pytest.mark.parametrize("who, seconds", [("trainer.1", 5), ("server.1", SERVER_SECS)])
def test_who_stands_still_takes_its_place_again(job, undisturbed, who, seconds):  # noqa: F811
    disturbed = job("disturbed", "sync", PACE=PACE, FLAGS_worker_update_interval_secs="3")
    disturbed.wait_for_step(20, n_cuts=1)
    pid = disturbed.pid(who)
    os.kill(pid, signal.SIGSTOP)
    try:
        end = time.monotonic() + seconds
        disturbed.wait_for("%d s" % seconds, lambda: time.monotonic() >= end)
    finally:
        os.kill(pid, signal.SIGCONT)
    disturbed.finish()
    if who == "trainer.1":
        assert "trainer 1 died: it was last heard" in disturbed.log("serverlog.0"), "its lease is 3 s"
    assert disturbed.saved() == undisturbed, disturbed.logs()


@pytest.mark.parametrize("n_damaged", [1, 2])
def test_a_damaged_newest_cut_is_not_the_end(job, undisturbed, n_damaged):  # noqa: F811
    disturbed = job("disturbed", "sync", PACE=PACE)
    disturbed.wait_for_step(20, n_cuts=4)
    # No other cut is made meanwhile, and the launcher must not start the server before its files are damaged.
    trainers = [disturbed.pid("trainer.%d" % rank) for rank in (0, 1)]
    for trainer in trainers:
        os.kill(trainer, signal.SIGSTOP)
    disturbed.wait_for("the same cuts on both", lambda: kept(disturbed, 0) == kept(disturbed, 1))
    disturbed.cluster.signal("launcher", signal.SIGSTOP)
    pid = disturbed.pid("server.1")
    os.kill(pid, signal.SIGKILL)
    wait_until("its end", lambda: not is_alive(pid))
    newest = faults.damage_newest_cuts(disturbed.folder / "snapshots" / "server.1", n_damaged)
    disturbed.cluster.signal("launcher", signal.SIGCONT)
    for trainer in trainers:
        os.kill(trainer, signal.SIGCONT)
    disturbed.finish()
    said = disturbed.log("serverlog.1")
    assert all("%s is damaged" % name in said for name in newest), disturbed.logs()
    # A trainer remembers the time since the last cut that it knows to be on all servers: not that of two cuts.
    for rank in (0, 1) if n_damaged > 1 else ():
        assert "does not remember" in disturbed.log("workerlog.%d" % rank), disturbed.logs()
    assert disturbed.saved() == undisturbed, disturbed.logs()


def test_a_job_whose_servers_keep_no_cut_ends_in_time_and_can_go_on(disk, job):  # noqa: F811
    variables = {"N_ROWS": "16384", "FLAGS_recovery_memory_mb": "64", "PACE": PACE}
    disturbed = job("disturbed", "async", prepare=disk, **variables)
    try:
        disturbed.wait_for_step(20, n_cuts=1)
        [own] = disk.disks
        own.fill()
        words = "the servers have kept no cut since cut "
        said = lambda rank: words in disturbed.log("workerlog.%d" % rank)  # noqa: E731
        disturbed.wait_for("its words", lambda: said(0) or said(1))
        own.free()
        disturbed.finish()
        total = sum(step % 8 + 1 for step in range(disturbed.n_steps))
        assert disturbed.w().tolist() == [1 - 0.25 * 2 * total] * 4, disturbed.logs()
    finally:
        disturbed.cluster.close()


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    """A library that moves the wall clock of processes that load it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build tools/clock.c")
    library = str(tmp_path_factory.mktemp("clock") / "clock.so")
    source = os.path.join(HERE, "tools", "clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def test_a_clock_that_jumps_changes_nothing(clock, tmp_path, job, undisturbed):  # noqa: F811
    moved, new = tmp_path / "moved", tmp_path / "new"
    moved.write_text("0")
    jumping = job("jumping", "sync", PACE=PACE, LD_PRELOAD=clock, CLOCK_FILE=str(moved))
    n_terms = lambda: jumping.log("serverlog.0").count("everybody goes back to a cut")  # noqa: E731
    jumping.wait_for_step(20, n_cuts=1)
    for days, victim in ((100, "server.1"), (-1000, "trainer.0")):
        before = n_terms()
        new.write_text(str(days * 86400))
        os.rename(new, moved)
        wait_for_more_steps(jumping)
        wait_for_more_cuts(jumping)
        there = time.strftime("I%m%d ", time.gmtime(time.time() + days * 86400))
        assert there in jumping.log("serverlog.0"), "its clock did not jump\n" + jumping.logs()
        assert n_terms() == before, "nobody died\n" + jumping.logs()
        jumping.signal(victim)
        jumping.wait_for("a new term", lambda: n_terms() > before)  # noqa: B023
        wait_for_more_steps(jumping)
    jumping.finish()
    assert jumping.saved() == undisturbed, jumping.logs()


class Processes:
    """Two servers and two trainers that are not started again; there is no cut unless one is requested."""

    def __init__(self, cluster):
        self.cluster, self.endpoints = cluster, free_endpoints(2)

    def server(self, at):
        own = server_variables(self.endpoints, at, 2)
        self._start("server %d" % at, own)

    def trainer(self, at):
        own = trainer_variables(self.endpoints, at, 2)
        self._start("trainer %d" % at, own)

    def finish(self):
        (self.cluster.folder / "hurry").touch()
        for name in ("trainer 0", "trainer 1", "server 0", "server 1"):
            self.cluster.expect(name, 0)

    def _start(self, name, own):
        flags = {"FLAGS_snapshot_dir": "snapshots", "FLAGS_snapshot_secs": "600", "PACE": PACE}
        self.cluster.start(name, JOB, "sync", str(STEPS), "model", **own, **flags)


@pytest.fixture
def processes(tmp_path):
    cluster = Cluster(tmp_path)
    yield Processes(cluster)
    cluster.close()


@pytest.mark.parametrize("at", [0, 1])
def test_a_server_that_is_asked_to_end_asks_for_a_cut_at_once(processes, at):
    cluster = processes.cluster
    for one in (0, 1):
        processes.server(one)
        processes.trainer(one)
    cluster.wait_for("trainer 0", "step 20\n")
    name = "server %d" % at
    cluster.signal(name, signal.SIGTERM)
    cluster.expect(name, 128 + signal.SIGTERM, limit=15)
    log = cluster.log(name)
    assert "cut 1 is kept" in log and "no cut was made in time" not in log, log
    assert "step %d\n" % (STEPS - 1) not in cluster.log("trainer 0"), "it did not wait for the end"
    processes.server(at)
    processes.finish()


def test_a_server_that_is_asked_twice_ends_at_once(processes):
    cluster = processes.cluster
    for one in (0, 1):
        processes.server(one)
    # There are no trainers that a cut could be made with, except one that waits for the other.
    processes.trainer(0)
    cluster.wait_for("server 1", "trainer 0 joined")
    cluster.signal("server 1", signal.SIGTERM)
    cluster.wait_for("server 1", "asked to end")
    cluster.signal("server 1", signal.SIGTERM)
    cluster.expect("server 1", 128 + signal.SIGTERM, limit=5)


def test_a_server_that_starts_after_the_end_does_not_wait_long(processes):
    cluster = processes.cluster
    for one in (0, 1):
        processes.server(one)
        processes.trainer(one)
    processes.finish()
    processes.server(1)
    cluster.expect("server 1", 0, limit=30)
    assert "the job is over: all trainers were through" in cluster.log("server 1"), cluster.logs()
