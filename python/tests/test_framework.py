"""Programs, guards, names, places, flags."""

import re

import numpy as np
import pytest

import paddlewheel.fluid as fluid


def test_program_guard_switches_and_restores():
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    inner, other = fluid.Program(), fluid.Program()
    with fluid.program_guard(inner, other):
        assert fluid.default_main_program() is inner
        assert fluid.default_startup_program() is other
        with fluid.program_guard(main):
            assert fluid.default_startup_program() is other
        assert fluid.default_main_program() is inner
    assert fluid.default_main_program() is main
    assert fluid.default_startup_program() is startup


def test_program_guard_restores_after_an_error():
    main = fluid.default_main_program()
    with pytest.raises(KeyError):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            raise KeyError("stop")
    assert fluid.default_main_program() is main


@pytest.mark.parametrize("arguments", [(3,), (None,), ("p", "q")])
def test_program_guard_wants_programs(arguments):
    with pytest.raises(TypeError, match="main_program"):
        fluid.program_guard(*arguments).__enter__()
    with pytest.raises(TypeError, match="startup_program"):
        fluid.program_guard(fluid.Program(), 3).__enter__()


def test_name_scope_annotates_operators_only():
    x = fluid.layers.data("x", [2])
    with fluid.name_scope("encoder"):
        with fluid.name_scope("inner"):
            a = fluid.layers.mean(x)
        b = fluid.layers.mean(x)
    c = fluid.layers.mean(x)
    scopes = [op.attr("op_namescope") for op in fluid.default_main_program().global_block().ops]
    assert scopes == ["/encoder/inner/", "/encoder/", "/"]
    assert [v.name for v in (a, b, c)] == ["mean_0.tmp_0", "mean_1.tmp_0", "mean_2.tmp_0"]
    with pytest.raises(AssertionError, match="prefix can not be empty"):
        fluid.name_scope("").__enter__()


def test_unique_names():
    generate = fluid.unique_name.generate
    assert [generate("fc"), generate("fc"), generate("x")] == ["fc_0", "fc_1", "x_0"]
    with fluid.unique_name.guard():
        assert generate("fc") == "fc_0"
    with fluid.unique_name.guard("A"):
        assert generate("fc") == "Afc_0"
    assert generate("fc") == "fc_2"


def test_a_parameter_is_known_by_isinstance():
    x = fluid.layers.data("x", [2])
    fluid.layers.fc(x, 1)
    kinds = [isinstance(v, fluid.framework.Parameter) for v in (x,)]
    params = fluid.default_main_program().all_parameters()
    assert kinds == [False]
    assert all(isinstance(p, fluid.framework.Parameter) for p in params) and len(params) == 2
    assert isinstance(x, fluid.framework.Variable)


def test_places(monkeypatch, capsys):
    monkeypatch.setenv("CPU_NUM", "3")
    assert len(fluid.cpu_places()) == 3
    assert len(fluid.cpu_places(2)) == 2
    monkeypatch.delenv("CPU_NUM")
    assert len(fluid.cpu_places()) == 1
    assert "CPU_NUM is not specified" in capsys.readouterr().err
    assert not fluid.is_compiled_with_cuda() and not fluid.in_dygraph_mode()


def test_require_version():
    fluid.require_version("1.5")
    fluid.require_version("1.0", "1.8.5")
    with pytest.raises(Exception, match="1.9 or higher"):
        fluid.require_version("1.9")
    with pytest.raises(TypeError):
        fluid.require_version(1)
    with pytest.raises(ValueError):
        fluid.require_version("a")


def test_flags_come_from_the_environment(child):
    script = "import paddlewheel.fluid as fluid\nprint(fluid.get_flags(['FLAGS_check_nan_inf', 'rpc_deadline']))"
    environment = {"FLAGS_check_nan_inf": "1", "FLAGS_rpc_deadline": "5", "FLAGS_other": "x"}
    result = child("-c", script, environment=environment)
    assert result.stdout == "{'FLAGS_check_nan_inf': True, 'rpc_deadline': 5}\n", result.stderr
    result = child("-c", script, environment={"FLAGS_rpc_deadline": "soon"})
    assert "ValueError: FLAGS_rpc_deadline=soon is not a number" in result.stderr
    assert fluid.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}
    with pytest.raises(ValueError, match="Flag FLAGS_nothing cannot set its value"):
        fluid.set_flags({"FLAGS_nothing": 1})


