"""Optimizers, gradients, clips: real runs on a small linear model."""

import inspect

import numpy as np
import pytest

import paddlewheel.fluid as fluid
from paddlewheel import _core
from paddlewheel.fluid import clip, optimizer, regularizer

X = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0], [2.0, 0.0, -1.0], [1.0, 1.0, 1.0]], "float32")
#: Options of Adam that Fluid has no word for: the order of its own steps, and version 2's epsilon.
OURS = ("powers_after_step", "corrected_epsilon")
Y = X.dot(np.array([[1.0], [-2.0], [0.5]], "float32")) + 0.25


def network(**options):
    """The mean squared error of a linear model that starts at 0.1 everywhere."""
    x = fluid.layers.data("x", [3])
    y = fluid.layers.data("y", [1])
    attr = options.pop("param_attr", fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1)))
    error = fluid.layers.fc(x, 1, param_attr=attr, **options) - y
    return fluid.layers.mean(error * error)


def train(loss, steps):
    """The losses of some steps, and the executor."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    run = lambda: exe.run(feed={"x": X, "y": Y}, fetch_list=[loss])[0][0]
    return [float(run()) for _ in range(steps)]


def value(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizer.SGD(learning_rate=0.05),
        lambda: optimizer.SGDOptimizer(0.05),
        lambda: optimizer.Momentum(0.02, 0.9),
        lambda: optimizer.Momentum(0.02, momentum=0.9, use_nesterov=True),
        lambda: optimizer.LarsMomentum(0.05, momentum=0.5, lars_coeff=0.5),
        lambda: optimizer.Adagrad(learning_rate=0.3),
        lambda: optimizer.Adagrad(0.3, initial_accumulator_value=0.1),
        lambda: optimizer.Adam(learning_rate=0.1),
        lambda: optimizer.AdamOptimizer(0.1, lazy_mode=True),
        lambda: optimizer.Adamax(learning_rate=0.1),
        lambda: optimizer.DecayedAdagrad(learning_rate=0.1),
        lambda: optimizer.Adadelta(learning_rate=1.0, epsilon=0.1),
        lambda: optimizer.RMSPropOptimizer(learning_rate=0.05),
        lambda: optimizer.RMSPropOptimizer(0.02, momentum=0.5, centered=True),
        lambda: optimizer.Ftrl(learning_rate=0.3),
        lambda: optimizer.LambOptimizer(learning_rate=0.05),
        lambda: optimizer.Dpsgd(learning_rate=0.1, clip=10.0, batch_size=16.0),
    ],
)
def test_every_optimizer_lowers_the_loss(make):
    loss = network()
    ops, pairs = make().minimize(loss)
    assert [op.type for op in ops][0] == make().type
    assert [(param.name, grad.name) for param, grad in pairs] == [
        ("fc_0.w_0", "fc_0.w_0@GRAD"),
        ("fc_0.b_0", "fc_0.b_0@GRAD"),
    ]
    losses = train(loss, 60)
    assert losses[-1] < 0.6 * losses[0]


def test_sgd_steps_by_the_learning_rate():
    loss = network()
    optimizer.SGD(0.05).minimize(loss)
    train(loss, 1)
    error = X.dot(np.full((3, 1), 0.1, "float32")) - Y
    expected = 0.1 - 0.05 * 2 * X.T.dot(error) / len(X)
    np.testing.assert_allclose(value("fc_0.w_0"), expected, rtol=1e-5)


def test_operators_come_in_order_of_the_names_and_are_of_the_program():
    loss = network()
    ops, _ = optimizer.Adam(0.1).minimize(loss)
    assert [op.input("Param") for op in ops] == [["fc_0.b_0"], ["fc_0.w_0"]]
    assert ops[-1].type == fluid.default_main_program().global_block().ops[-1].type == "adam"


def test_the_learning_rate():
    adam = optimizer.Adam(1)  # Fluid refuses an int; nothing speaks against it.
    assert adam._learning_rate == 1 and adam.current_step_lr() == 1.0
    adam._learning_rate = 0.5
    loss = network()
    assert adam._global_learning_rate() is None
    adam.minimize(loss)
    assert adam._global_learning_rate().name == "learning_rate_0"
    train(loss, 1)
    assert value("learning_rate_0") == [0.5]
    names = adam.get_opti_var_name_list()
    assert names[:2] == ["fc_0.b_0_moment1_0", "fc_0.b_0_moment2_0"] and len(names) == 8
    weights = fluid.default_main_program().all_parameters()[0]
    assert adam._get_accumulator("moment1", weights).name == "fc_0.w_0_moment1_0"
    with pytest.raises(Exception, match="does not exist"):
        adam._get_accumulator("velocity", weights)


def test_the_learning_rate_may_be_a_variable():
    loss = network()
    rate = fluid.layers.data("rate", [1], append_batch_size=False)
    optimizer.SGD(rate).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    before = value("fc_0.w_0")
    exe.run(feed={"x": X, "y": Y, "rate": np.zeros(1, "float32")})
    np.testing.assert_array_equal(value("fc_0.w_0"), before)


@pytest.mark.parametrize(
    "wrong, error, text",
    [
        (lambda: optimizer.SGD("fast"), TypeError, "float or Variable, got <class 'str'> here"),
        (lambda: optimizer.SGD(None), AssertionError, None),
        (lambda: optimizer.SGD(), TypeError, "learning_rate"),
        (lambda: optimizer.SGD(0.1, lr=3), TypeError, "lr"),
        (lambda: optimizer.SGD(0.1, grad_clip=3), TypeError, "GradientClipBase"),
        (lambda: optimizer.SGD(0.1, regularization=3), TypeError, "regularizer"),
        (lambda: optimizer.SGD(0.1, parameter_list=3), TypeError, "parameter_list"),
        (lambda: optimizer.Momentum(0.1), TypeError, "momentum"),
        (lambda: optimizer.Momentum(0.1, None), TypeError, None),
        (lambda: optimizer.Optimizer(0.1), NotImplementedError, "subclasses"),
        (lambda: optimizer.LookaheadOptimizer(None), AssertionError, "inner optimizer"),
        (lambda: optimizer.PipelineOptimizer(0.1), NotImplementedError, "PipelineOptimizer"),
    ],
)
def test_constructors_refuse(wrong, error, text):
    with pytest.raises(error, match=text):
        wrong()


def test_minimize_refuses():
    loss = network()
    sgd = optimizer.SGD(0.1)
    block = fluid.default_main_program().global_block()
    n_ops = len(block.ops)
    for wrong, error, text in [
        (lambda: sgd.minimize(3), AssertionError, "The loss should be an Variable"),
        (lambda: sgd.minimize(block.var("fc_0.tmp_1")), AssertionError, "loss.shape should be"),
        (lambda: sgd.minimize(loss, parameter_list=3), TypeError, "parameter_list"),
        (lambda: sgd.minimize(loss, no_grad_set="x"), TypeError, "no_grad_set should be set"),
        (lambda: sgd.minimize(loss, no_grad_set={3}), TypeError, "no_grad_set's member"),
        (lambda: sgd.minimize(loss, startup_program=3), TypeError, "startup_program"),
        (lambda: sgd.minimize(loss, losses=3), TypeError, "losses"),
        (lambda: sgd.backward(loss, callbacks=3), AssertionError, "callbacks"),
        (lambda: sgd.apply_gradients([3]), TypeError, None),
        (lambda: optimizer.SGD(float("nan")).minimize(loss), ValueError, "learning_rate"),
    ]:
        with pytest.raises(error, match=text):
            wrong()
        assert len(block.ops) == n_ops, "nothing was added"


def test_only_some_parameters_are_trained():
    loss = network()
    _, pairs = optimizer.SGD(0.1).minimize(loss, parameter_list=["fc_0.w_0"])
    assert [param.name for param, _ in pairs] == ["fc_0.w_0"]


def test_no_grad_set_takes_variables_and_names():
    loss = network()
    bias = fluid.default_main_program().all_parameters()[1]
    _, pairs = optimizer.SGD(0.1).minimize(loss, no_grad_set={bias})
    assert [param.name for param, _ in pairs] == ["fc_0.w_0"]


def test_backward_and_apply_are_minimize():
    loss = network()
    sgd = optimizer.SGD(0.1)
    pairs = sgd.backward(loss)
    ops = sgd.apply_gradients(pairs + [(pairs[0][0], None)])
    assert [op.type for op in ops] == ["sgd", "sgd"]
    losses = train(loss, 5)
    assert losses[-1] < losses[0]


def test_minimize_works_in_the_program_of_the_loss():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        loss = network()
    pairs = optimizer.SGD(0.1).minimize(loss, startup)[1]
    assert main.global_block().ops[-1].type == "sgd"
    assert "learning_rate_0" in startup.global_block().vars
    assert not fluid.default_main_program().global_block().ops
    assert pairs[0][1].shape == (3, 1)


def test_subclasses_may_take_other_arguments():
    class Warm(optimizer.SGD):
        def __init__(self, rate, factor):
            super().__init__(rate * factor)

        def minimize(self, loss, **options):
            return super().minimize(loss, **options)

    warm = Warm(0.1, factor=0.5)
    assert isinstance(warm, optimizer.Optimizer) and warm._learning_rate == 0.05
    warm.minimize(network())


def test_regularizers():
    loss = network()
    optimizer.SGD(0.05, regularization=regularizer.L2Decay(0.5)).minimize(loss)
    train(loss, 1)
    error = X.dot(np.full((3, 1), 0.1, "float32")) - Y
    expected = 0.1 - 0.05 * (2 * X.T.dot(error) / len(X) + 0.5 * 0.1)
    np.testing.assert_allclose(value("fc_0.w_0"), expected, rtol=1e-5)
    assert str(regularizer.L1Decay(0.5)) == "L1Decay, regularization_coeff=0.500000"


def grad_after(**options):
    """The gradient of the weights that SGD applies, by the step it makes."""
    loss = network()
    optimizer.SGD(1.0, **options).minimize(loss)
    train(loss, 1)
    return 0.1 - value("fc_0.w_0")


def test_clips_bound_gradients():
    full = 2 * X.T.dot(X.dot(np.full((3, 1), 0.1, "float32")) - Y) / len(X)
    clipped = grad_after(grad_clip=clip.GradientClipByValue(0.5))
    np.testing.assert_allclose(clipped, np.clip(full, -0.5, 0.5), rtol=1e-4)


def test_a_clip_by_norm_bounds_the_norm():
    assert np.linalg.norm(grad_after(grad_clip=clip.GradientClipByNorm(0.25))) == pytest.approx(0.25, 1e-4)


def test_need_clip_leaves_parameters_alone():
    only_bias = lambda param: param.name.endswith("b_0")
    full = 2 * X.T.dot(X.dot(np.full((3, 1), 0.1, "float32")) - Y) / len(X)
    grad = grad_after(grad_clip=clip.GradientClipByValue(0.01, need_clip=only_bias))
    np.testing.assert_allclose(grad, full, rtol=1e-4)
    assert abs(value("fc_0.b_0")[0]) <= 0.0101


def test_set_gradient_clip():
    loss = network()
    with pytest.raises(TypeError, match="'clip' should be an instance"):
        clip.set_gradient_clip(3)
    by_value = clip.GradientClipByValue(0.01)
    with pytest.raises(ValueError, match="nope"):
        clip.set_gradient_clip(by_value, param_list=["nope"])
    with pytest.raises(TypeError, match="'param_list' should be a list"):
        clip.set_gradient_clip(by_value, param_list=[3])
    clip.set_gradient_clip(by_value, param_list=["fc_0.w_0", "fc_0.b_0"])
    optimizer.SGD(1.0).minimize(loss)
    train(loss, 1)
    assert np.abs(0.1 - value("fc_0.w_0")).max() <= 0.0101
    assert abs(value("fc_0.b_0")[0]) <= 0.0101


def test_clips_say_what_they_are():
    assert str(clip.GradientClipByValue(1.0)) == "Gradient Clip By Value, min = -1.000000, max=1.000000"
    assert str(clip.GradientClipByNorm(1)) == "Gradient Clip By Norm, clip_norm=1.000000"
    assert str(clip.ErrorClipByValue(2)) == "ByValue, min=-2.000000, max=2.000000"
    with pytest.raises(TypeError):
        clip.GradientClipByValue("a")
    with pytest.raises(AssertionError):
        clip.GradientClipByValue(-1.0)
    with pytest.raises(TypeError, match="need_clip"):
        clip.GradientClipByNorm(1.0, need_clip=3)


def test_error_clip_bounds_between_operators():
    loss = network()
    middle = fluid.default_main_program().global_block().var("fc_0.tmp_1")
    assert middle.error_clip is None
    with pytest.raises(TypeError, match="error_clip"):
        middle.error_clip = 3
    middle.error_clip = clip.ErrorClipByValue(max=1e-4)
    assert middle.error_clip.min == pytest.approx(-1e-4)
    optimizer.SGD(1.0).minimize(loss)
    train(loss, 1)
    assert np.abs(0.1 - value("fc_0.w_0")).max() < 1e-2


def test_lamb_asks_whom_to_spare():
    loss = network()
    asked = []

    def spare(param):
        asked.append((param.name, param.shape))
        return param.name == "fc_0.b_0"

    ops, _ = optimizer.Lamb(0.01, exclude_from_weight_decay_fn=spare).minimize(loss)
    assert ("fc_0.w_0", (3, 1)) in asked
    assert [op.attr("weight_decay") for op in ops] == [0.0, pytest.approx(0.01)]

    def broken(param):
        raise KeyError(param.name)

    with pytest.raises(KeyError):
        optimizer.Lamb(0.01, exclude_from_weight_decay_fn=broken).minimize(loss)


def test_recompute_is_the_optimizer_inside():
    loss = network()
    outer = optimizer.RecomputeOptimizer(optimizer.SGD(0.05))
    outer._set_checkpoints([loss])
    outer.minimize(loss)
    losses = train(loss, 10)
    assert losses[-1] < losses[0]


def test_append_backward():
    loss = network()
    pairs = fluid.backward.append_backward(loss)
    assert [grad.name for _, grad in pairs] == ["fc_0.w_0@GRAD", "fc_0.b_0@GRAD"]
    with pytest.raises(TypeError, match="'loss' in fluid.backward.append_backward"):
        fluid.backward.append_backward(3)


def test_gradients_of_inputs():
    x = fluid.layers.data("x", [3], stop_gradient=False)
    y = fluid.layers.mean(x * x)
    found = fluid.gradients([y], [x])
    exe = fluid.Executor()
    (grad,) = exe.run(feed={"x": X}, fetch_list=found)
    np.testing.assert_allclose(grad, 2 * X / X.size, rtol=1e-6)
    other = fluid.layers.data("other", [3], stop_gradient=False)
    assert fluid.gradients(y, other) == []
    for wrong, error in [
        (lambda: fluid.gradients(y, 3), TypeError),
        (lambda: fluid.gradients([y], x, target_gradients=[None, None]), ValueError),
        (lambda: fluid.gradients([], x), ValueError),
    ]:
        with pytest.raises(error):
            wrong()


def test_operators_are_annotated_as_fluid_does():
    x = fluid.data("x", [None, 4])
    loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    decay = fluid.regularizer.L2Decay(0.1)
    fluid.optimizer.Adam(0.1, regularization=decay).minimize(loss)
    again = fluid.optimizer.Adamax(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))
    with pytest.warns(UserWarning, match="this program was minimised already"):
        again.minimize(loss)
    scopes = [
        (op.type, op.attr("op_namescope"))
        for op in fluid.default_main_program().global_block().ops
        if op.attr("op_role") == 2
    ]
    assert scopes[:4] == [(op, "/regularization/") for op in ("scale", "sum") * 2]
    assert scopes[4:6] == [("adam", "/optimizer/"), ("adam", "/optimizer_1/")]
    assert ("square", "/gradient_clip/") in scopes
    assert scopes[-4:] == [
        ("adamax", "/optimizer_2/"),
        ("adamax", "/optimizer_3/"),
        ("scale", "/adamx/"),
        ("scale", "/adamx_1/"),
    ]


def test_training_nothing_returns_nothing():
    x = fluid.data("x", [None, 4])
    with pytest.warns(UserWarning, match="no parameter"):
        assert fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(x)) == ([], [])


def test_roles_of_operators():
    program, x = fluid.default_main_program(), fluid.data("x", [None, 4])

    def role():
        fluid.layers.scale(x, 2.0)
        op = program.global_block().ops[-1]
        return op.attr("op_role"), op.attr("op_role_var") if op.has_attr("op_role_var") else []

    with program._lr_schedule_guard():
        assert role() == (16, [])
    with program._lr_schedule_guard(is_with_opt=True):
        assert role() == (18, [])
    with program._backward_role_guard():
        assert role() == (1, [])
    with program._optimized_guard([x, "x@GRAD"]):
        assert role() == (2, ["x", "x@GRAD"])
    assert role() == (0, [])


def one_layer():
    fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 3
    x = fluid.data("x", [None, 2])
    return fluid.layers.mean(fluid.layers.fc(x, 1))


def weights_after(exe, n_steps):
    for step in range(n_steps):
        exe.run(
            fluid.default_main_program(), feed={"x": np.full((2, 2), step + 1.0, "float32")}
        )
        yield values("fc_0.w_0")


def values(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor()).ravel().tolist()


def test_exponential_moving_average():
    fluid.optimizer.SGD(0.1).minimize(one_layer())
    average = fluid.optimizer.ExponentialMovingAverage(0.9)
    average.update()
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    with average.apply(exe):
        assert values("fc_0.w_0") == [0.0, 0.0], "nothing was averaged yet"
    *_, last = weights_after(exe, 3)
    # As Fluid 1.8.5 printed them; it spoils its averages when it applies them, these are kept.
    assert last == pytest.approx([-2.0140228, -1.2926892], abs=1e-6)
    for _ in range(2):
        with average.apply(exe):
            assert values("fc_0.w_0") == pytest.approx([-1.7649451, -1.0436116], abs=1e-6)
        assert values("fc_0.w_0") == last
    with average.apply(exe, need_restore=False):
        pass
    assert values("fc_0.w_0") != last
    average.restore(exe)
    assert values("fc_0.w_0") == last


def test_scheduled_decay_of_averages():
    fluid.optimizer.SGD(0.1).minimize(one_layer())
    steps = fluid.layers.cast(fluid.layers.autoincreased_step_counter(), "float32")
    fluid.optimizer.ExponentialMovingAverage(0.999, thres_steps=steps).update()
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    list(weights_after(exe, 2))
    assert values("scheduled_ema_decay_rate") == pytest.approx([3 / 12])


def test_lookahead():
    sgd = fluid.optimizer.SGD(0.1)
    ops, pairs = fluid.optimizer.LookaheadOptimizer(sgd, alpha=0.5, k=2).minimize(one_layer())
    assert len(pairs) == 2 and [op.type for op in ops] == ["sgd", "sgd"]
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    theirs = [
        [-1.5140228, -0.7926892],
        [-1.5640228, -0.8426893],
        [-1.8640227, -1.1426892],
        [-1.9140228, -1.1926892],
        [-2.4140229, -1.6926892],
    ]
    for ours, fluids in zip(weights_after(exe, 5), theirs):
        assert ours == pytest.approx(fluids, abs=1e-6)
    with pytest.raises(AssertionError, match="k should be a positive"):
        fluid.optimizer.LookaheadOptimizer(sgd, k=0)


def classes():
    """The optimizers that users make, by the operator they update with."""
    found = {}
    for name, item in vars(optimizer).items():
        if not name.endswith("Optimizer") or name == "Optimizer" or not isinstance(item, type):
            continue
        needed = {"learning_rate": 0.1, "momentum": 0.9}
        wanted = inspect.signature(item.__init__).parameters
        try:
            made = item(**{key: value for key, value in needed.items() if key in wanted})
        except (NotImplementedError, TypeError):
            continue
        found[made.type] = (item, made)
    return found


def test_every_optimizer_of_the_core_has_a_class_with_its_options():
    kinds = _core.optimizer.Optimizer.kinds()
    assert set(classes()) == set(kinds)
    for op, (item, _) in classes().items():
        parameters = inspect.signature(item.__init__).parameters
        for option, usual in (pair for pair in kinds[op] if pair[0] not in OURS):
            assert option in parameters, (op, option)
            default = parameters[option].default
            # Fluid has no default for momentum where it is what the optimizer is about.
            if default is not inspect.Parameter.empty:
                assert np.float32(default) == np.float32(usual), (op, option)
