"""Runs programs."""

import numpy

from ..fluid import executor as _fluid
from ..fluid.core import CPUPlace
from ..fluid.framework import default_main_program


class Executor(_fluid.Executor):
    """Runs programs in a scope; learning rates of schedulers are set before each run."""

    def run(self, program=None, *args, **kwargs):
        """Runs a program once; gives what `fetch_list` names."""
        apply_schedule(program, kwargs.get("scope"))
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
