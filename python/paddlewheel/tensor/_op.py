"""How functions of version 2 make operators."""

from .. import _core
from ..fluid.data_feeder import convert_dtype
from ..fluid.layer_helper import LayerHelper

Variable = _core.Variable


def make(kind, inputs, attrs=None, outs=("Out",), dtype=None, name=None, layer=None):
    """Appends an operator to the current program; its output, or a list of them.

    `layer` is what its variables are named after, if that is not the operator.
    """
    helper = LayerHelper(layer or kind, name=name)
    dtypes = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(outs)
    first = next((var for var in map(_first, inputs.values()) if var is not None), None)
    like = "float32" if first is None else first.dtype
    made = [
        helper.create_variable_for_type_inference(like if of is None else dtype_of(of))
        for of in dtypes
    ]
    inputs = {port: var for port, var in inputs.items() if var is not None}
    outputs = dict(zip(outs, made))
    helper.append_op(type=kind, inputs=inputs, outputs=outputs, attrs=attrs or {})
    return made[0] if len(made) == 1 else made


def _first(value):
    return value[0] if isinstance(value, (list, tuple)) and value else value


def dtype_of(dtype):
    """A type by its name, also where numpy or a script names it."""
    if isinstance(dtype, _core.VarType):
        return dtype
    if isinstance(dtype, str):
        return dtype
    return convert_dtype(dtype)


def need_variable(value, function, argument="x"):
    """TypeError unless it is a variable of a program."""
    if not isinstance(value, Variable):
        raise TypeError(
            "The type of '{}' in {} must be Variable, but received {}. Programs are built first and "
            "run afterwards: feed an array through paddle.static.data.".format(argument, function, type(value))
        )


def axes_of(axis):
    """Axes as a list; None for all."""
    if axis is None:
        return None
    if isinstance(axis, (list, tuple)):
        return [int(each) for each in axis] or None
    return [int(axis)]
