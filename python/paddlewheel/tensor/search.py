"""Comparisons, places of numbers, orders, and choices."""

from ..fluid import layers
from ._op import Variable, make


def _compare(kind):
    def function(x, y, name=None):
        if not isinstance(y, Variable):
            y = layers.fill_constant([1], x.dtype, y)
        return make(kind, {"X": x, "Y": y}, {"axis": -1}, dtype="bool", name=name)

    function.__name__ = kind
    function.__doc__ = "The operator `{}`, element by element.".format(kind)
    return function


equal = _compare("equal")
not_equal = _compare("not_equal")
less_than = _compare("less_than")
less_equal = _compare("less_equal")
greater_than = _compare("greater_than")
greater_equal = _compare("greater_equal")


def logical_and(x, y, out=None, name=None):
    """Where both are true."""
    return layers.logical_and(x, y, out, name)


def logical_or(x, y, out=None, name=None):
    """Where one is true."""
    return layers.logical_or(x, y, out, name)


def logical_xor(x, y, out=None, name=None):
    """Where exactly one is true."""
    return layers.logical_xor(x, y, out, name)


def logical_not(x, out=None, name=None):
    """Where it is false."""
    return layers.logical_not(x, out, name)


def where(condition, x=None, y=None, name=None):
    """x where the condition holds, else y; without both, the places where it holds."""
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    like = x if isinstance(x, Variable) else y
    x = x if isinstance(x, Variable) else layers.fill_constant([1], like.dtype, x)
    y = y if isinstance(y, Variable) else layers.fill_constant([1], like.dtype, y)
    # The operator takes one shape: what is smaller is repeated first, by adding to zeros.
    shapes = {tuple(each.shape) for each in (condition, x, y)}
    if len(shapes) > 1:
        zero = layers.scale(x, 0.0) + layers.scale(y, 0.0)
        if len(condition.shape) >= len(zero.shape):
            zero = zero + layers.scale(layers.cast(condition, like.dtype), 0.0)
        x, y = zero + x, zero + y
        if len(condition.shape) < len(x.shape) or tuple(condition.shape) != tuple(x.shape):
            ones = layers.cast(condition, like.dtype) + zero
            condition = layers.cast(ones, "bool")
    return make("where", {"Condition": condition, "X": x, "Y": y}, dtype=like.dtype, name=name)


def nonzero(x, as_tuple=False):
    """The places that are not zero: a row each, or an axis each."""
    mask = x if "bool" in str(x.dtype).lower() else layers.not_equal(x, layers.fill_constant([1], x.dtype, 0))
    places = layers.where(mask)
    if not as_tuple:
        return places
    return tuple(layers.split(places, len(x.shape), dim=1)) if len(x.shape) > 1 else (places,)


def argmax(x, axis=None, keepdim=False, dtype="int64", name=None):
    """The place of the largest along an axis, or of all."""
    return _arg("arg_max", x, axis, keepdim, dtype)


def argmin(x, axis=None, keepdim=False, dtype="int64", name=None):
    """The place of the smallest along an axis, or of all."""
    return _arg("arg_min", x, axis, keepdim, dtype)


def _arg(kind, x, axis, keepdim, dtype):
    flat = axis is None
    x = layers.reshape(x, [-1]) if flat else x
    found = make(kind, {"X": x}, {"axis": 0 if flat else int(axis)}, dtype="int64")
    if keepdim and not flat:
        found = layers.unsqueeze(found, [int(axis)])
    return found if dtype in (None, "int64") else layers.cast(found, dtype)


def argsort(x, axis=-1, descending=False, stable=False, name=None):
    """The places of the sorted numbers along an axis."""
    return layers.argsort(x, axis, descending)[1]


def sort(x, axis=-1, descending=False, stable=False, name=None):
    """The numbers sorted along an axis."""
    return layers.argsort(x, axis, descending)[0]


def topk(x, k, axis=None, largest=True, sorted=True, name=None):
    """The k largest (or smallest) along an axis, and their places."""
    attrs = {"k": int(k), "largest": bool(largest), "sorted": bool(sorted), "axis": -1 if axis is None else int(axis)}
    return tuple(make("top_k_v2", {"X": x}, attrs, ("Out", "Indices"), [x.dtype, "int64"], name))
