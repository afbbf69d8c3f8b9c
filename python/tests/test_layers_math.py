"""Functions, arithmetic and losses of `fluid.layers`: names, shapes and values of Fluid 1.8.5."""

import math

import numpy as np
import pytest

from building import L, f32, net, whole  # noqa: F401
from paddlewheel import _core

VarType = _core.VarType

# Activations and other functions of one number.

SIGMOID = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
X = f32([-2.5, -0.4, 0.3, 3.0])
ACTIVATIONS = {
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "exp": np.exp,
    "floor": np.floor,
    "logsigmoid": lambda x: np.log(SIGMOID(x)),
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "sigmoid": SIGMOID,
    "sign": np.sign,
    "sin": np.sin,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "square": np.square,
    "tanh": np.tanh,
    "tanh_shrink": lambda x: x - np.tanh(x),
    "brelu": lambda x: np.clip(x, 0, 24),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "gelu": lambda x: x * f32([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x[0]]),
    "hard_shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.02 * x),
    "pow": lambda x: x,
    "relu6": lambda x: np.clip(x, 0, 6),
    "soft_relu": lambda x: np.log1p(np.exp(np.clip(x, -40, 40))),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "stanh": lambda x: 1.7159 * np.tanh(0.67 * x),
    "swish": lambda x: x * SIGMOID(x),
    "thresholded_relu": lambda x: np.where(x > 1, x, 0),
}
# Those that need numbers of their own.
INVERSES = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}
ANGLES = {"acos": np.arccos, "asin": np.arcsin, "atan": np.arctan}


@pytest.mark.parametrize("name", [*ACTIVATIONS, *INVERSES, *ANGLES])
def test_functions_of_one_number(net, name):
    x = {**dict.fromkeys(INVERSES, np.abs(X)), **dict.fromkeys(ANGLES, X / 4)}.get(name, X)
    out = getattr(L, name)(whole(1, 4))
    assert (out.name, out.shape, net.ops) == (f"{name}_0.tmp_0", (1, 4), [name])
    expected = {**ACTIVATIONS, **INVERSES, **ANGLES}[name](x)
    np.testing.assert_allclose(net.run([out], x=x)[0], expected, rtol=2e-5, atol=1e-6)


