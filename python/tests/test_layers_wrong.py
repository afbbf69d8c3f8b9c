"""Errors of layers about wrong arguments."""

import pytest

from building import L, Net, net  # noqa: F401
from paddlewheel import _core, fluid
from paddlewheel.fluid import layers

WRONG_TYPES = [
    lambda x, n: L.relu([1.0]),
    lambda x, n: L.relu("x"),
    lambda x, n: L.relu(n),
    lambda x, n: L.softmax(n),
    lambda x, n: L.cross_entropy(n, n),
    lambda x, n: L.embedding(x, [10, 4]),
    lambda x, n: L.embedding(n, 10),
    lambda x, n: L.logical_and(x, x),
    lambda x, n: L.elementwise_add(x, 1.0),
    lambda x, n: L.elementwise_add(x, x, act=5),
    lambda x, n: L.elementwise_add(x, x, axis="last"),
    lambda x, n: L.reduce_sum(x, dim="all"),
    lambda x, n: L.scale(x, scale="big"),
    lambda x, n: L.topk(x, "two"),
    lambda x, n: L.dropout(x, "half"),
    lambda x, n: L.relu(x, name=3),
    lambda x, n: L.batch_norm(x, param_attr=3.5),
    # Element types that Fluid's layers do not take.
    lambda x, n: L.fc(n, 3),
    lambda x, n: L.equal(x, L.data("short", [4], dtype="int16")),
    lambda x, n: L.cast(L.data("short", [4], dtype="int16"), "int32"),
    lambda x, n: L.cast(x, "int16"),
    lambda x, n: L.reshape(L.data("truth", [4], dtype="bool"), [-1, 2, 2]),
    lambda x, n: L.concat([L.data("byte", [4], dtype="uint8")]),
    lambda x, n: L.sequence_pool(n, "sum"),
    lambda x, n: L.sequence_reverse(L.data("short", [4], dtype="int16", lod_level=1)),
    lambda x, n: L.gru_unit(n, x, 12),
    lambda x, n: L.less_than(x, x, force_cpu=1),
    lambda x, n: L.equal(x, x, cond=1),
    # Misspelt, missing, too many.
    lambda x, n: L.relu(x, nam="r"),
    lambda x, n: L.elementwise_add(x, x, actt="relu"),
    lambda x, n: L.conv2d(x, 3, filter_sise=3),
    lambda x, n: L.fc(x, 3, activation="relu"),
    lambda x, n: L.huber_loss(x, x),
    lambda x, n: L.sign(x, "s"),
]


@pytest.mark.parametrize("call", WRONG_TYPES, ids=range(len(WRONG_TYPES)))
def test_wrong_types(net, call):
    x, n = L.data("x", [4]), L.data("n", [1], dtype="int64")
    with pytest.raises(TypeError):
        call(x, n)
    assert net.ops == []


WRONG_VALUES = [
    (
        lambda x, i: L.elementwise_add(x, x, act="nope"),
        ValueError,
        'Operator "nope" has not been registered',
    ),
    (lambda x, i: L.pool2d(i, 2, pool_type="median"), ValueError, "median"),
    (lambda x, i: L.pool2d(i), ValueError, "pool_size"),
    (lambda x, i: L.conv2d(i, 6, 3, padding="most"), ValueError, "Unknown padding"),
    (lambda x, i: L.conv2d(i, 6, [3, 3, 3]), ValueError, "3 of them"),
    (lambda x, i: L.conv2d(i, 6, 3, padding=[[0, 1], [0, 0], [1, 1], [1, 1]]), ValueError, "zeros"),
    (lambda x, i: L.conv2d(i, 6, 3, groups=2), ValueError, "groups"),
    (lambda x, i: L.conv2d(i, 6, 3, data_format="NCHWC"), ValueError, "data_format"),
    (lambda x, i: L.pool2d(i, 2, data_format="NCDHW"), ValueError, "data_format"),
    (lambda x, i: L.pool2d(i, 2, pool_padding="VALID", ceil_mode=True), ValueError, "ceil_mode"),
    (lambda x, i: L.fc([], 1), ValueError, "at least one variable"),
    (lambda x, i: L.fc(x, 1, num_flatten_dims=-3), ValueError, "num_flatten_dims"),
    (lambda x, i: L.conv2d(i, 6, 3, param_attr=False), AssertionError, "False"),
    (lambda x, i: L.batch_norm(i, bias_attr=False), AssertionError, "False"),
    (lambda x, i: L.prelu(i, "some"), ValueError, "all, channel, element"),
    (lambda x, i: L.label_smooth(x, epsilon=2.0), ValueError, "epsilon"),
    (lambda x, i: L.kldiv_loss(x, x, reduction="some"), ValueError, "reduction"),
    (
        lambda x, i: L.dropout(x, 0.5, dropout_implementation="x"),
        ValueError,
        "dropout_implementation",
    ),
    (lambda x, i: L.elementwise_add(x, i), _core.EnforceNotMet, "elementwise_add"),
    (
        lambda x, i: L.data_norm(x, enable_scale_and_shift=True),
        NotImplementedError,
        "enable_scale_and_shift",
    ),
]


@pytest.mark.parametrize("call, error, text", WRONG_VALUES, ids=range(len(WRONG_VALUES)))
def test_wrong_values(net, call, error, text):
    x, img = L.data("x", [4]), L.data("img", [3, 8, 8])
    with pytest.raises(error, match=text):
        call(x, img)


def test_a_wrong_element_type_is_named(net):
    with pytest.raises(TypeError, match="`n` must be .'float16', 'float32', 'float64'., .* int64"):
        L.mean(L.data("n", [1], dtype="int64"))


def test_variables_of_another_program(net):
    with Net():
        other = L.data("stranger", [4])
    with pytest.raises(ValueError, match="stranger"):
        L.relu(other)


@pytest.mark.parametrize(
    "layer, error, text",
    [
        (lambda x: layers.reshape(x, [-1, -1]), AssertionError, "can be -1"),
        (lambda x: layers.reshape(x, [-2, 4]), AssertionError, "must not be negative"),
        (lambda x: layers.reshape(x, [2, 2, 0]), AssertionError, "index of 0"),
        (lambda x: layers.transpose(x, [0]), ValueError, "perm"),
        (lambda x: layers.split(x, 3, dim=1), AssertionError, "evenly divisible"),
        (lambda x: layers.fc(x, -1), ValueError, "greater than 0"),
        (lambda x: layers.cast(x, "float31"), ValueError, "dtype must be any of"),
        (lambda x: layers.cast(x, None), ValueError, "dtype must be any of"),
        (lambda x: fluid.data("q", [1], dtype="flaot32"), TypeError, "flaot32"),
        (lambda x: layers.dropout(x, 2.0), fluid.core.EnforceNotMet, "dropout_prob"),
        (lambda x: layers.reduce_sum(x, dim=7), fluid.core.EnforceNotMet, "reduce_sum"),
    ],
)
def test_fluids_errors(layer, error, text):
    x = fluid.data("x", [None, 4])
    with pytest.raises(error, match=text):
        layer(x)


def test_a_reshape_that_does_not_fit():
    six = fluid.layers.fill_constant([2, 3], "float32", 1.0)
    with pytest.raises(fluid.core.EnforceNotMet, match="reshape2"):
        fluid.layers.reshape(six, [4, 5])
