"""Arithmetic, element by element and along axes."""

from ..fluid import layers
from ._op import Variable, axes_of, dtype_of, make, need_variable


def _variable(value, like):
    """A number as a variable of the other's type."""
    return value if isinstance(value, Variable) else layers.fill_constant([1], like.dtype, value)


def _pair(kind, x, y, name):
    if not isinstance(x, Variable) and not isinstance(y, Variable):
        raise TypeError("one of the inputs of {} must be a Variable".format(kind))
    x, y = (x, _variable(y, x)) if isinstance(x, Variable) else (_variable(x, y), y)
    return make(kind, {"X": x, "Y": y}, {"axis": -1}, name=name)


def add(x, y, name=None):
    """x + y, with the broadcasting of numpy."""
    return _pair("elementwise_add", x, y, name)


def subtract(x, y, name=None):
    """x - y."""
    return _pair("elementwise_sub", x, y, name)


def multiply(x, y, name=None):
    """x · y, element by element."""
    return _pair("elementwise_mul", x, y, name)


def divide(x, y, name=None):
    """x / y; whole numbers are divided as fractions."""
    if isinstance(x, Variable) and not _is_float(x):
        x = layers.cast(x, "float32")
    if isinstance(y, Variable) and not _is_float(y):
        y = layers.cast(y, "float32")
    return _pair("elementwise_div", x, y, name)


def _is_float(var):
    from ..fluid.data_feeder import convert_dtype

    return convert_dtype(var.dtype) in ("float16", "float32", "float64")


def floor_divide(x, y, name=None):
    """The whole part of x / y."""
    return _pair("elementwise_floordiv", x, y, name)


def remainder(x, y, name=None):
    """What x / y leaves."""
    return _pair("elementwise_mod", x, y, name)


mod = floor_mod = remainder


def maximum(x, y, name=None):
    """The larger of both."""
    return _pair("elementwise_max", x, y, name)


def minimum(x, y, name=None):
    """The smaller of both."""
    return _pair("elementwise_min", x, y, name)


def pow(x, y, name=None):
    """x to the power of y, a number or a variable."""
    if isinstance(y, Variable):
        return _pair("elementwise_pow", x, y, name)
    need_variable(x, "pow")
    return make("pow", {"X": x}, {"factor": float(y)}, name=name)


def add_n(inputs, name=None):
    """The sum of all inputs."""
    inputs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    return make("sum", {"X": inputs}, name=name, layer="add_n")


def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None):
    """scale · x + bias, or scale · (x + bias)."""
    return layers.scale(x, scale, bias, bias_after_scale, act=act, name=name)


def _reduce(kind, x, axis, keepdim, dtype, name):
    need_variable(x, kind.partition("_")[2])
    axes = axes_of(axis)
    attrs = {
        "dim": axes or [0],
        "keep_dim": bool(keepdim),
        "reduce_all": axes is None or len(axes) == len(x.shape),
    }
    if dtype is not None and dtype_of(dtype) != x.dtype:
        x = layers.cast(x, dtype)
    return make(kind, {"X": x}, attrs, name=name)


def sum(x, axis=None, dtype=None, keepdim=False, name=None):
    """The sum along axes, or of all; truth values are counted."""
    need_variable(x, "sum")
    if dtype is None and "bool" in str(x.dtype).lower():
        dtype = "int64"
    return _reduce("reduce_sum", x, axis, keepdim, dtype, name)


def mean(x, axis=None, keepdim=False, name=None):
    """The mean along axes, or of all."""
    return _reduce("reduce_mean", x, axis, keepdim, None, name)


def max(x, axis=None, keepdim=False, name=None):
    """The largest along axes, or of all."""
    return _reduce("reduce_max", x, axis, keepdim, None, name)


def min(x, axis=None, keepdim=False, name=None):
    """The smallest along axes, or of all."""
    return _reduce("reduce_min", x, axis, keepdim, None, name)


amax, amin = max, min


def prod(x, axis=None, keepdim=False, dtype=None, name=None):
    """The product along axes, or of all."""
    return _reduce("reduce_prod", x, axis, keepdim, dtype, name)


def all(x, axis=None, keepdim=False, name=None):
    """Whether all are true."""
    return make("reduce_all", {"X": x}, _logic(x, axis, keepdim), name=name)


def any(x, axis=None, keepdim=False, name=None):
    """Whether one is true."""
    return make("reduce_any", {"X": x}, _logic(x, axis, keepdim), name=name)


