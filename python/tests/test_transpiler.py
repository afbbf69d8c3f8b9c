"""fluid.DistributeTranspiler: its forms, its configuration, its programs."""

import inspect
import socket

import pytest

from paddlewheel import fluid
from paddlewheel.fluid import transpiler
from paddlewheel.fluid.transpiler import distribute_transpiler

SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


def net(width=1300):
    x = fluid.layers.data("x", [13])
    y = fluid.layers.data("y", [1])
    hidden = fluid.layers.fc(x, width, act="relu")
    cost = fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y)
    return fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(cost))


def types(program, block=0):
    return [op.type for op in program.block(block).ops]


def split(config=None, **job):
    ops, pairs = net()
    t = fluid.DistributeTranspiler(config)
    t.transpile(**{"trainer_id": 0, "pservers": SERVERS, "trainers": 2, **job})
    return t


FORMS = {
    "simple": lambda t, ops, pairs: t.transpile(
        ops, pairs, fluid.default_main_program(), SERVERS, 2
    ),
    "simple keywords": lambda t, ops, pairs: t.transpile(
        optimize_ops=ops, params_grads=pairs, pservers=SERVERS, trainers=2
    ),
    "0.12": lambda t, ops, pairs: t.transpile(ops, pairs, 0, pservers=SERVERS, trainers=2),
    "0.12 keywords": lambda t, ops, pairs: t.transpile(
        ops, pairs, trainer_id=0, pservers=SERVERS, trainers=2, split_method="round_robin"
    ),
    "0.14": lambda t, ops, pairs: t.transpile(
        0, pservers=SERVERS, trainers=2, slice_var_up=True, split_method=transpiler.RoundRobin
    ),
    "0.15": lambda t, ops, pairs: t.transpile(
        trainer_id="0", program=fluid.default_main_program(), pservers=SERVERS, trainers="2"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_programs(form):
    main = fluid.default_main_program()
    t = fluid.DistributeTranspiler()
    FORMS[form](t, *net())
    assert t.get_trainer_program(wait_port=False) is main
    ends = ["send_barrier"] + ["recv"] * 4 + ["fetch_barrier", "concat"]
    assert types(main)[-7:] == ends
    assert "sgd" not in types(main)
    server, startup = t.get_pserver_programs("127.0.0.1:6174")
    assert types(server) == ["listen_and_serv"]
    assert types(server, 1) == ["sum", "scale", "sgd"]
    assert types(startup)[0] == "fill_constant"


def test_the_signature_is_the_newest():
    parameters = list(inspect.signature(fluid.DistributeTranspiler().transpile).parameters)
    assert parameters[:4] == ["trainer_id", "program", "pservers", "trainers"]


def test_a_list_must_be_what_minimize_returned():
    ops, pairs = net()
    with pytest.raises(TypeError, match="params_grads"):
        fluid.DistributeTranspiler().transpile(ops, ops[:1] or [1], 0, pservers=SERVERS)


def test_halves_come_again_and_in_any_order(capfd):
    t = split()
    trainer = t.get_trainer_program(wait_port=False)
    before = str(t.get_pserver_program("127.0.0.1:6175"))
    assert "is deprecated, call get_pserver_programs()" in capfd.readouterr().err
    assert t.get_trainer_program(wait_port=False) is trainer
    assert str(t.get_pserver_programs("127.0.0.1:6175")[0]) == before
    assert "listen_and_serv" in before and "fc_0.w_0.block0" in before
    given = t.get_startup_program("127.0.0.1:6175", startup_program=fluid.default_startup_program())
    assert str(given) == str(t.get_startup_program("127.0.0.1:6175"))


def test_programs_know_their_job():
    t = split(current_endpoint="127.0.0.1:6175")
    main = fluid.default_main_program()
    assert main._is_distributed and main._is_chief
    assert main._endpoints == SERVERS.split(",")
    assert main._ps_endpoint == "127.0.0.1:6175"
    placed = {one["slice"]: one for one in main._parameters_on_pservers}
    second = placed["fc_0.w_0.block1"]
    assert (second["offset"], second["slice_shape"], second["vtype"]) == (9100, [6, 1300], "Param")
    server, _ = t.get_pserver_programs("127.0.0.1:6174")
    assert server._ps_endpoint == "127.0.0.1:6174"
    assert main.clone()._is_distributed
    assert not fluid.Program()._is_distributed


def test_async_from_the_argument_alone():
    t = split(sync_mode=False)
    assert "send_barrier" not in types(fluid.default_main_program())
    server, _ = t.get_pserver_programs("127.0.0.1:6174")
    listen = server.global_block().ops[0]
    assert listen.attr("distributed_mode") == 2 and listen.attr("sync_mode") is False
    assert types(server, 1) == ["sgd"]


def test_config_refuses_contradictions():
    config = fluid.DistributeTranspilerConfig()
    with pytest.raises(ValueError, match="make ensure config.sync_mode is false at first"):
        config.runtime_split_send_recv = True
    with pytest.raises(ValueError, match="None"):
        config.runtime_split_send_recv = None
    config.sync_mode = False
    config.runtime_split_send_recv = True
    with pytest.raises(ValueError, match="runtime_split_send_recv is false at first"):
        config.sync_mode = True
    small = fluid.DistributeTranspilerConfig()
    small.min_block_size = 8191
    with pytest.raises(AssertionError):
        fluid.DistributeTranspiler(small)
    other = fluid.DistributeTranspilerConfig()
    other.split_method = int
    with pytest.raises(AssertionError):
        fluid.DistributeTranspiler(other)


@pytest.mark.parametrize(
    "job, text",
    [
        ({"pservers": ""}, "no parameter servers"),
        ({"pservers": "127.0.0.1"}, "127.0.0.1"),
        ({"trainer_id": 2}, "trainer_id 2 of 2"),
        ({"trainer_id": -1}, "trainer_id"),
        ({"trainers": "127.0.0.1:1,127.0.0.1:2"}, "trainers must be a number"),
    ],
)
def test_wrong_jobs_are_refused(job, text):
    with pytest.raises(ValueError, match=text):
        split(**job)


def test_wrong_end_points_and_calls_are_refused():
    with pytest.raises(ValueError, match="transpile"):
        fluid.DistributeTranspiler().get_trainer_program()
    t = split()
    with pytest.raises(ValueError, match="127.0.0.1:1.*127.0.0.1:6174,127.0.0.1:6175"):
        t.get_pserver_programs("127.0.0.1:1")
    with pytest.raises(ValueError, match="already"):
        t.transpile(0, pservers=SERVERS)
    with pytest.raises(ValueError, match="minimize"):
        fluid.DistributeTranspiler().transpile(
            0, program=fluid.Program(), startup_program=fluid.Program(), pservers=SERVERS
        )


def test_two_distributed_tables_are_refused():
    ids = fluid.layers.data("ids", [1], dtype="int64")
    rows = [fluid.layers.embedding(ids, [100, 8], True, True) for _ in range(2)]
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.concat(rows, axis=1)))
    with pytest.raises(RuntimeError, match="should have only one table"):
        fluid.DistributeTranspiler().transpile(0, pservers=SERVERS)


