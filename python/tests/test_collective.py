"""Trainers without servers, as real processes."""

import os
import re
import signal
import socket

import numpy
import pytest

from clusters import Cluster, free_endpoints

import paddlewheel.fluid as fluid
from paddlewheel.fluid.layers import collective as layers

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "collective.py")


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def variables(endpoints, at, **more):
    return {
        "PADDLE_TRAINER_ID": str(at),
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_CURRENT_ENDPOINT": endpoints[at],
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        **more,
    }


def start(cluster, endpoints, *arguments, but=(), **more):
    for at in range(len(endpoints)):
        if at not in but:
            cluster.start("t%d" % at, SCRIPT, *arguments, **variables(endpoints, at, **more))


def parameters(log):
    return re.findall(r"parameters (?:0: )?([0-9a-f]{8})", log)


@pytest.mark.parametrize("mode", ["nccl2", "grad_allreduce", "local_sgd", "transpiler"])
@pytest.mark.parametrize("n", [2, 3])
def test_trainers_have_the_same_parameters_after_every_step(cluster, mode, n):
    start(cluster, free_endpoints(n), mode)
    logs = [cluster.expect("t%d" % at) for at in range(n)]
    first = parameters(logs[0])
    assert len(first) == 6 and len(set(first)) == 6
    # In Fluid's mode "nccl2" the first run takes the parameters of trainer 0.
    begin = 1 if mode in ("nccl2", "transpiler") else 0
    for log in logs[1:]:
        assert parameters(log)[begin:] == first[begin:]
    losses = [re.findall(r"loss (\S+)", log) for log in logs]
    assert losses[0] != losses[1], "each has its own batches"


def test_modes_come_to_the_same(cluster):
    """Gradients are added up by ops of the program or by the code that runs it."""
    ends = []
    for mode in ("nccl2", "grad_allreduce", "transpiler"):
        endpoints = free_endpoints(2)
        for at in range(2):
            cluster.start(mode + str(at), SCRIPT, mode, **variables(endpoints, at))
        ends.append([parameters(cluster.expect(mode + str(at)))[-1] for at in range(2)])
    assert ends[0] == ends[1] == ends[2]


def test_several_devices_of_each_trainer(cluster):
    start(cluster, free_endpoints(2), "nccl2", "--devices", "2", CPU_NUM="2")
    one, other = (parameters(cluster.expect("t%d" % at)) for at in range(2))
    assert one[1:] == other[1:] and len(set(one)) == 6


@pytest.mark.parametrize("kind", ["threads", "devices"])
def test_parts_of_trainers_add_up_to_one_process_with_all_batches(cluster, kind):
    """Threads of train_from_dataset, or devices, of two trainers; Adam."""
    script, n_steps = os.path.join(os.path.dirname(SCRIPT), "summed.py"), "12"
    endpoints, folder = free_endpoints(2), str(cluster.folder)
    for at in range(2):
        own = variables(endpoints, at, CPU_NUM="2")
        cluster.start("t%d" % at, script, kind, "2", n_steps, folder, **own)
    alone = variables(endpoints, 0)
    cluster.start("alone", script, "alone", "2", n_steps, folder, **alone)
    for name in ("t0", "t1", "alone"):
        cluster.expect(name)
    one, other = (dict(numpy.load(cluster.folder / ("%s%d.npz" % (kind, at)))) for at in range(2))
    whole = dict(numpy.load(cluster.folder / "alone0.npz"))
    assert one.keys() == other.keys() == whole.keys() and len(whole) == 6
    for name, value in whole.items():
        assert (one[name] == other[name]).all(), name
        numpy.testing.assert_allclose(one[name], value, rtol=0, atol=1e-6, err_msg=name)