def _logic(x, axis, keepdim):
    axes = axes_of(axis)
    whole = axes is None or len(axes) == len(x.shape)
    return {"dim": axes or [0], "keep_dim": bool(keepdim), "reduce_all": whole}


def var(x, axis=None, unbiased=True, keepdim=False, name=None):
    """The variance along axes, or of all; over n - 1 if `unbiased`."""
    middle = mean(x, axis, True)
    squares = mean(square(subtract(x, middle)), axis, keepdim)
    if not unbiased:
        return squares
    axes = axes_of(axis)
    count = 1
    for each in range(len(x.shape)) if axes is None else axes:
        if x.shape[each] < 0:
            raise NotImplementedError("var(unbiased=True) needs known sizes; use unbiased=False")
        count *= x.shape[each]
    return scale(squares, count / (count - 1.0) if count > 1 else float("nan"))


def std(x, axis=None, unbiased=True, keepdim=False, name=None):
    """The standard deviation along axes, or of all."""
    return sqrt(var(x, axis, unbiased, keepdim))


def logsumexp(x, axis=None, keepdim=False, name=None):
    """The logarithm of the sum of exponentials, computed around the largest."""
    largest = max(x, axis, True)
    total = log(sum(exp(subtract(x, largest)), axis, keepdim=keepdim))
    return add(total, largest if keepdim else max(x, axis, False))


def clip(x, min=None, max=None, name=None):
    """Numbers outside of [min, max] become its ends."""
    low = -3.4028234663852886e38 if min is None else float(min)
    high = 3.4028234663852886e38 if max is None else float(max)
    return make("clip", {"X": x}, {"min": low, "max": high}, name=name)


def cumsum(x, axis=None, dtype=None, name=None):
    """Sums up to each place; of all numbers in a row without an axis."""
    if dtype is not None:
        x = layers.cast(x, dtype)
    if axis is None:
        return make("cumsum", {"X": layers.reshape(x, [-1])}, {"axis": 0}, name=name)
    return make("cumsum", {"X": x}, {"axis": int(axis)}, name=name)


def increment(x, value=1.0, name=None):
    """Adds a number in place."""
    return layers.increment(x, value)


def bitwise_and(x, y, out=None, name=None):
    """The bits that both have."""
    return make("bitwise_and", {"X": x, "Y": y}, name=name)


def bitwise_or(x, y, out=None, name=None):
    """The bits that one has."""
    return make("bitwise_or", {"X": x, "Y": y}, name=name)


def bitwise_xor(x, y, out=None, name=None):
    """The bits that exactly one has."""
    return make("bitwise_xor", {"X": x, "Y": y}, name=name)


def multiplex(inputs, index, name=None):
    """Each row from the input that `index` names."""
    return layers.multiplex(inputs, index)


def _unary(kind):
    def function(x, name=None):
        need_variable(x, kind)
        return make(kind, {"X": x}, name=name)

    function.__name__ = kind
    function.__doc__ = "The operator `{}`, element by element.".format(kind)
    return function


UNARY = (
    "abs acos asin atan ceil cos erf exp floor log reciprocal round rsqrt sigmoid sign sin sqrt "
    "square tanh"
)
for _name in UNARY.split():
    globals()[_name] = _unary(_name)


def log1p(x, name=None):
    """log(1 + x)."""
    return layers.log1p(x) if hasattr(layers, "log1p") else log(scale(x, 1.0, 1.0))


def log2(x, name=None):
    """The logarithm to base 2."""
    return scale(log(x), 1.4426950408889634)


def log10(x, name=None):
    """The logarithm to base 10."""
    return scale(log(x), 0.4342944819032518)


def expm1(x, name=None):
    """e^x - 1."""
    return scale(exp(x), 1.0, -1.0)


def neg(x, name=None):
    """-x."""
    return scale(x, -1.0)


def isnan(x, name=None):
    """Where something is not a number: only that differs from itself."""
    return layers.not_equal(x, x)


def isfinite(x, name=None):
    """Where numbers are finite: x - x is 0 there alone."""
    zero = subtract(x, x)
    return layers.equal(zero, zero)


def stanh(x, scale_a=0.67, scale_b=1.7159, name=None):
    """scale_b · tanh(scale_a · x)."""
    return layers.stanh(x, scale_a, scale_b)
