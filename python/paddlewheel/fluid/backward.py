"""Gradients as operators of a program."""

from .. import _core
from .data_feeder import check_type


def append_backward(
    loss, parameter_list=None, no_grad_set=None, callbacks=None, checkpoints=None
):
    """Adds the gradients of `loss` for each parameter; returns pairs of parameter and gradient."""
    name = "fluid.backward.append_backward"
    check_type(loss, "loss", _core.Variable, name)
    if callbacks is not None:
        check_type(callbacks, "callbacks", (list, tuple), name)
    if parameter_list is not None:
        check_type(parameter_list, "parameter_list", (list, tuple, set), name)
        for place, param in enumerate(parameter_list):
            check_type(param, "parameter_list[%d]" % place, (_core.Variable, str), name)
    if no_grad_set is not None:
        check_type(no_grad_set, "no_grad_set", (set, list, tuple), name)
    # What is computed twice is not less right: checkpoints save memory alone, and all of it is kept here.
    return _core.backward.append_backward(loss, parameter_list, no_grad_set, callbacks)


def gradients(targets, inputs, target_gradients=None, no_grad_set=None):
    """The gradients of the sum of `targets` for each of `inputs`; None where there is no way, and
    an empty list if that holds for the only input."""
    name = "fluid.backward.gradients"
    check_type(targets, "targets", (_core.Variable, list, tuple), name)
    check_type(inputs, "inputs", (_core.Variable, list, tuple), name)
    kinds = (_core.Variable, list, tuple, type(None))
    check_type(target_gradients, "target_gradients", kinds, name)
    found = _core.backward.gradients(targets, inputs, target_gradients, no_grad_set)
    return [] if found == [None] else found


calc_gradient = gradients


def _append_grad_suffix_(name):
    """The name of a variable's gradient."""
    return str(name) + "@GRAD"


def _strip_grad_suffix_(name):
    """The variable whose gradient has this name."""
    return str(name).partition("@GRAD")[0]


def _is_grad_var_(var_name):
    """Whether a name is that of a gradient."""
    return "@GRAD" in var_name


def _as_list(x):
    """A list of one, unless it is a list; nothing is an empty one."""
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _get_stop_gradients_(program):
    """The names of gradients that are not computed because of `stop_gradient`, by block."""
    return {
        place: {_append_grad_suffix_(var.name) for var in block.vars.values() if var.stop_gradient}
        for place, block in enumerate(program.blocks)
    }
