"""Gradients as operators of a program."""

from .. import _core

append_backward = _core.backward.append_backward


def gradients(targets, inputs, target_gradients=None, no_grad_set=None):
    """The gradients of the sum of `targets` for each of `inputs`; None where there is no way, and
    an empty list if that holds for the only input."""
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
