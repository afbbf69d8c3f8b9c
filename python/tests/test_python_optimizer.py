"""Optimizers that scripts write, averages of parameters, and the profiler."""

import json

import numpy as np
import pytest

import paddlewheel.fluid as fluid

L = fluid.layers


class Momentum(fluid.optimizer.Optimizer):
    """Fluid's momentum, written by a script."""

    def __init__(self, learning_rate, mu, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.type = "momentum"
        self.mu = mu

    def _create_accumulators(self, block, parameters):
        for param in parameters:
            self._add_accumulator("velocity", param)

    def _append_optimize_op(self, block, param_and_grad):
        param, grad = param_and_grad
        velocity = self._get_accumulator("velocity", param)
        rate = self._create_param_lr(param_and_grad)
        return block.append_op(
            type=self.type,
            inputs={"Param": param, "Grad": grad, "Velocity": velocity, "LearningRate": rate},
            outputs={"ParamOut": param, "VelocityOut": velocity},
            attrs={"mu": self.mu},
        )


def train(make, steps=3):
    """The losses of a small network, and its programs."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        with fluid.scope_guard(fluid.Scope()):
            slow = fluid.ParamAttr(learning_rate=0.5)
            out = L.fc(L.fc(fluid.data("x", [4, 3]), 5, param_attr=slow, act="tanh"), 1)
            loss = L.mean(L.square(out - 1.0))
            ops, pairs = make().minimize(loss)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            x = np.linspace(-1, 1, 12).astype("float32").reshape(4, 3)
            losses = [exe.run(main, {"x": x}, [loss])[0][0] for _ in range(steps)]
    return losses, ops, pairs


OPTIONS = (
    {},
    {"regularization": fluid.regularizer.L2Decay(0.1)},
    {"regularization": fluid.regularizer.L1Decay(0.1)},
    {"grad_clip": fluid.clip.GradientClipByGlobalNorm(0.1)},
)


@pytest.mark.parametrize("options", OPTIONS)
def test_an_optimizer_of_a_script_does_what_ours_does(options):
    own, ops, pairs = train(lambda: Momentum(0.1, 0.9, **options))
    ours, _, _ = train(lambda: fluid.optimizer.Momentum(0.1, 0.9, **options))
    np.testing.assert_allclose(own, ours, rtol=1e-6)
    assert len(pairs) == 4
    assert [op.type for op in ops].count("momentum") == 4


def test_the_base_class_alone_is_no_optimizer():
    with pytest.raises(NotImplementedError, match="connot be used directly"):
        fluid.optimizer.Optimizer(0.1)
    with pytest.raises(AssertionError, match="dynamic graph mode"):
        fluid.optimizer.SGD(0.1).state_dict()
    with pytest.raises(NotImplementedError, match="train_from_dataset"):
        fluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.1))


def test_recompute_wants_its_checkpoints():
    with pytest.raises(AssertionError, match="_set_checkpoints"):
        train(lambda: fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1)))

    def recompute():
        optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        optimizer._set_checkpoints([])
        return optimizer

    assert train(recompute)[0] == train(lambda: fluid.optimizer.SGD(0.1))[0]


def test_a_model_average_is_that_of_its_window():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        start = fluid.ParamAttr(name="averaged", initializer=fluid.initializer.Constant(1.0))
        loss = L.mean(L.fc(fluid.data("x", [1, 1]), 1, param_attr=start, bias_attr=False))
        fluid.optimizer.SGD(0.25).minimize(loss)
        average = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)

        def weight():
            return float(np.array(fluid.global_scope().find_var("averaged").get_tensor())[0, 0])

        for _ in range(3):
            exe.run(main, {"x": np.ones((1, 1), "float32")}, [])
        assert weight() == 0.25
        with average.apply(exe):
            # The window closed after two steps (0.75, 0.5), and the third is 0.25.
            assert weight() == 0.5
        assert weight() == 0.25
        with pytest.raises(NotImplementedError, match="another optimizer"):
            average.minimize(loss)


def test_the_profiler_prints_a_table_and_writes_a_trace(tmp_path, capsys):
    path = tmp_path / "trace"
    with fluid.profiler.profiler("CPU", "total", str(path)):
        train(lambda: fluid.optimizer.SGD(0.1), steps=2)
    out = capsys.readouterr().out
    assert "Profiling Report" in out and "Calls" in out
    row = next(line for line in out.splitlines() if line.startswith("mul "))
    assert row.split()[1] == "4"
    events = json.loads(path.read_text())["traceEvents"]
    assert [event["name"] for event in events].count("sgd") == 8
    for wrong in ("calls ", "x"):
        fluid.profiler.start_profiler("CPU")
        with pytest.raises(ValueError, match="sorted_key"):
            fluid.profiler.stop_profiler(wrong)
    with pytest.raises(ValueError, match="state"):
        fluid.profiler.start_profiler("TPU")
    fluid.profiler.stop_profiler(None, str(path))
