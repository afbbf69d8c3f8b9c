"""Figures of quality over all trainers, under the names of version 2.

Inputs are variables, their names, or numbers; the values of all trainers are put together in their order.
"""

import math

import numpy

from ..._core import global_scope
from ...fluid.framework import Variable
from ...fluid.incubate.fleet.parameter_server import distribute_transpiler


def _numbers(input, scope):
    name = input.name if isinstance(input, Variable) else input
    if isinstance(name, str):
        found = (scope or global_scope()).find_var(name)
        if found is None:
            raise ValueError("there is no variable %s in the scope" % name)
        return numpy.array(found.get_tensor())
    return numpy.asarray(input)


def _reduce(input, scope, mode):
    numbers = _numbers(input, scope)
    total = [0.0] * numbers.size
    distribute_transpiler.fleet.all_reduce_worker(numbers.reshape(-1), total, mode)
    return numpy.array(total).astype(numbers.dtype).reshape(numbers.shape)


def sum(input, scope=None, util=None):
    """The sum over all trainers, element by element."""
    return _reduce(input, scope, "sum")


def max(input, scope=None, util=None):
    """The largest of all trainers, element by element."""
    return _reduce(input, scope, "max")


def min(input, scope=None, util=None):
    """The smallest of all trainers, element by element."""
    return _reduce(input, scope, "min")


def auc(stat_pos, stat_neg, scope=None, util=None):
    """The area under the ROC curve over the samples of all trainers, of their histograms."""
    names = [var.name if isinstance(var, Variable) else var for var in (stat_pos, stat_neg)]
    fleet = distribute_transpiler.fleet._need()
    return fleet.global_auc(scope or global_scope(), *names)[0]


def _mean(total, count, scope):
    both = [float(_numbers(input, scope).reshape(-1)[0]) for input in (total, count)]
    total, count = sum(numpy.array(both))
    return float(total / count)


def mae(abserr, total_ins_num, scope=None, util=None):
    """The mean absolute error, of its sum and the number of samples."""
    return _mean(abserr, total_ins_num, scope)


def mse(sqrerr, total_ins_num, scope=None, util=None):
    """The mean squared error, of its sum and the number of samples."""
    return _mean(sqrerr, total_ins_num, scope)


def rmse(sqrerr, total_ins_num, scope=None, util=None):
    """The root of the mean squared error."""
    return math.sqrt(_mean(sqrerr, total_ins_num, scope))


def acc(correct, total, scope=None, util=None):
    """The share of right answers, of their number and that of all."""
    return _mean(correct, total, scope)
