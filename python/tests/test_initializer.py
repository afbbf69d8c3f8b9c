"""Initializers, regularizers and attributes of parameters."""

import numpy as np
import pytest

import paddlewheel.fluid as fluid
from paddlewheel.fluid import initializer


def start(init, shape=(40, 50), seed=7):
    """The first values of a weight."""
    fluid.default_startup_program().random_seed = seed
    x = fluid.layers.data("x", [shape[0]])
    fluid.layers.fc(x, shape[1], param_attr=fluid.ParamAttr(name="w", initializer=init))
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    return np.array(fluid.global_scope().find_var("w").get_tensor())


def test_aliases():
    assert initializer.Constant is initializer.ConstantInitializer
    assert initializer.Xavier is initializer.XavierInitializer
    assert isinstance(initializer.MSRA(), initializer.Initializer)
    assert fluid.regularizer.L2Decay is fluid.regularizer.L2DecayRegularizer


def test_a_constant_is_everywhere():
    assert (start(initializer.Constant(value=2)) == 2.0).all()


def test_uniform_stays_in_its_range():
    values = start(initializer.Uniform(low=-0.5, high=0.25, seed=3))
    assert -0.5 <= values.min() < -0.45 and 0.2 < values.max() <= 0.25


def test_normal_has_its_moments():
    values = start(initializer.Normal(loc=1.0, scale=2.0))
    assert values.mean() == pytest.approx(1.0, abs=0.15)
    assert values.std() == pytest.approx(2.0, abs=0.15)


def test_truncated_normal_has_no_tails():
    values = start(initializer.TruncatedNormal(scale=0.5))
    assert np.abs(values).max() <= 1.0 + 1e-6


def test_xavier_and_msra_know_the_fans():
    values = start(initializer.Xavier())
    assert np.abs(values).max() == pytest.approx(np.sqrt(6.0 / 90), rel=0.02)


def test_msra_knows_the_inputs():
    values = start(initializer.MSRA(uniform=False))
    assert values.std() == pytest.approx(np.sqrt(2.0 / 40), rel=0.1)


def test_given_fans_win():
    values = start(initializer.MSRA(fan_in=600))
    assert np.abs(values).max() == pytest.approx(0.1, rel=0.02)


def test_an_array_is_taken_as_it_is():
    given = np.arange(2000, dtype="float32").reshape(40, 50)
    np.testing.assert_array_equal(start(initializer.NumpyArrayInitializer(given)), given)


def test_an_initializer_can_fill_any_variable():
    block = fluid.default_startup_program().global_block()
    var = block.create_var(name="counter", shape=[2], dtype="float32", persistable=True)
    assert initializer.Constant(3.0)(var, block).type == "fill_constant"
    fluid.Executor().run(fluid.default_startup_program())
    values = np.array(fluid.global_scope().find_var("counter").get_tensor())
    assert values.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: initializer.Constant("a"), TypeError),
        (lambda: initializer.Constant(None), TypeError),
        (lambda: initializer.Uniform(1.0, 0.0), AssertionError),
        (lambda: initializer.Uniform(diag_num=2), NotImplementedError),
        (lambda: initializer.Normal(seed=None), TypeError),
        (lambda: initializer.Xavier(fan="in"), TypeError),
        (lambda: initializer.NumpyArrayInitializer([1]), AssertionError),
        (lambda: fluid.regularizer.L2Decay("a"), TypeError),
    ],
)
def test_refusals(wrong, error):
    with pytest.raises(error):
        wrong()


def test_attributes_have_fluids_defaults():
    attr = fluid.ParamAttr()
    assert (attr.name, attr.initializer, attr.learning_rate) == (None, None, 1.0)
    assert (attr.trainable, attr.do_model_average, attr.gradient_clip) == (True, True, None)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"name": 3}, "'name' in ParamAttr"),
        ({"learning_rate": "a"}, "'learning_rate' in ParamAttr"),
        ({"trainable": 3}, "'trainable' in ParamAttr"),
        ({"do_model_average": 3}, "'do_model_average' in ParamAttr"),
        ({"initializer": 3}, "initializer"),
        ({"regularizer": 3}, "regularizer"),
        ({"gradient_clip": 3}, "gradient_clip"),
        ({"nam": "w"}, "nam"),
    ],
)
def test_attributes_refuse(options, text):
    with pytest.raises(TypeError, match=text):
        fluid.ParamAttr(**options)


def test_what_may_stand_for_an_attribute():
    to_attr = fluid.ParamAttr._to_attr
    assert to_attr("w").name == "w" and to_attr(None).name is None and to_attr(False) is False
    assert [attr.name for attr in to_attr([None, "w"])] == [None, "w"]
    init = initializer.Constant(1.0)
    assert to_attr(init).initializer is init
    with pytest.raises(TypeError, match="cast to ParamAttr"):
        to_attr(3)
    assert fluid.WeightNormParamAttr(dim=1).dim == 1


def test_what_was_said_reaches_the_parameter():
    x = fluid.layers.data("x", [3])
    attr = fluid.ParamAttr(
        name="w",
        learning_rate=2,
        regularizer=fluid.regularizer.L1Decay(0.1),
        trainable=False,
        gradient_clip=fluid.clip.GradientClipByNorm(1.0),
    )
    fluid.layers.fc(x, 1, param_attr=attr)
    weight = fluid.default_main_program().global_block().var("w")
    assert weight.trainable is False and weight.stop_gradient is True