def test_the_launcher_starts_trainers(cluster):
    launch = ["-m", "paddle.distributed.launch", "--nproc_per_node", "3", "--log_dir", "logs"]
    cluster.start("launcher", *launch, SCRIPT, "grad_allreduce", "--steps", "3")
    cluster.expect("launcher")
    logs = [(cluster.folder / "logs" / ("workerlog.%d" % at)).read_text() for at in range(3)]
    ends = {tuple(parameters(log)) for log in logs}
    assert len(ends) == 1 and len(ends.pop()) == 4


@pytest.mark.parametrize("mode", ["nccl2", "grad_allreduce"])
def test_a_trainer_that_dies_is_named_to_all(cluster, mode):
    endpoints = free_endpoints(3)
    start(cluster, endpoints, mode, "--steps", "1000", "--pause", "0.05")
    for at in range(3):
        cluster.wait_for("t%d" % at, "step 1 ")
    cluster.kill("t1")
    for at in (0, 2):
        log = cluster.expect("t%d" % at, 1)
        assert "trainer 1 (%s) is gone" % endpoints[1] in log, log


def test_a_trainer_that_is_late_is_mentioned_and_then_named(cluster):
    endpoints = free_endpoints(2)
    late = {"FLAGS_rpc_deadline": "8000"}
    start(cluster, endpoints, "grad_allreduce", "--steps", "1000", "--pause", "0.05", **late)
    cluster.wait_for("t0", "step 1 ")
    cluster.signal("t1", signal.SIGSTOP)
    log = cluster.expect("t0", 1)
    named = "trainer 1 (%s)" % endpoints[1]
    assert "waiting for " + named in log, log
    assert "did not come" in log and "@GRAD`" in log, log
    cluster.signal("t1", signal.SIGCONT)
    assert named in cluster.expect("t1", 1), "it is told, too"


def test_a_trainer_that_never_comes_is_named_by_all(cluster):
    endpoints = free_endpoints(3)
    start(cluster, endpoints, "grad_allreduce", but=[1], FLAGS_rpc_deadline="3000")
    for at in (0, 2):
        log = cluster.expect("t%d" % at, 1)
        assert "trainer 1 (%s) did not come" % endpoints[1] in log, log


def test_an_end_point_that_is_taken_is_named_to_all(cluster):
    endpoints = free_endpoints(2)
    host, _, port = endpoints[1].rpartition(":")
    with socket.create_server((host, int(port))):
        start(cluster, endpoints, "grad_allreduce", FLAGS_rpc_deadline="20000")
        assert "cannot listen on " + endpoints[1] in cluster.expect("t1", 1)
        log = cluster.expect("t0", 1)
    assert "trainer 1 (%s)" % endpoints[1] in log, log


@pytest.mark.parametrize("what", ["sizes", "modes", "numbers"])
def test_trainers_of_different_jobs_are_refused(cluster, what):
    endpoints = free_endpoints(3)
    own = ["grad_allreduce"]
    other = {
        "sizes": ["grad_allreduce", "--hidden", "17"],
        "modes": ["nccl2"],
        "numbers": own,
    }[what]
    cluster.start("t0", SCRIPT, *own, **variables(endpoints[:2], 0))
    others = endpoints if what == "numbers" else endpoints[:2]
    cluster.start("t1", SCRIPT, *other, **variables(others, 1))
    for at in range(2):
        log = cluster.expect("t%d" % at, 1)
        assert "trainers 0 and 1 do not do the same" in log, log


def test_all_go_on_from_a_checkpoint(cluster):
    """One dies, all end; started again, they have the parameters that they would have had."""
    start(cluster, free_endpoints(2), "grad_allreduce", "--steps", "8")
    whole = parameters(cluster.expect("t0"))
    cluster.expect("t1")
    saves = ["--save", str(cluster.folder / "points")]
    endpoints = free_endpoints(2)
    for at in range(2):
        arguments = [SCRIPT, "grad_allreduce", "--steps", "8", "--pause", "0.3", *saves]
        cluster.start("a%d" % at, *arguments, **variables(endpoints, at))
    cluster.wait_for("a1", "step 2 ")
    cluster.kill("a1")
    cluster.expect("a0", 1)
    endpoints = free_endpoints(2)
    for at in range(2):
        arguments = [SCRIPT, "grad_allreduce", "--steps", "8", *saves]
        cluster.start("b%d" % at, *arguments, **variables(endpoints, at))
    for at in range(2):
        log = cluster.expect("b%d" % at)
        assert re.search(r"begins with step [1-9]", log), log
        assert parameters(log)[-1] == whole[-1]


