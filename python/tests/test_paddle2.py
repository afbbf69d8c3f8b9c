"""Functions and layers in the form of Paddle 2.x give the numbers of the real 2.6.2."""

import importlib
import json
import os

import numpy
import pytest
from conftest import HERE, saved_in
from two_cases import CASES, OPTIMIZERS, run, steps

import paddlewheel as paddle

paddle.enable_static()
with open(os.path.join(HERE, "fixtures", "paddle2.json")) as _file:
    REAL = json.load(_file)


def test_all_cases_are_recorded():
    assert set(REAL) == {*CASES, *OPTIMIZERS} and len(REAL) > 200


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_optimizers_step_as_the_real_paddle(case):
    numpy.testing.assert_allclose(steps(paddle, case), REAL[case], rtol=2e-5)


@pytest.mark.parametrize("case", CASES)
def test_gives_the_numbers_of_the_real_paddle(case):
    given = run(paddle, case)
    assert len(given) == len(REAL[case])
    for ours, (shape, numbers) in zip(given, REAL[case]):
        # The real one has numbers without dimensions; here they have one.
        assert list(ours.shape) == (shape or [1])
        numpy.testing.assert_allclose(ours.astype("float64").reshape(-1), numbers, rtol=2e-5, atol=1e-5)


def test_all_names_that_paddlerec_uses_are_there():
    """Of its 42 static models, their readers and the tools that train them."""
    with open(os.path.join(HERE, "fixtures", "paddlerec_names.txt")) as file:
        names = file.read().split()
    assert len(names) > 200
    for name in names:
        found = paddle
        for at, part in enumerate(name.split(".")):
            if not hasattr(found, part):
                importlib.import_module(".".join(["paddlewheel", *name.split(".")[: at + 1]]))
            found = getattr(found, part)


@pytest.mark.parametrize(
    "call",
    [
        paddle.disable_static,
        lambda: paddle.to_tensor([1.0]),
        lambda: paddle.jit.save(None, "x"),
        lambda: paddle.no_grad(),
        lambda: paddle.optimizer.SGD(0.1).step(),
        lambda: paddle.optimizer.AdamW(0.1),
        lambda: paddle.static.amp.decorate(None),
    ],
)
def test_dynamic_graphs_say_what_is_there_instead(call):
    with pytest.raises(NotImplementedError, match="paddle.static|program|use|leave"):
        call()


def test_layers_find_their_parameters():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first = paddle.nn.Linear(2, 3)
            self.rest = paddle.nn.LayerList([paddle.nn.Linear(3, 1, bias_attr=False), paddle.nn.ReLU()])
            self.scale = self.create_parameter([1], default_initializer=paddle.nn.initializer.Constant(2.0))

    net = Net()
    assert net.full_name() == "net_0"
    assert [name for name, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "rest.0.weight"]
    assert [var.name for var in net.parameters()] == ["net_0.w_0", "linear_0.w_0", "linear_0.b_0", "linear_1.w_0"]
    assert len(net.sublayers()) == 4 and set(net.state_dict()) == {name for name, _ in net.named_parameters()}
    net.eval()
    assert not any(layer.training for layer in net.sublayers(include_self=True))
    with pytest.raises(ValueError, match="super"):
        type("Wrong", (paddle.nn.Layer,), {"__init__": lambda self: setattr(self, "x", paddle.nn.ReLU())})()


def trained(optimizer, steps=3):
    """The weight after some steps with gradient 1."""
    x = paddle.static.data("x", [None, 1])
    layer = paddle.nn.Linear(1, 1, paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(1.0)), False)
    loss = paddle.mean(layer(x))
    optimizer.minimize(loss)
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    for _ in range(steps):
        (weight,) = exe.run(feed={"x": numpy.ones((2, 1), "float32")}, fetch_list=[layer.weight])
        yield float(weight[0, 0]), optimizer


def test_a_scheduler_sets_the_rate_of_the_next_run():
    schedule = paddle.optimizer.lr.PiecewiseDecay([1, 2], [0.5, 0.25, 0.125])
    weights = []
    for weight, optimizer in trained(paddle.optimizer.SGD(schedule)):
        weights.append((weight, optimizer.get_lr()))
        schedule.step()
    assert weights == [(0.5, 0.5), (0.25, 0.25), (0.125, 0.125)]


#: After 1, 2, 3, ... calls of `step()`, as the real 2.6.2 has it.
SCHEDULES = {
    "NoamDecay(100, 3)": [0.01924501, 0.03849002, 0.05773503, 0.05],
    "NaturalExpDecay(0.5, 0.1)": [0.45241871, 0.40936538, 0.37040911, 0.33516002],
    "InverseTimeDecay(0.5, 0.1)": [0.45454545, 0.41666667, 0.38461538, 0.35714286],
    "ExponentialDecay(0.5, 0.5)": [0.25, 0.125, 0.0625, 0.03125],
    "PolynomialDecay(0.5, 3)": [0.33336667, 0.16673333, 0.0001, 0.0001],
    "PolynomialDecay(0.5, 2, cycle=True)": [0.25005, 0.0001, 0.125075, 0.0001],
    "LinearWarmup(0.5, 2, 0.0, 0.4)": [0.2, 0.5, 0.5, 0.5],
    "StepDecay(0.5, 2)": [0.5, 0.05, 0.05, 0.005],
    "MultiStepDecay(0.5, [1, 3], 0.5)": [0.25, 0.25, 0.125, 0.125],
    "CosineAnnealingDecay(0.5, 4)": [0.4267767, 0.25, 0.0732233, 0.0],
}


@pytest.mark.parametrize("made", SCHEDULES)
def test_schedules(made):
    schedule = eval("paddle.optimizer.lr." + made)
    found = []
    for _ in range(4):
        schedule.step()
        found.append(schedule())
    numpy.testing.assert_allclose(found, SCHEDULES[made], atol=1e-7)


def test_saved_forms(tmp_path):
    x = paddle.static.data("x", [None, 2])
    out = paddle.nn.Linear(2, 1)(x)
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    feed = {"x": numpy.ones((3, 2), "float32")}
    (wanted,) = exe.run(feed=feed, fetch_list=[out])
    prefix = str(tmp_path / "folder" / "model")
    paddle.static.save_inference_model(prefix, [x], [out], exe)
    assert saved_in(tmp_path / "folder") == ["model.pdiparams", "model.pdmodel"]
    paddle.static.save(paddle.static.default_main_program(), str(tmp_path / "state"))
    state = paddle.load(str(tmp_path / "state.pdparams"))
    assert sorted(state) == ["linear_0.b_0", "linear_0.w_0"]
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
        assert feeds == ["x"]
        numpy.testing.assert_allclose(exe.run(program, feed=feed, fetch_list=fetches)[0], wanted, rtol=1e-6)
    with pytest.raises(NotImplementedError, match="paddle.static.save"):
        paddle.save({"x": object()}, str(tmp_path / "x"))
    with pytest.raises(ValueError, match="must be 'float32'"):
        exe.run(feed={"x": numpy.ones((3, 2))}, fetch_list=[out])