def test_dispatchers_choose():
    class Last(transpiler.PSDispatcher):
        def dispatch(self, varlist):
            assert all(isinstance(var.name, str) for var in varlist)
            return [self.eps[-1]] * len(varlist)

    config = fluid.DistributeTranspilerConfig()
    config.split_method = Last
    t = split(config)
    placed = fluid.default_main_program()._parameters_on_pservers
    assert {one["endpoint"] for one in placed if one["vtype"] == "Param"} == {"127.0.0.1:6175"}
    assert types(t.get_pserver_programs("127.0.0.1:6174")[0], 1) == []

    class Broken(transpiler.PSDispatcher):
        def dispatch(self, varlist):
            raise KeyError("broken")

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        config.split_method = Broken
        with pytest.raises(KeyError, match="broken"):
            split(config)
        assert not fluid.default_main_program()._is_distributed


def test_dispatchers_can_be_asked():
    blocks = [distribute_transpiler.Block(f"w.block{k}") for k in range(3)]
    one = transpiler.RoundRobin(["a:1", "b:1"])
    assert one.dispatch(blocks) == ["a:1", "b:1", "a:1"]
    assert one.dispatch(blocks[:1]) == ["b:1"]
    one.reset()
    assert one.dispatch(blocks[:1]) == ["a:1"]
    hashed = transpiler.HashName(["a:1", "b:1"])
    assert hashed.dispatch(blocks) == hashed.dispatch(blocks)
    with pytest.raises(NotImplementedError):
        transpiler.PSDispatcher(["a:1"]).dispatch(blocks)


def test_slice_variable_names_blocks():
    net()
    weight = fluid.default_main_program().global_block().var("fc_0.w_0")
    assert transpiler.slice_variable([weight], 2, 8192) == ["fc_0.w_0:0:9100", "fc_0.w_0:1:7800"]


def test_print_log_says_where_everything_is(capfd):
    config = fluid.DistributeTranspilerConfig()
    config.print_log = True
    split(config)
    assert "fc_0.w_0.block1 [6, 1300] -> 127.0.0.1:6174" in capfd.readouterr().err


def test_an_idle_server_is_named(capfd):
    net(1)
    t = fluid.DistributeTranspiler()
    many = ",".join(f"127.0.0.1:{6174 + k}" for k in range(6))
    t.transpile(0, pservers=many, trainers=1)
    t.get_pserver_programs("127.0.0.1:6179")
    assert "pserver [127.0.0.1:6179] has no optimize block!!" in capfd.readouterr().err


def test_the_trainer_waits_once_for_servers():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        t = split(pservers="127.0.0.1:%d" % listening.getsockname()[1])
        t.get_trainer_program()
    # The server is gone; no process looks again.
    assert t.get_trainer_program() is fluid.default_main_program()


WAITS = """
from paddlewheel import fluid
x = fluid.layers.data("x", [13])
fluid.optimizer.SGD(.1).minimize(fluid.layers.mean(fluid.layers.fc(x, 1)))
t = fluid.DistributeTranspiler()
t.transpile(0, pservers="127.0.0.1:9", trainers=1)
t.get_trainer_program()
"""


def test_a_server_that_never_comes_is_an_error(child):
    done = child("-c", WAITS, environment={"FLAGS_wait_server_ready_timeout": "1"})
    assert done.returncode == 1
    assert "not ready endpoints:" in done.stderr and "127.0.0.1:9" in done.stderr
    assert "RuntimeError" in done.stderr