def test_activations_take_options_and_names(net):
    x = whole(1, 4)
    outs = [
        L.leaky_relu(x, alpha=0.5, name="leaky"),
        L.pow(x, 2),
        L.pow(L.square(x), factor=L.reduce_max(x)),
        L.hard_shrink(x, 2.7),
        L.thresholded_relu(x, threshold=0.2),
        L.softshrink(x, np.float32(1.0)),
        L.gelu(x, approximate=1),
        L.brelu(x, t_max=np.float64(0.5)),
    ]
    assert outs[0].name == "leaky.tmp_0"
    leaky, powed, by_var, hard, thresholded, soft, gelu, brelu = net.run(outs, x=X)
    np.testing.assert_allclose(leaky, np.maximum(X, X / 2))
    np.testing.assert_allclose(powed, X * X, rtol=1e-6)
    np.testing.assert_allclose(by_var, np.abs(X) ** 6, rtol=1e-5)
    np.testing.assert_allclose(hard, np.where(np.abs(X) > 2.7, X, 0))
    np.testing.assert_allclose(thresholded, np.where(X > 0.2, X, 0))
    np.testing.assert_allclose(soft, np.sign(X) * np.maximum(np.abs(X) - 1, 0))
    by_tanh = 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))
    np.testing.assert_allclose(gelu, by_tanh, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(brelu, np.clip(X, 0, 0.5))


# Two variables, place by place.


@pytest.mark.parametrize(
    "name, expected",
    [
        ("add", [5.0, 9.5]),
        ("sub", [1.0, 5.5]),
        ("mul", [6.0, 15.0]),
        ("div", [1.5, 3.75]),
        ("max", [3.0, 7.5]),
        ("min", [2.0, 2.0]),
        ("pow", [9.0, 56.25]),
    ],
)
def test_arithmetic(net, name, expected):
    x, y = whole(1, 2), L.data("y", [1, 2], append_batch_size=False)
    out = getattr(L, f"elementwise_{name}")(x, y)
    assert (out.name, net.ops) == (f"elementwise_{name}_0.tmp_0", [f"elementwise_{name}"])
    got = net.run([out], x=f32([3.0, 7.5]), y=f32([2.0, 2.0]))[0]
    np.testing.assert_allclose(got, [expected], rtol=1e-6)


def test_whole_numbers_divide(net):
    x = L.data("x", [2], append_batch_size=False, dtype="int64")
    y = L.data("y", [2], append_batch_size=False, dtype="int64")
    outs = [L.elementwise_mod(x, y), L.elementwise_floordiv(x, y)]
    rest, quotient = net.run(outs, x=np.array([7, 9]), y=np.array([4, 3]))
    assert (rest.tolist(), quotient.tolist()) == ([3, 0], [1, 3])


def test_arithmetic_takes_axis_and_act(net):
    x, y = whole(2, 3), L.data("y", [2], append_batch_size=False)
    out = L.elementwise_sub(x, y, axis=0, act="relu", name="diff")
    assert (out.name, net.ops) == ("diff.tmp_1", ["elementwise_sub", "relu"])
    got = net.run([out], x=f32([1, 2, 3], [4, 5, 6]), y=f32(2, 5))[0]
    np.testing.assert_allclose(got, [[0, 0, 1], [0, 0, 1]])


def test_comparisons_and_logic(net):
    x, y = whole(3), L.data("y", [3], append_batch_size=False)
    names = ["less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal"]
    outs = [getattr(L, name)(x, y) for name in names]
    less, equal = outs[0], outs[4]
    assert [out.name for out in outs] == [f"{name}_0.tmp_0" for name in names]
    assert {out.dtype for out in outs} == {VarType.BOOL} and less.stop_gradient
    outs += [
        L.logical_and(less, equal),
        L.logical_or(less, equal, name="either"),
        L.logical_xor(less, less),
        L.logical_not(less),
        L.less_than(x, y, cond=equal),
    ]
    assert (outs[7].name, outs[10].name) == ("either.tmp_0", equal.name)
    got = [out.tolist() for out in net.run(outs, x=f32(1, 2, 3), y=f32(2, 2, 2))]
    assert got[:4] == [
        [True, False, False],
        [True, True, False],
        [False, False, True],
        [False, True, True],
    ]
    assert got[5:10] == [
        [True, False, True],
        [False] * 3,
        [True, True, False],
        [False] * 3,
        [False, True, True],
    ]
    assert got[10] == [True, False, False]


def test_reductions(net):
    x = whole(2, 3)
    outs = [
        L.reduce_sum(x),
        L.reduce_mean(x, dim=1),
        L.reduce_max(x, dim=[0], keep_dim=True),
        L.reduce_min(x, dim=np.int64(-1)),
        L.reduce_prod(x, dim=(0, 1)),
        L.reduce_sum(x, dim=[]),
    ]
    assert [out.shape for out in outs] == [(1,), (2,), (1, 3), (2,), (1,), (1,)]
    got = [out.tolist() for out in net.run(outs, x=f32([1, 2, 3], [4, 5, 6]))]
    assert got == [[21.0], [2.0, 5.0], [[4.0, 5.0, 6.0]], [1.0, 4.0], [720.0], [21.0]]
    truths = L.less_than(x, x)
    assert (L.reduce_all(truths).dtype, L.reduce_any(truths, 0).shape) == (VarType.BOOL, (3,))


def test_what_is_finite(net):
    x = whole(3)
    outs = [L.isfinite(x), L.has_nan(x), L.has_inf(x)]
    assert [out.name for out in outs] == ["isfinite_0.tmp_0", "isnan_0.tmp_0", "isinf_0.tmp_0"]
    got = [bool(out[0]) for out in net.run(outs, x=f32(1, np.nan, 2))]
    assert got == [False, True, False]


def test_where_names_the_true_ones(net):
    x = whole(2, 2)
    found = L.where(L.greater_than(x, L.abs(L.scale(x, 0.0, bias=1.0))))
    assert (found.name, found.shape) == ("where_index_0.tmp_0", (-1, 2))
    assert net.run([found], x=f32([1, 2], [3, 0]))[0].tolist() == [[0, 1], [1, 0]]


# Arithmetic.


def test_scale_cast_clip(net):
    x = whole(1, 4)
    outs = [
        L.scale(x, scale=2, bias=1),
        L.scale(x, 2.0, 1.0, bias_after_scale=False, act="relu"),
        L.scale(x, scale=L.reduce_max(x)),
        L.cast(x, "int64"),
        L.cast(x, np.float64),
        L.clip(x, -1, 1, name="clipped"),
        L.clip_by_norm(x, max_norm=1.0),
    ]
    assert outs[5].name == "clipped"
    assert [out.dtype for out in outs[3:5]] == [VarType.INT64, VarType.FP64]
    scaled, added, by_var, whole_numbers, double, clipped, short = net.run(outs, x=X)
    np.testing.assert_allclose(scaled, 2 * X + 1, rtol=1e-6)
    np.testing.assert_allclose(added, np.maximum(2 * (X + 1), 0), rtol=1e-6)
    np.testing.assert_allclose(by_var, 3 * X, rtol=1e-6)
    assert whole_numbers.tolist() == [[-2, 0, 0, 3]] and double.dtype == np.float64
    np.testing.assert_allclose(clipped, np.clip(X, -1, 1))
    np.testing.assert_allclose(short, X / np.linalg.norm(X), rtol=1e-6)


def test_increment_writes_in_place(net):
    x = whole(1)
    assert L.increment(x, value=2.0).name == "x"
    assert L.increment(x, in_place=False).name == "increment_1.tmp_0"
    assert net.run(["x", "increment_1.tmp_0"], x=f32(5)) == [[7.0], [8.0]]


def test_products(net):
    x, y = whole(2, 3), L.data("y", [2, 3], append_batch_size=False)
    outs = [L.matmul(x, y, transpose_y=True, alpha=2), L.mul(x, L.matmul(y, x, transpose_x=True))]
    outs += [L.cos_sim(x, Y=y), L.l2_normalize(x, axis=1), L.softmax(x, axis=0)]
    assert [out.shape for out in outs] == [(2, 2), (2, 3), (2, 1), (2, 3), (2, 3)]
    a, b = f32([1, 2, 3], [4, 5, 6]), f32([1, 0, 2], [0, 3, 1])
    product, flat, cos, unit, probabilities = net.run(outs, x=a, y=b)
    np.testing.assert_allclose(product, 2 * a @ b.T)
    np.testing.assert_allclose(flat, a @ (b.T @ a))
    norm = lambda m: np.linalg.norm(m, axis=1, keepdims=True)  # noqa: E731
    np.testing.assert_allclose(cos, (a * b).sum(1, keepdims=True) / norm(a) / norm(b), rtol=1e-6)
    np.testing.assert_allclose(unit, a / norm(a), rtol=1e-6)
    np.testing.assert_allclose(probabilities, np.exp(a) / np.exp(a).sum(0), rtol=1e-5)


# Losses.


def test_losses_of_two_variables(net):
    x, y = whole(2, 2), L.data("y", [2, 2], append_batch_size=False)
    a, b = f32([0.25, 0.5], [0.75, 0.5]), f32([1, 0], [1, 1])
    outs = {
        L.square_error_cost(x, y): (a - b) ** 2,
        L.sigmoid_cross_entropy_with_logits(x, y): np.log1p(np.exp(a)) - a * b,
        L.huber_loss(x, y, 0.5): np.where(
            np.abs(a - b) <= 0.5, 0.5 * (a - b) ** 2, 0.5 * (np.abs(a - b) - 0.25)
        ),
        L.smooth_l1(x, y, sigma=1.0): (0.5 * (a - b) ** 2).sum(1, keepdims=True),
        L.mse_loss(input=x, label=y): [np.mean((a - b) ** 2)],
        L.kldiv_loss(x, y, reduction="sum"): [np.sum(b * (np.log(np.maximum(b, 1e-30)) - a))],
    }
    got = net.run(list(outs), x=a, y=b)
    for out, value, expected in zip(outs, got, outs.values()):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6, err_msg=out.name)


