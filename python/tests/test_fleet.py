"""One script, two roles."""

import os
import re
import subprocess
import sys

import numpy
import pytest
from conftest import HERE, PACKAGES, PROGRAMS, saved_in

import paddlewheel.fluid as fluid
from paddlewheel.fluid.incubate.fleet.base.role_maker import Role, RoleMakerBase
from paddlewheel.fluid.incubate.fleet.base.role_maker import UserDefinedRoleMaker
from paddlewheel.fluid.incubate.fleet.parameter_server import distribute_transpiler
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    DistributedTranspiler,
    StrategyFactory,
)

SCRIPT = os.path.join(PROGRAMS, "fleet_regression.py")
PLACES = os.path.join(HERE, "jobs", "places.py")


def numbers(log, word):
    return [float(text) for text in re.findall(r"^{} \[?([-.e\d]+)".format(word), log, re.M)]


@pytest.fixture
def job(child, tmp_path):
    """Runs the script on servers and trainers; returns the logs."""

    def run(mode, *arguments, workers=2, servers=2):
        options = ("--worker_num", str(workers), "--server_num", str(servers), SCRIPT, mode)
        result = child("-m", "paddlewheel", "launch_ps", *options, *arguments)
        assert result.returncode == 0, result.stderr
        names = ["workerlog.%d" % at for at in range(workers)]
        names += ["serverlog.%d" % at for at in range(servers)]
        return {name: (tmp_path / "logs" / name).read_text() for name in names}

    return run


@pytest.mark.parametrize("mode", ["none", "sync", "ssp", "half_async", "async", "config", "geo"])
def test_a_job_learns(job, tmp_path, mode):
    logs = job(mode)
    for index in (0, 1):
        log = logs["workerlog.%d" % index]
        # The first loss would not do: a trainer that comes late finds what others have learnt.
        assert numbers(log, "last")[0] < 0.5
        assert numbers(log, "total") == [3.0]
        assert numbers(log, "pushes")[0] > 0
        assert "communicator] Communicator start\n" in log
        assert "init rpc client with trainer_id %d\n" % index in log
        assert "TrainerRuntimeConfig Overview        Value\n" in log
        server = logs["serverlog.%d" % index]
        assert re.search(r"] Server listening on 127.0.0.1:(\d+) selected port: \1\n", server)
    kinds = {"none": "Sync", "sync": "Sync", "ssp": "Ssp", "half_async": "HalfAsync", "geo": "GeoSgd"}
    kind = kinds.get(mode, "Async")
    assert "{}Communicator Initialized\n".format(kind) in logs["workerlog.0"]
    assert saved_in(tmp_path / "model") == ["fc_0.b_0", "fc_0.w_0", "learning_rate_0"]
    model = str(tmp_path / "infer")
    exe = fluid.Executor(fluid.CPUPlace())
    program, feeds, fetches = fluid.io.load_inference_model(model, exe)
    one = numpy.ones((1, 4), "float32")
    (found,) = exe.run(program, feed={feeds[0]: one}, fetch_list=fetches)
    assert 1.0 < found[0, 0] < 6.0 and feeds == ["x"]


@pytest.mark.parametrize("mode, weight", [("async", -1.6), ("half_async", -0.8), ("sync", -0.8)])
def test_places_of_async_jobs_send_apart(child, tmp_path, mode, weight):
    """Gradients 1 and 3, four steps of 0.1: async servers take each gradient, the others take means.

    The numbers of async and half-async are those of the real Fluid 1.8.5 with a loader that gives each
    place four batches.
    """
    options = ("--worker_num", "1", "--server_num", "1", PLACES, mode)
    result = child("-m", "paddlewheel", "launch_ps", *options)
    log = (tmp_path / "logs" / "workerlog.0").read_text()
    assert result.returncode == 0, result.stderr + log
    assert numbers(log, "w") == [pytest.approx(weight, abs=1e-6)]


def test_sync_does_not_depend_on_the_number_of_servers(job, tmp_path):
    found = []
    for servers in (1, 2):
        job("sync", servers=servers)
        found.append((tmp_path / "model" / "fc_0.w_0").read_bytes())
    assert found[0] == found[1]


def test_servers_go_on_from_a_model(job, tmp_path):
    before = numbers(job("sync")["workerlog.0"], "first")
    (tmp_path / "model").rename(tmp_path / "old")
    after = numbers(job("sync", "old", servers=1)["workerlog.0"], "first")
    assert after[0] < before[0] / 4


