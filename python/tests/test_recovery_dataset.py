"""Processes of a job are killed in the middle of passes over datasets, and the job continues as if they had not."""

import os
import random

import numpy
import pytest

from conftest import HERE
from test_recovery import Job

SCRIPT = os.path.join(HERE, "jobs", "recovering_dataset.py")
N_FILES, N_PASSES, BATCH, N_BATCHES = 4, 2, 4, 800
#: Batches of a pass between two that are printed.
PERIOD = 10


class Passes(Job):
    """A job whose trainers make passes over files."""

    def __init__(self, folder, mode, kind, n_threads, snapshots=True, **variables):
        self.kind, self.n_threads = kind, n_threads
        super().__init__(folder, mode, snapshots, **variables)

    def start(self):
        self.write_data()
        command = ["-m", "paddlewheel", "launch_ps", "--worker_num", "2", "--server_num", "2"]
        if self.snapshots:
            command += ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.2", "--max_restarts", "100"]
        arguments = [SCRIPT, self.mode, str(self.n_threads), "model"]
        self.cluster.start("launcher", *command, *arguments, KIND=self.kind, **self.variables)

    def write_data(self):
        write_data(self.folder / "data", is_exact=self.mode == "sync")

    def n_printed(self, rank=0):
        """Batches of the first thread that a trainer has told of, since it was first started."""
        return self.log("workerlog.%d" % rank).count("now\t")

    def wait_for_batches(self, n, n_cuts=0):
        """Until trainer 0 has printed so often, and the last server has kept so many cuts."""
        kept = lambda: self.log("serverlog.1").count("is kept: ")  # noqa: E731
        self.wait_for("%d printed batches" % n, lambda: self.n_printed() >= n)
        self.wait_for("%d cuts" % n_cuts, lambda: kept() >= n_cuts)


def write_data(folder, is_exact, id_of=int):
    """Files of both trainers."""
    folder.mkdir()
    n_lines = N_BATCHES * BATCH // N_FILES
    for rank in (0, 1):
        rng = random.Random(rank)
        for at in range(N_FILES):
            lines = []
            for line in range(n_lines):
                if is_exact:
                    x = " ".join("%.3f" % rng.random() for _ in range(4))
                    ids = [id_of(rng.randrange(100)) for _ in range(1 + line % 3)]
                    ids = "%d %s" % (len(ids), " ".join(map(str, ids)))
                    lines.append("4 %s %s 1 %d" % (x, ids, rng.randrange(2)))
                else:
                    # All samples of a batch are alike, and a file is a number of batches.
                    lines.append("4 " + " ".join([str(line // BATCH % 8 + 1)] * 4))
            (folder / ("%d-%d" % (rank, at))).write_text("\n".join(lines) + "\n")


@pytest.fixture
def job(tmp_path):
    jobs = []

    def start(name, *arguments, **options):
        jobs.append(Passes(tmp_path / name, *arguments, **options))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


@pytest.mark.parametrize("kind, n_threads", [("queue", 1), ("queue", 2), ("shuffled", 2)])
def test_a_killed_process_changes_nothing_in_sync(job, kind, n_threads):
    # Without snapshots, chance decides which thread reads which file.
    calm = job("calm", "sync", kind, n_threads, snapshots=n_threads > 1)
    calm.finish()
    disturbed = job("disturbed", "sync", kind, n_threads)
    disturbed.wait_for_batches(4, n_cuts=1)
    disturbed.signal("server.1")
    disturbed.wait_for_batches(12 + 10 * n_threads)
    disturbed.signal("trainer.1")
    disturbed.wait_for_batches(40)
    assert disturbed.n_printed() <= N_PASSES * N_BATCHES // n_threads // PERIOD, "who lives tells nothing twice"
    disturbed.signal("server.0", "trainer.0")
    disturbed.finish()
    assert disturbed.saved() == calm.saved(), disturbed.logs()


def test_every_sample_counts_once_in_async(job):
    disturbed = job("disturbed", "async", "queue", 2)
    disturbed.wait_for_batches(4, n_cuts=1)
    disturbed.signal("trainer.0")
    disturbed.wait_for_batches(20)
    disturbed.signal("server.0")
    disturbed.wait_for_batches(30)
    disturbed.signal("trainer.1")
    disturbed.finish()
    n_batches = N_BATCHES // N_FILES
    total = 2 * N_PASSES * N_FILES * sum(batch % 8 + 1 for batch in range(n_batches))
    assert disturbed.w().tolist() == [1 - 0.25 * total] * 4, disturbed.logs()
    assert numpy.isfinite(disturbed.w()).all()