def test_losses_of_classes(net):
    x, y = whole(2, 2), L.data("y", [2, 1], append_batch_size=False, dtype="int64")
    hard = L.cross_entropy(x, y)
    loss, softmax = L.softmax_with_cross_entropy(x, y, return_softmax=True)
    alone = L.softmax_with_cross_entropy(x, y, ignore_index=1)
    soft = L.cross_entropy(x, x, soft_label=True)
    ranked = L.bpr_loss(x, y)
    names = [hard.name, loss.name, softmax.name, soft.name]
    kind = "softmax_with_cross_entropy_0"
    assert names == [
        "cross_entropy2_0.tmp_0",
        f"{kind}.tmp_1",
        f"{kind}.tmp_0",
        "cross_entropy_0.tmp_0",
    ]
    a, b = f32([0.25, 0.75], [0.5, 0.5]), np.array([[1], [0]])
    got = net.run([hard, loss, softmax, alone, soft, ranked], x=a, y=b)
    probabilities = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    picked = np.array([[probabilities[0, 1]], [probabilities[1, 0]]])
    np.testing.assert_allclose(got[0], -np.log([[0.75], [0.5]]), rtol=1e-6)
    np.testing.assert_allclose(got[1], -np.log(picked), rtol=1e-5)
    np.testing.assert_allclose(got[2], probabilities, rtol=1e-5)
    np.testing.assert_allclose(got[3], [[0], -np.log(picked[1])], rtol=1e-5)
    np.testing.assert_allclose(got[4], -(a * np.log(a)).sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(got[5], -np.log([[SIGMOID(0.5)], [SIGMOID(0.0)]]), rtol=1e-5)


def test_losses_of_ranks(net):
    label, left = whole(2, 1), L.data("left", [2, 1], append_batch_size=False)
    right = L.data("right", [2, 1], append_batch_size=False)
    outs = [
        L.rank_loss(label, left, right),
        L.margin_rank_loss(label, left, right, margin=0.5),
        L.log_loss(left, label, epsilon=0.1),
    ]
    t, a, b = f32([1], [1]), f32([0.5], [0.25]), f32([0.25], [0.5])
    rank, margin, log = net.run(outs, x=t, left=a, right=b)
    np.testing.assert_allclose(rank, np.log1p(np.exp(a - b)) - t * (a - b), rtol=1e-5)
    np.testing.assert_allclose(margin, [[0.25], [0.75]])
    np.testing.assert_allclose(log, -np.log(a + 0.1), rtol=1e-5)
