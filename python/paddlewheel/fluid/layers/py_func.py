"""`py_func`: a step of a program that a Python function computes."""

import numpy as np

from ... import _core
from ..framework import Variable
from ..layer_helper import LayerHelper


class PyFuncRegistry:
    """The functions that programs of this process call, by number."""

    _register_funcs = []

    def __init__(self, func):
        if not callable(func):
            raise TypeError("func must be a Python function")
        self._func = func
        self._id = _core._append_python_callable_object_and_return_id(self)
        PyFuncRegistry._register_funcs.append(self)

    @classmethod
    def registered_func(cls, idx):
        """The function of a number."""
        return cls._register_funcs[idx]._func

    @classmethod
    def registered_func_num(cls):
        """How many functions there are."""
        return len(cls._register_funcs)

    @property
    def id(self):
        """The number that programs hold."""
        return self._id

    def __call__(self, *args):
        made = self._func(*args)
        made = made if isinstance(made, (list, tuple)) else (made,)
        return tuple(_tensor(each) for each in made)


def _tensor(value):
    """A result as the core takes it."""
    if value is None or isinstance(value, _core.LoDTensor):
        return value
    tensor = _core.LoDTensor()
    tensor.set(np.array(value), None)
    return tensor


def _listed(given, what):
    if given is None:
        return []
    if isinstance(given, Variable):
        return [given]
    if isinstance(given, (list, tuple)):
        return list(given)
    raise TypeError(
        "The type of '{}' in py_func must be a Variable, a list or tuple of them, or None, but "
        "received {}".format(what, type(given))
    )


def py_func(func, x, out, backward_func=None, skip_vars_in_backward_input=None):
    """Writes what `func` makes of the values of `x` into `out`, whose shapes and types were declared.

    The function is given LoDTensors and returns arrays, LoDTensors or None, one for each variable of `out`.

    Args:
        backward_func: computes the gradients of `x` from `x`, `out` and the gradients of `out`; without it no gradient passes.
        skip_vars_in_backward_input: which of `x` and `out` it is not given.
    """
    inputs, outputs = _listed(x, "X"), _listed(out, "Out")
    forward = PyFuncRegistry(func).id
    backward = -1 if backward_func is None else PyFuncRegistry(backward_func).id
    for each in outputs:
        if len(each.shape) == 0:
            raise ValueError("Output shapes of py_func op should be provided by users manually")
    skipped = set()
    if backward_func is not None:
        known = {each.name for each in inputs + outputs}
        for each in _listed(skip_vars_in_backward_input, "skip_vars_in_backward_input"):
            if each.name not in known:
                raise ValueError(
                    "Variable {} is not found in forward inputs and outputs".format(each.name)
                )
            skipped.add(each.name)
    LayerHelper("py_func").append_op(
        type="py_func",
        inputs={"X": inputs},
        outputs={"Out": outputs},
        attrs={
            "forward_callable_id": forward,
            "backward_callable_id": backward,
            "backward_skip_vars": sorted(skipped),
        },
    )
    return out
