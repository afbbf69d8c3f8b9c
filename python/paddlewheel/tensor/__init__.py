"""Functions of variables: `paddle.concat`, `paddle.matmul` and the like, in the form of version 2."""

from . import creation, linalg, math, search, shape as _shape
from ._op import Variable

_HOMES = (math, _shape, creation, search, linalg)
_HELPERS = "Variable make need_variable axes_of dtype_of layers convert_dtype LayerHelper UNARY"
FUNCTIONS = {
    name: function
    for home in _HOMES
    for name, function in vars(home).items()
    if name[0] != "_" and callable(function) and name not in _HELPERS.split()
}
globals().update(FUNCTIONS)

#: Functions that are no methods of variables: their first argument is something else.
_NO_METHODS = (
    "arange assign create_global_var create_parameter empty einsum eye full get_default_dtype linspace normal "
    "ones rand randint randn set_default_dtype standard_normal to_tensor uniform zeros concat stack add_n "
    "multiplex shape"
)


def _in_place(function):
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__doc__ = function.__doc__ + " Programs change no variable: the result is a new one."
    return method


def _add_methods():
    """Variables have the functions as methods; what they had before stays."""
    for name, function in FUNCTIONS.items():
        if name in _NO_METHODS.split():
            continue
        if not hasattr(Variable, name):
            setattr(Variable, name, _method(function))
        if name in ("unsqueeze", "squeeze", "reshape", "scale", "clip", "add", "subtract", "exp", "sqrt", "tanh"):
            setattr(Variable, name + "_", _in_place(function))
    setattr(Variable, "__matmul__", lambda self, other: linalg.matmul(self, other))
    setattr(Variable, "__abs__", lambda self: FUNCTIONS["abs"](self))
    setattr(Variable, "__invert__", lambda self: search.logical_not(self))
    setattr(Variable, "__and__", lambda self, other: search.logical_and(self, other))
    setattr(Variable, "__or__", lambda self, other: search.logical_or(self, other))
    setattr(Variable, "ndim", property(lambda self: len(self.shape)))
    setattr(Variable, "dim", _dim)
    setattr(Variable, "T", property(lambda self: _shape.transpose(self, list(range(len(self.shape)))[::-1])))


def _dim(self):
    """How many axes there are."""
    return len(self.shape)


def _method(function):
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


_add_methods()
