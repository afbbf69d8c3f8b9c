"""New variables: constants, ranges, random numbers, parameters."""

from ..fluid import layers
from ..fluid.data_feeder import convert_dtype
from ..fluid.layer_helper import LayerHelper
from ._op import Variable, dtype_of, make

_default = ["float32"]


def get_default_dtype():
    """The type of numbers where none is said."""
    return _default[0]


def set_default_dtype(d):
    """Changes the type of numbers where none is said."""
    name = d if isinstance(d, str) else convert_dtype(d)
    if name not in ("float32", "float64"):
        raise TypeError("set_default_dtype takes float32 or float64, not {}".format(name))
    _default[0] = name


def full(shape, fill_value, dtype=None, name=None):
    """Everywhere the same number."""
    if dtype is None:
        dtype = {bool: "bool", int: "int64"}.get(type(fill_value), get_default_dtype())
    shape = shape if isinstance(shape, Variable) else list(shape)
    return layers.fill_constant(shape, dtype_of(dtype), fill_value)


def zeros(shape, dtype=None, name=None):
    """Zeros."""
    return full(shape, 0.0, dtype or get_default_dtype())


def ones(shape, dtype=None, name=None):
    """Ones."""
    return full(shape, 1.0, dtype or get_default_dtype())


def empty(shape, dtype=None, name=None):
    """Room for numbers; it holds zeros."""
    return zeros(shape, dtype)


def full_like(x, fill_value, dtype=None, name=None):
    """The same number everywhere in the shape of x."""
    dtype = x.dtype if dtype is None else dtype_of(dtype)
    number = _number(dtype)
    attrs = {"value": float(fill_value), "dtype": number}
    return make("fill_any_like", {"X": x}, attrs, dtype=dtype, name=name, layer="full_like")


def _number(dtype):
    from .. import _core
    from ..fluid.framework import convert_np_dtype_to_dtype_

    return int(dtype if isinstance(dtype, _core.VarType) else convert_np_dtype_to_dtype_(dtype))


def zeros_like(x, dtype=None, name=None):
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype, name)


def ones_like(x, dtype=None, name=None):
    """Ones in the shape of x."""
    return full_like(x, 1, dtype, name)


def arange(start=0, end=None, step=1, dtype=None, name=None):
    """Numbers from `start` to before `end`."""
    if end is None:
        start, end = 0, start
    if dtype is None:
        floats = any(isinstance(each, float) for each in (start, end, step))
        dtype = get_default_dtype() if floats else "int64"
    return layers.range(start, end, step, dtype_of(dtype))


def linspace(start, stop, num, dtype=None, name=None):
    """So many numbers from `start` to `stop`, equally far apart."""
    return layers.linspace(start, stop, num, dtype or get_default_dtype())


def eye(num_rows, num_columns=None, dtype=None, name=None):
    """Ones on the diagonal."""
    return layers.eye(num_rows, num_columns, dtype=dtype or get_default_dtype())


def assign(x, output=None):
    """A copy of a variable, an array or a list of numbers."""
    import numpy

    if not isinstance(x, Variable):
        x = numpy.asarray(x)
        if x.dtype == numpy.float64:
            x = x.astype("float32")
    return layers.assign(x, output)


def clone(x, name=None):
    """A copy of a variable, through which gradients pass."""
    return layers.assign(x)


def tril(x, diagonal=0, name=None):
    """The part on and below a diagonal; zeros above it."""
    return layers.tril(x, diagonal)


def triu(x, diagonal=0, name=None):
    """The part on and above a diagonal; zeros below it."""
    return layers.triu(x, diagonal)


def uniform(shape, dtype=None, min=-1.0, max=1.0, seed=0, name=None):
    """Random numbers between `min` and `max`."""
    return layers.uniform_random(shape, dtype or get_default_dtype(), min=float(min), max=float(max), seed=seed)


def rand(shape, dtype=None, name=None):
    """Random numbers between 0 and 1."""
    return uniform(shape, dtype, 0.0, 1.0)


def normal(mean=0.0, std=1.0, shape=None, name=None):
    """Normally distributed random numbers."""
    if isinstance(mean, Variable) or isinstance(std, Variable) or shape is None:
        raise NotImplementedError("normal takes numbers for mean and std, and a shape")
    return layers.gaussian_random(shape, mean, std)


def randn(shape, dtype=None, name=None):
    """Normally distributed random numbers of mean 0 and deviation 1."""
    return layers.gaussian_random(shape, 0.0, 1.0, dtype=dtype or get_default_dtype())


standard_normal = randn


def randint(low=0, high=None, shape=[1], dtype=None, name=None):
    """Random whole numbers from `low` to before `high`."""
    low, high = (0, low) if high is None else (low, high)
    return layers.randint(low, high, shape=shape, dtype=dtype or "int64")


def multinomial(x, num_samples=1, replacement=False, name=None):
    """The numbers of rows drawn with these probabilities."""
    attrs = {"num_samples": int(num_samples), "replacement": bool(replacement)}
    return make("multinomial", {"X": x}, attrs, dtype="int64", name=name)


def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    """A parameter: the startup program fills it, training changes it."""
    from ..fluid.param_attr import ParamAttr

    helper = LayerHelper("create_parameter")
    attr = ParamAttr(name=name) if attr is None else attr
    return helper.create_parameter(attr, list(shape), dtype_of(dtype), is_bias, default_initializer)


def create_global_var(shape, value, dtype, persistable=False, force_cpu=False, name=None):
    """A variable that lives between runs and starts as `value`."""
    return layers.create_global_var(shape, value, dtype_of(dtype), persistable, force_cpu, name)


def to_tensor(data, dtype=None, place=None, stop_gradient=True):
    """Not possible: programs are built first and run afterwards."""
    raise NotImplementedError(
        "paddle.to_tensor makes a value of a dynamic graph. Programs are built first here: feed arrays "
        "through paddle.static.data, or put constants into the program with paddle.assign"
    )
