"""Programs that are built first and run afterwards, under the names of version 2."""

from ..fluid import (
    BuildStrategy,
    CompiledProgram,
    ExecutionStrategy,
    ParallelExecutor,
    Program,
    Scope,
    Variable,
    WeightNormParamAttr,
    cpu_places,
    cuda_places,
    default_main_program,
    default_startup_program,
    device_guard,
    global_scope,
    name_scope,
    program_guard,
    scope_guard,
)
from ..fluid._not_yet import unknown
from ..fluid.backward import append_backward, gradients
from ..fluid.layers import Print
from ..fluid.optimizer import ExponentialMovingAverage
from ..tensor.creation import create_global_var, create_parameter
from . import amp, io, nn
from .executor import Executor
from .input import InputSpec, data
from .io import (
    deserialize_persistables,
    deserialize_program,
    load,
    load_from_file,
    load_inference_model,
    load_program_state,
    load_vars,
    normalize_program,
    save,
    save_inference_model,
    save_to_file,
    save_vars,
    serialize_persistables,
    serialize_program,
    set_program_state,
)
from .metric import accuracy, auc, ctr_metric_bundle
from .nn import py_func


def exponential_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    """A learning rate that the program itself makes smaller, by the steps it has run."""
    from ..fluid import layers

    return layers.exponential_decay(learning_rate, decay_steps, decay_rate, staircase)


def xpu_places(device_ids=None):
    """There are no such devices; says so."""
    raise NotImplementedError("there are no XPUs here: use paddle.static.cpu_places()")


__getattr__ = unknown(__name__)