def test_by_hand_in_separate_shells(started, tmp_path):
    """Trainers first: they wait for their server."""
    cloud = {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:16180", "PADDLE_TRAINERS_NUM": "2"}
    trainer = {"TRAINING_ROLE": "TRAINER", **cloud}
    trainers = [started(SCRIPT, "sync", PADDLE_TRAINER_ID=str(at), **trainer) for at in (0, 1)]
    for process in trainers:
        assert process.stderr.readline() == "server not ready, wait 3 sec to retry...\n"
        assert process.stderr.readline() == "not ready endpoints:['127.0.0.1:16180']\n"
    role = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": "16180"}
    server = started(SCRIPT, "sync", **role, **cloud)
    for process in trainers:
        assert process.wait(timeout=60) == 0, process.stderr.read()
        assert numbers(process.stdout.read(), "last")[0] < 0.5
    assert server.wait(timeout=20) == 0
    assert server.stdout.read() == "server ended\n"


def test_a_server_that_is_told_to_end_does(started):
    role = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": "16181"}
    cloud = {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:16181", "PADDLE_TRAINERS_NUM": "1"}
    server = started(SCRIPT, "sync", **role, **cloud)
    assert "Server listening on 127.0.0.1:16181 selected port: 16181" in server.stderr.readline()
    server.terminate()
    assert server.wait(timeout=20) == 0
    assert server.stdout.read() == ""


def test_a_trainer_waits_for_servers_and_gives_up_in_time(child):
    environment = {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:1,127.0.0.1:2",
        "FLAGS_wait_server_ready_timeout": "1",
    }
    result = child(SCRIPT, "sync", alias=True, environment=environment)
    assert result.returncode == 1
    lines = (
        "server not ready, wait 3 sec to retry...\n"
        "not ready endpoints:['127.0.0.1:1', '127.0.0.1:2']\n"
    )
    assert lines in result.stderr
    assert "RuntimeError: servers not ready after 1 s: 127.0.0.1:1,127.0.0.1:2" in result.stderr


@pytest.fixture
def started(tmp_path):
    """Starts Python with variables; whatever happens, ends it with the test."""
    processes = []

    def start(*arguments, **variables):
        environment = {**os.environ, **variables}
        alias = os.path.join(PACKAGES, "paddlewheel", "_alias")
        environment["PYTHONPATH"] = os.pathsep.join([PACKAGES, alias])
        pipe = subprocess.PIPE
        command = [sys.executable, *arguments]
        options = {"env": environment, "cwd": str(tmp_path), "text": True}
        processes.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def fleet(monkeypatch):
    """A fleet of this test alone."""
    mine = DistributedTranspiler()
    monkeypatch.setattr(distribute_transpiler, "fleet", mine)
    return mine


def server(index=0, n=1):
    endpoints = ["127.0.0.1:%d" % (16000 + at) for at in range(n)]
    return UserDefinedRoleMaker(index, Role.SERVER, 1, endpoints)


def loss():
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))


def test_what_comes_before_init(fleet):
    with pytest.raises(ValueError, match="use fleet.init"):
        fleet.worker_num()
    with pytest.raises(TypeError, match="role_maker must be an instance of RoleMakerBase"):
        fleet.init(3)
    with pytest.raises(ValueError, match="before optimizer.minimize"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(ValueError, match="optimizer must be an instance of Optimizer"):
        fleet.distributed_optimizer(3)


def test_what_comes_before_minimize(fleet):
    fleet.init(server())
    with pytest.raises(ValueError, match="startup_program is None, need invoke Distrib"):
        fleet.init_server()
    with pytest.raises(ValueError, match="main_program is None, need invoke DistributedOptimizer"):
        fleet.run_server()
    with pytest.raises(TypeError, match="In 1 mode, strategy must be an instance of"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), 3)
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(TypeError, match="can not accept loss with list"):
        optimizer.minimize([loss()])


def test_a_server_has_programs_of_its_own(fleet):
    fleet.init(server(1, n=2))
    assert fleet.is_server() and not fleet.is_worker() and not fleet.is_first_worker()
    assert (fleet.server_index(), fleet.server_num(), fleet.worker_num()) == (1, 2, 1)
    assert fleet.server_endpoints(to_string=True) == "127.0.0.1:16000,127.0.0.1:16001"
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
    ops, pairs = optimizer.minimize(loss())
    assert [op.type for op in ops] == ["sgd", "sgd"] and len(pairs) == 2
    assert [op.type for op in fleet.main_program.global_block().ops] == ["listen_and_serv"]
    assert fleet.startup_program is not fluid.default_startup_program()
    origin = [op.type for op in fleet._origin_program.global_block().ops]
    assert origin == [op.type for op in fluid.default_main_program().global_block().ops]
    with pytest.raises(ValueError, match="There is no directory named '/nowhere'"):
        fleet.init_server("/nowhere")
    for nothing in (None, ""):
        fleet.init_server(nothing)
    assert fluid.global_scope().find_var("fc_0.w_0") is not None
    fleet.stop_worker()  # A server has nothing to stop; scripts say it in every process.
    for call in (fleet.init_worker, fleet.barrier_worker):
        with pytest.raises(ValueError, match="this process is a server"):
            call()
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(TypeError, match="executor must be as Executor type"):
        fleet.save_persistables(3, "x")
    with pytest.raises(TypeError, match="CompiledProgram is not allowed"):
        fleet.save_persistables(exe, "x", fluid.CompiledProgram(fluid.Program()))
    with pytest.raises(ValueError, match="main_program is for local"):
        fleet.save_persistables(exe, "x", fluid.Program())


def test_files_are_split(fleet):
    files = ["a", "b", "c", "d", "e"]
    found = []
    for index in (0, 1):
        fleet.init(UserDefinedRoleMaker(index, Role.WORKER, 2, ["127.0.0.1:16000"]))
        found.append(fleet.split_files(files))
    assert found == [["a", "b", "c"], ["d", "e"]]
    with pytest.raises(TypeError, match="files should be a list of file need to be read."):
        fleet.split_files("a")


def test_a_role_maker_of_ones_own(fleet):
    class Mine(RoleMakerBase):
        def generate_role(self):
            pass

        def is_server(self):
            return False

        def worker_index(self):
            return 2

        def worker_num(self):
            return 4

        def get_pserver_endpoints(self):
            return ["127.0.0.1:16000"]

    fleet.init(Mine())
    assert fleet.is_worker() and fleet.worker_index() == 2 and fleet.worker_num() == 4


def test_a_strategy_of_version_2():
    from paddlewheel.distributed import fleet as fleet2

    strategy = fleet2.DistributedStrategy()
    assert type(strategy._meant()) is type(StrategyFactory.create_sync_strategy())
    strategy.a_sync = True
    assert type(strategy._meant()) is type(StrategyFactory.create_async_strategy())
    strategy.a_sync_configs = {"k_steps": 7}
    assert strategy._meant().get_program_config().geo_sgd_need_push_nums == 7