def test_strategies_check_their_names():
    build, run = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    assert build.enable_inplace is True and run.num_iteration_per_drop_scope == 100
    build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    build.fuse_all_reduce_ops = False
    run.num_threads = 4
    with pytest.raises(AttributeError, match="no attribute 'num_thread'"):
        run.num_thread = 4
    with pytest.raises(AttributeError):
        build.fuse_everything = True
    with pytest.raises(TypeError):
        run.num_threads = "four"


def deep_net():
    """A loss behind some layers."""
    fluid.default_startup_program().random_seed = 5
    x = fluid.layers.data("x", [4])
    for _ in range(4):
        x = fluid.layers.fc(x, 4, act="tanh")
    loss = fluid.layers.mean(x)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def test_memory_optimize_checks_its_arguments():
    program = fluid.Program()
    fluid.memory_optimize(program, skip_grads=True)
    fluid.release_memory(program)
    assert program._is_mem_optimized
    with pytest.raises(ValueError, match="opt_level 0 or 1"):
        fluid.memory_optimize(program, level=2)
    with pytest.raises(ValueError, match="skip_opt_set as set"):
        fluid.memory_optimize(program, skip_opt_set="x")
    with pytest.raises(ValueError, match="skip_opt_set names nobody, which is not a variable"):
        fluid.memory_optimize(program, skip_opt_set={"nobody"})
    with pytest.raises(TypeError):
        fluid.memory_optimize("program")


def test_memory_optimize_says_who_shares_and_spares_whom_it_should(capsys):
    loss = deep_net()
    program = fluid.default_main_program()
    fluid.memory_optimize(program, print_log=True)
    shared = capsys.readouterr().out
    assert shared.startswith("share memory: ")
    name = shared.splitlines()[0].partition(": ")[2].split(", ")[0]
    fluid.memory_optimize(program, skip_opt_set={name}, print_log=True, level=1)
    assert name not in re.split(r"[ ,\n]+", capsys.readouterr().out)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((2, 4), "float32")}
    losses = [exe.run(feed=feed, fetch_list=[loss])[0][0] for _ in range(3)]
    assert losses[0] != losses[2]


def test_memory_optimize_comes_before_transpile_and_not_to_servers():
    server = "127.0.0.1:6174"
    for call in (fluid.memory_optimize, fluid.release_memory):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            deep_net()
            call(fluid.default_main_program())
            made = fluid.DistributeTranspiler()
            made.transpile(0, pservers=server, trainers=1)
            rule = "in a trainer, call it before transpile"
            with pytest.raises(ValueError, match="was called after transpile: .*" + rule):
                call(fluid.default_main_program())
            with pytest.raises(ValueError, match="parameter server: never call it"):
                call(made.get_pserver_program(server))


def test_scope_and_tensor():
    scope = fluid.global_scope()
    tensor = scope.var("w").get_tensor()
    tensor.set(np.arange(6).reshape(3, 2), fluid.CPUPlace())
    tensor.set_lod([[0, 1, 3]])
    assert tensor.recursive_sequence_lengths() == [[1, 2]]
    assert np.array(scope.find_var("w").get_tensor()).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert scope.find_var("nothing") is None


def test_parameters_made_by_hand():
    block = fluid.default_main_program().global_block()
    w = block.create_parameter(name="w", shape=[2, 3], dtype="float32", is_distributed=True)
    assert (w.shape, w.persistable, w.trainable, w.is_distributed) == ((2, 3), True, True, True)
    assert w.optimize_attr == {"learning_rate": 1.0} and w.regularizer is None and w.op is None
    for shape, text in [([], "dimensions of shape"), ([0, 2], "greater than 0"), ([-1], "-1")]:
        with pytest.raises(ValueError, match=text):
            block.create_parameter(name="bad", shape=shape, dtype="float32")


def test_descriptions_have_methods():
    x = fluid.layers.data("x", [2])
    mean = fluid.layers.mean(x)
    assert (x.desc.name(), x.desc.shape(), x.desc.persistable()) == ("x", [-1, 2], False)
    op = mean.op
    assert op.desc.type() == op.type == "mean" and op.desc.input("X") == ["x"]
    program = fluid.default_main_program()
    assert program._is_distributed is False and program._fleet_opt is None
    program._is_distributed = True
    assert fluid.Program()._is_distributed is False
