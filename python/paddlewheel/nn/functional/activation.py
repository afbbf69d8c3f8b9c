"""Activations."""

from ...fluid import layers
from ...tensor import math
from ...tensor._op import make, need_variable

sigmoid, tanh = math.sigmoid, math.tanh


def relu(x, name=None):
    """max(x, 0)."""
    need_variable(x, "relu")
    return make("relu", {"X": x}, name=name)


def relu6(x, name=None):
    """min(max(x, 0), 6)."""
    return layers.relu6(x, 6.0, name)


def leaky_relu(x, negative_slope=0.01, name=None):
    """x above 0, else `negative_slope` x."""
    return layers.leaky_relu(x, negative_slope, name)


def elu(x, alpha=1.0, name=None):
    """x above 0, else alpha (e^x - 1)."""
    return layers.elu(x, alpha, name)


def gelu(x, approximate=False, name=None):
    """x times the share of a normal distribution below x."""
    return layers.gelu(x, approximate)


def swish(x, name=None):
    """x sigmoid(x)."""
    return layers.swish(x, 1.0, name)


silu = swish


def mish(x, name=None):
    """x tanh(log(1 + e^x))."""
    return math.multiply(x, tanh(softplus(x)))


def softplus(x, beta=1, threshold=20, name=None):
    """log(1 + e^(beta x)) / beta."""
    if beta == 1:
        return layers.softplus(x, name)
    return math.scale(layers.softplus(math.scale(x, float(beta))), 1.0 / beta)


def softsign(x, name=None):
    """x / (1 + |x|)."""
    return layers.softsign(x, name)


def hardsigmoid(x, slope=0.1666667, offset=0.5, name=None):
    """slope x + offset between 0 and 1."""
    return layers.hard_sigmoid(x, slope, offset)


def hardswish(x, name=None):
    """x min(max(x + 3, 0), 6) / 6."""
    return layers.hard_swish(x)


def log_sigmoid(x, name=None):
    """log(sigmoid(x))."""
    return layers.logsigmoid(x)


def softmax(x, axis=-1, dtype=None, name=None):
    """Probabilities along an axis of scores."""
    need_variable(x, "softmax")
    if dtype is not None:
        x = layers.cast(x, dtype)
    return make("softmax", {"X": x}, {"axis": int(axis), "use_cudnn": True}, name=name)


def log_softmax(x, axis=-1, dtype=None, name=None):
    """The logarithms of probabilities along an axis of scores."""
    if dtype is not None:
        x = layers.cast(x, dtype)
    return math.subtract(x, math.logsumexp(x, axis, True))


def prelu(x, weight, data_format="NCHW", name=None):
    """x above 0, else x times a learned number: one for all, or one for each channel."""
    mode = "all" if all(size == 1 for size in weight.shape) else "channel"
    return make("prelu", {"X": x, "Alpha": weight}, {"mode": mode, "data_format": data_format}, name=name)


def glu(x, axis=-1, name=None):
    """One half times the sigmoid of the other."""
    one, other = layers.split(x, 2, dim=axis)
    return math.multiply(one, sigmoid(other))
