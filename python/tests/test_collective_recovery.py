"""A trainer without servers dies, is started again, and the job ends as if nothing had happened."""

import hashlib
import os
import re
import signal

import numpy
import pytest

from clusters import Cluster, free_endpoints
from test_collective import variables

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "let_back_in.py")
#: Cuts come often, so that there are some before and some after every death.
KEEPS = {"FLAGS_max_restarts": "3", "FLAGS_snapshot_secs": "0.1"}


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def start(cluster, name, endpoints, at, *arguments, **more):
    own = variables(endpoints, at, **{**KEEPS, **more})
    cluster.start(name + str(at), SCRIPT, *arguments, **own)


def model(folder):
    """The bytes of a saved model, by file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha1(path.read_bytes()).hexdigest() for path in files}


def losses(log):
    """The loss of each step as it was printed last."""
    return dict(re.findall(r"step (\d+) loss (\S+)", log))


def undisturbed(cluster, n, *arguments, **more):
    endpoints = free_endpoints(n)
    for at in range(n):
        start(cluster, "u", endpoints, at, *arguments, "--model", "undisturbed", **more)
    logs = [cluster.expect("u%d" % at) for at in range(n)]
    return model(cluster.folder / "undisturbed"), logs


@pytest.mark.parametrize("kind", ["grad_allreduce", "nccl2", "local_sgd"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_trainer_that_died_is_let_back_in(cluster, kind, victim):
    arguments = [kind, "--steps", "30"]
    whole, logs = undisturbed(cluster, 2, *arguments)
    assert whole
    endpoints = free_endpoints(2)
    arguments += ["--pause", "0.05", "--model", "disturbed"]
    for at in range(2):
        start(cluster, "t", endpoints, at, *arguments)
    # At the start, in the middle, and when it has just caught up.
    for moment in ("step 0 ", "step 9 ", "step 17 "):
        cluster.wait_for("t%d" % victim, moment)
        cluster.kill("t%d" % victim)
        start(cluster, "t", endpoints, victim, *arguments)
    ends = [cluster.expect("t%d" % at) for at in range(2)]
    assert model(cluster.folder / "disturbed") == whole
    assert [losses(log) for log in ends] == [losses(log) for log in logs]
    other = ends[1 - victim]
    assert "trainer %d (%s) is gone" % (victim, endpoints[victim]) in other, other
    assert "went back to cut" in other, other
    assert "were answered" in ends[victim], ends[victim]


def test_of_three_trainers_two_die(cluster):
    whole, _ = undisturbed(cluster, 3, "grad_allreduce", "--steps", "30")
    endpoints = free_endpoints(3)
    arguments = ["grad_allreduce", "--steps", "30", "--pause", "0.05", "--model", "disturbed"]
    for at in range(3):
        start(cluster, "t", endpoints, at, *arguments)
    cluster.wait_for("t0", "step 8 ")
    for victim in (0, 2):
        cluster.kill("t%d" % victim)
    for victim in (0, 2):
        start(cluster, "t", endpoints, victim, *arguments)
    for at in range(3):
        cluster.expect("t%d" % at)
    assert model(cluster.folder / "disturbed") == whole


def files_of(cluster, n_files, n_samples):
    random = numpy.random.RandomState(3)
    names = []
    for file in range(n_files):
        name = cluster.folder / ("part%d" % file)
        with open(name, "w") as out:
            for _ in range(n_samples):
                values = random.rand(13)
                text = " ".join("%.6f" % value for value in values)
                out.write("13 %s 1 %d 1 %.6f\n" % (text, random.randint(100), values.sum()))
        names.append(str(name))
    return ",".join(names)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_pass_over_a_dataset_goes_on_where_it_was(cluster, threads):
    arguments = ["dataset", "--files", files_of(cluster, 4, 1600), "--threads", threads]
    whole, _ = undisturbed(cluster, 2, *arguments)
    assert whole
    endpoints = free_endpoints(2)
    for at in range(2):
        start(cluster, "t", endpoints, at, *arguments, "--model", "disturbed")
    cluster.wait_for("t1", "pass 1")
    cluster.kill("t1")
    start(cluster, "t", endpoints, 1, *arguments)
    for at in range(2):
        cluster.expect("t%d" % at)
    assert model(cluster.folder / "disturbed") == whole


def test_the_launcher_starts_one_again_and_the_others_wait(cluster):
    whole, _ = undisturbed(cluster, 2, "grad_allreduce", "--steps", "20")
    launch = ["-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--max_restarts", "3"]
    arguments = ["--steps", "20", "--pause", "0.1", "--model", "disturbed"]
    cluster.start("launcher", *launch, SCRIPT, "grad_allreduce", *arguments)
    cluster.wait_for("launcher", "step 5 ")
    victim = re.search(r"process (\d+) of trainer 1", cluster.log("launcher")).group(1)
    os.kill(int(victim), signal.SIGKILL)
    log = cluster.expect("launcher")
    assert len(re.findall(r"process \d+ of trainer 0", log)) == 1, log
    assert len(re.findall(r"process \d+ of trainer 1", log)) == 2, log
    assert model(cluster.folder / "disturbed") == whole


def test_one_that_does_not_come_back_is_named(cluster):
    endpoints = free_endpoints(2)
    arguments = ["grad_allreduce", "--steps", "1000", "--pause", "0.05"]
    for at in range(2):
        start(cluster, "t", endpoints, at, *arguments, FLAGS_recovery_deadline_secs="4")
    cluster.wait_for("t0", "step 3 ")
    cluster.kill("t1")
    log = cluster.expect("t0", 1)
    assert "waiting for trainer 1 (%s)" % endpoints[1] in log, log
    assert "trainer 1 (%s) did not come" % endpoints[1] in log, log