def test_the_launcher_starts_all_again(cluster):
    """All die: the launcher starts them again, and they resume from the checkpoint."""
    start(cluster, free_endpoints(2), "grad_allreduce", "--steps", "8")
    whole = parameters(cluster.expect("t0"))
    cluster.expect("t1")
    launch = ["-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--max_restarts", "3"]
    arguments = ["--steps", "8", "--pause", "0.3", "--save", str(cluster.folder / "points")]
    cluster.start("launcher", *launch, SCRIPT, "grad_allreduce", *arguments)
    cluster.wait_for("launcher", "step 2 ")
    victims = re.findall(r"process (\d+) of trainer", cluster.log("launcher"))
    assert len(victims) == 2
    for victim in victims:
        os.kill(int(victim), signal.SIGKILL)
    log = cluster.expect("launcher")
    assert len(re.findall("begins with step [1-9]", log)) == 2, log
    assert parameters(log)[-2:] == whole[-1:] * 2


def transpile(mode, collective_mode=None, trainers="127.0.0.1:1,127.0.0.1:2", **more):
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.collective_mode = mode, collective_mode
    arguments = {"current_endpoint": "127.0.0.1:1", "trainers": trainers, **more}
    fluid.DistributeTranspiler(config).transpile(0, **arguments)


def small():
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [3]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def test_what_cannot_be_is_refused():
    small()
    with pytest.raises(ValueError, match="in the list twice"):
        transpile("nccl2", trainers="127.0.0.1:1,127.0.0.1:1")
    with pytest.raises(ValueError, match="current endpoint 127.0.0.1:3 is not in"):
        transpile("nccl2", current_endpoint="127.0.0.1:3")
    with pytest.raises(ValueError, match="invalid trainer number in distributed: 1"):
        transpile("collective", "grad_allreduce", trainers="127.0.0.1:1")
    with pytest.raises(ValueError, match="collective_mode"):
        transpile("collective", "other")
    with pytest.raises(AssertionError):
        transpile("nccl2", trainers=2)
    with pytest.raises(ValueError, match="mode"):
        transpile("other")


def test_the_main_program_needs_the_startup_program():
    loss = small()
    transpile("nccl2")
    exe = fluid.ParallelExecutor(False, loss.name, num_trainers=2, trainer_id=0)
    with pytest.raises(fluid.core.EnforceNotMet, match="has met no other trainers"):
        exe.run([loss.name], feed={"x": numpy.ones((1, 3), "float32")})


def test_layers_add_ops():
    x = fluid.layers.data("x", [4, 3], append_batch_size=False)
    layers._c_allreduce(x)
    layers._c_broadcast(x)
    assert layers._c_allgather(x, 2).shape == (8, 3)
    assert layers._c_reducescatter(x, 2).shape == (2, 3)
    layers._c_sync_calc_stream(x)
    layers._c_sync_comm_stream(x, 0)
    layers._allreduce(x, reduce_type="max")
    layers._broadcast(x, 0)
    with pytest.raises(ValueError, match="cannot be evenly divided"):
        layers._c_reducescatter(x, 3)
    kinds = [op.type for op in fluid.default_main_program().global_block().ops]
    assert kinds == (
        "c_allreduce_sum c_broadcast c_allgather c_reducescatter c_sync_calc_stream "
        "c_sync_comm_stream allreduce broadcast"
    ).split()
