"""Processes of a job are killed while their script runs its own steps, and the job continues as if they had not."""

import hashlib
import os
import signal

import numpy
import pytest

from clusters import Cluster, is_alive, wait_until
from conftest import HERE, files_in

JOB = os.path.join(HERE, "jobs", "recovering.py")
STEPS = 400
#: Modes without waits are quick.
QUICK_STEPS = 1500


class Job:
    """Two servers and two trainers that a launcher starts, and starts again."""

    def __init__(self, folder, mode, snapshots=True, n_servers=2, prepare=None, **variables):
        folder.mkdir()
        if prepare:
            prepare(folder)
        self.folder, self.mode, self.snapshots, self.n_servers = folder, mode, snapshots, n_servers
        self.n_steps = STEPS if mode == "sync" else QUICK_STEPS
        self.variables = variables
        self.cluster = Cluster(folder)
        self.start()

    def start(self, *more):
        """The same command again resumes the job."""
        command = ["-m", "paddlewheel", "launch_ps", "--worker_num", "2", "--server_num", str(self.n_servers)]
        if self.snapshots:
            command += ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.2", "--max_restarts", "100"]
        self.cluster.start("launcher", *command, *more, JOB, self.mode, str(self.n_steps), "model", **self.variables)

    def hurry(self):
        """Nothing more is to happen to the job: its script need not wait for the test."""
        (self.folder / "hurry").touch()

    def log(self, name):
        path = self.folder / "logs" / "latest" / name
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self):
        """The ends of all logs, for the message of a failed test."""
        ends = [self.cluster.logs()]
        for path in sorted((self.folder / "logs" / "latest").glob("*log.*")):
            lines = path.read_text(errors="replace").splitlines()
            ends.append("--- %s\n%s" % (path.name, "\n".join(lines[-30:])))
        return "\n".join(ends)

    def wait_for(self, what, so):
        def so_or_over():
            assert self.cluster.is_running("launcher") or so(), "the job is over: %s\n%s" % (what, self.logs())
            return so()

        wait_until(what, so_or_over, context=self.logs)

    def wait_for_step(self, step, n_cuts=0):
        """Until trainer 0 has made a step, and the last server has kept a cut."""
        self.wait_for("step %d" % step, lambda: "step %d\n" % step in self.log("workerlog.0"))
        kept = lambda: self.log("serverlog.1").count("is kept: ")  # noqa: E731
        self.wait_for("%d cuts" % n_cuts, lambda: kept() >= n_cuts)

    def pid(self, name):
        return int((self.folder / (name + ".pid")).read_text())

    def signal(self, *names, number=signal.SIGKILL):
        """Sends a signal to processes, all at once."""
        pids = [self.pid(name) for name in names]
        for pid in pids:
            os.kill(pid, number)
        self.wait_for("the end of %s" % (names,), lambda: not any(map(is_alive, pids)))

    def finish(self, code=0):
        self.hurry()
        found = self.cluster.wait("launcher")
        assert found == code, self.logs()
        return found

    def saved(self):
        """The saved files, and the observations of the scripts."""
        model = self.folder / "model"
        files = {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in files_in(model)}
        return files, [(self.folder / ("seen.%d" % rank)).read_text() for rank in (0, 1)]

    def w(self):
        return numpy.frombuffer((self.folder / "model" / "w").read_bytes()[-16:], "float32")


@pytest.fixture
def job(tmp_path):
    jobs = []

    def start(name, mode, **options):
        jobs.append(Job(tmp_path / name, mode, **options))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A sync job without deaths and without cuts."""
    calm = Job(tmp_path_factory.mktemp("calm") / "job", "sync", snapshots=False)
    try:
        calm.finish()
        return calm.saved()
    finally:
        calm.cluster.close()


@pytest.mark.parametrize("victims", [["server.1"], ["trainer.0"], ["trainer.1", "server.0"]], ids="+".join)
def test_a_killed_process_changes_nothing_in_sync(job, undisturbed, victims):
    disturbed = job("disturbed", "sync")
    disturbed.wait_for_step(60, n_cuts=1)
    disturbed.signal(*victims)
    disturbed.finish()
    assert disturbed.saved() == undisturbed, disturbed.logs()


def test_batches_of_a_reader_come_again(job, undisturbed):
    disturbed = job("disturbed", "sync", READER="1")
    disturbed.wait_for_step(60, n_cuts=1)
    disturbed.signal("trainer.0")
    disturbed.wait_for_step(150)
    disturbed.signal("server.0")
    disturbed.finish()
    assert disturbed.saved() == undisturbed, disturbed.logs()


@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_every_step_counts_once_in_other_modes(job, mode):
    disturbed = job("disturbed", mode)
    disturbed.wait_for_step(60, n_cuts=1)
    disturbed.signal("server.0")
    disturbed.wait_for_step(100)
    disturbed.signal("trainer.1")
    disturbed.finish()
    # Both trainers feed the same: equal numbers for each of the four weights.
    total = sum(step % 8 + 1 for step in range(QUICK_STEPS))
    if mode == "geo":
        assert disturbed.w() == pytest.approx([geo_after(QUICK_STEPS)] * 4, rel=1e-4), disturbed.logs()
    else:
        assert disturbed.w().tolist() == [1 - 0.25 * 2 * total] * 4, disturbed.logs()


def geo_after(n_steps, every=100):
    """The sums that two trainers have sent, of which each sends half of the unsent rest, every so many steps."""
    sent, pending = 0.0, 0.0
    for step in range(n_steps):
        pending -= 0.25 * (step % 8 + 1)
        if step % every == every - 1 or step == n_steps - 1:
            sent, pending = sent + pending / 2, pending / 2
    return 1 + 2 * sent


def test_a_whole_job_that_was_asked_to_end_goes_on_when_it_is_started_again(job, undisturbed):
    stopped = job("stopped", "sync")
    stopped.wait_for_step(60, n_cuts=1)
    stopped.cluster.signal("launcher", signal.SIGTERM)
    # It has not finished: the lines after it in a script must not run.
    assert stopped.cluster.wait("launcher") == 75, stopped.logs()
    assert "the job has not finished (exit code 75)" in stopped.cluster.log("launcher"), stopped.logs()
    assert "it ends now" in stopped.log("workerlog.0"), stopped.logs()
    n_steps = stopped.log("workerlog.0").count("step ")
    assert n_steps < STEPS, "it ended before it was through"
    stopped.start()
    stopped.finish()
    assert stopped.saved() == undisturbed, stopped.logs()


def test_a_trainer_that_is_asked_to_end_is_started_again(job, undisturbed):
    stopped = job("stopped", "sync")
    stopped.wait_for_step(60)
    stopped.signal("trainer.1", number=signal.SIGTERM)
    assert "is kept, it ends now" in stopped.log("workerlog.1"), stopped.logs()
    stopped.finish()
    assert stopped.saved() == undisturbed, stopped.logs()


def test_a_script_that_does_not_repeat_itself_ends_with_an_error(job):
    changed = job("changed", "sync", CHANGES="1")
    changed.wait_for_step(60, n_cuts=2)
    changed.signal("trainer.0")
    changed.hurry()
    assert changed.cluster.wait("launcher") != 0
    assert "the script does not repeat itself: event 1, a run (fed" in changed.log("workerlog.0"), changed.logs()
