"""Runs programs."""

import numpy

from ..fluid import executor as _fluid
from ..fluid.core import CPUPlace, LoDTensor
from ..fluid.data_feeder import convert_dtype
from ..fluid.framework import Program, default_main_program


class Executor(_fluid.Executor):
    """Runs programs in a scope; learning rates of schedulers are set before each run."""

    def run(self, program=None, *args, **kwargs):
        """Runs a program once; gives what `fetch_list` names."""
        apply_schedule(program, kwargs.get("scope"))
        check_types(program, args[0] if args else kwargs.get("feed"))
        return super().run(program, *args, **kwargs)

    def train_from_dataset(self, program=None, dataset=None, scope=None, *args, **kwargs):
        """Trains on all batches of a dataset with the learning rate of now."""
        apply_schedule(program, scope)
        return super().train_from_dataset(program, dataset, scope, *args, **kwargs)


def apply_schedule(program, scope=None):
    """Puts the learning rate that a scheduler says into its variable."""
    program = default_main_program() if program is None else getattr(program, "_program", program)
    schedule = getattr(program, "lr_scheduler", None)
    if schedule is None:
        return
    tensor = (scope or _fluid.global_scope()).var(schedule._var_name).get_tensor()
    tensor.set(numpy.array([schedule()], "float32"), CPUPlace())


def check_types(program, feed):
    """ValueError if an array has another type than the variable that it is fed to."""
    if not isinstance(feed, dict):
        return
    program = default_main_program() if program is None else program
    block = program.global_block() if isinstance(program, Program) else None
    for name, value in feed.items():
        if block is None or not isinstance(value, (numpy.ndarray, LoDTensor)) or not block.has_var(name):
            continue
        wanted = convert_dtype(block.var(name).dtype)
        given = str(value.dtype) if isinstance(value, numpy.ndarray) else convert_dtype(value._dtype())
        if given != wanted:
            raise ValueError(
                "The data type of fed Variable {!r} must be {!r}, but received {!r}".format(name, wanted, given)
            )
