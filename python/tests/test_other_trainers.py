"""A job continues with another number of trainers: the interrupted pass is finished, and every sample of it counts once."""

import collections
import os
import re
import signal

import numpy
import pytest

from clusters import Cluster, wait_until
from conftest import HERE

JOB = os.path.join(HERE, "jobs", "counting.py")
N_FILES, N_LINES = 6, 40


class Counting:
    """A job over files in which no number stands twice."""

    def __init__(self, folder, n_passes, **variables):
        self.folder, self.n_passes, self.variables = folder, n_passes, variables
        self.cluster = Cluster(folder)
        self.files = ["part-%d" % at for at in range(N_FILES)]
        for at, name in enumerate(self.files):
            lines = range(at * N_LINES, (at + 1) * N_LINES)
            (folder / name).write_text("".join("1 %d\n" % number for number in lines))

    def start(self, n_trainers, *more):
        self.n_cuts_before = self.n_cuts()
        command = ["-m", "paddlewheel", "launch_ps", "--worker_num", str(n_trainers), "--server_num", "2"]
        command += ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.1", *more]
        self.cluster.start("launcher", *command, JOB, ",".join(self.files), str(self.n_passes), "model", **self.variables)

    def log(self, name):
        path = self.folder / "logs" / name
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self):
        paths = sorted((self.folder / "logs" / "latest").glob("*log.*"))
        return "\n".join([self.cluster.logs()] + ["--- %s\n%s" % (path.name, path.read_text()[-3000:]) for path in paths])

    def n_cuts(self):
        return len(re.findall("cut [0-9]+ is kept", self.log("serverlog.0")))

    def stop_after(self, n_cuts):
        """Ends the launcher when the first server has kept so many cuts since its start."""
        wait_until("%d cuts" % n_cuts, lambda: self.n_cuts() >= self.n_cuts_before + n_cuts, context=self.logs)
        self.cluster.signal("launcher", signal.SIGTERM)
        assert self.cluster.wait("launcher") == 75, self.logs()

    def finish(self):
        (self.folder / "hurry").touch()
        assert self.cluster.wait("launcher") == 0, self.logs()

    def counts(self):
        """How many samples were trained how often."""
        raw = (self.folder / "model" / "table").read_bytes()
        rows = numpy.frombuffer(raw[-4 * 2000 :], "float32")[: N_FILES * N_LINES]
        return dict(collections.Counter((100.0 - rows).round().astype(int).tolist()))


@pytest.fixture
def counting(tmp_path):
    jobs = []

    def start(**options):
        jobs.append(Counting(tmp_path, **options))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


@pytest.mark.parametrize("before, after", [(2, 3), (3, 1)])
def test_the_rest_of_a_pass_is_divided_among_other_trainers(counting, before, after):
    job = counting(n_passes=2)
    job.start(before)
    job.stop_after(6)
    job.start(after, "--resume", "snapshots")
    job.finish()
    assert job.counts() == {2: N_FILES * N_LINES}, job.logs()
    assert "trainers before had begun it" in job.log("workerlog.0"), job.logs()


def test_passes_that_were_made_are_not_made_again(counting):
    job = counting(n_passes=3, PACE="0.012")
    job.start(2)
    wait_until("a pass", lambda: "pass 1\n" in job.log("workerlog.0"), context=job.logs)
    job.stop_after(1)
    # The rest must last for three cuts, also on a busy machine.
    job.variables["PACE"] = "0.2"
    job.start(3, "--resume", "snapshots")
    job.stop_after(3)
    job.start(2, "--resume", "snapshots")
    job.finish()
    assert job.counts() == {3: N_FILES * N_LINES}, job.logs()
    assert "pass 1: the former trainers completed it" in job.log("workerlog.0"), job.logs()

