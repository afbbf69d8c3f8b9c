"""Gradients as operators of a program."""

from .. import _core

append_backward = _core.backward.append_backward


def gradients(targets, inputs, target_gradients=None, no_grad_set=None):
    """The gradients of the sum of `targets` for each of `inputs`; None where there is no way, and
    an empty list if that holds for the only input."""
    found = _core.backward.gradients(targets, inputs, target_gradients, no_grad_set)
    return [] if found == [None] else found


calc_gradient = gradients
