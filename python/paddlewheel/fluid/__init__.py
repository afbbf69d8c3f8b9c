"""Mirrors `paddle.fluid` of version 1.8."""

from . import core, framework, unique_name
from .framework import (
    ComplexVariable,
    Program,
    Variable,
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    default_main_program,
    default_startup_program,
    device_guard,
    disable_dygraph,
    disable_imperative,
    enable_dygraph,
    enable_imperative,
    get_flags,
    in_dygraph_mode,
    is_compiled_with_cuda,
    load_op_library,
    name_scope,
    program_guard,
    require_version,
    set_flags,
)
from .core import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    LoDTensor,
    LoDTensorArray,
    Scope,
    Tensor,
)
from . import executor, param_attr, initializer, regularizer, clip, layers, layer_helper
from .executor import Executor, FetchHandler, global_scope, scope_guard
from .param_attr import ParamAttr, WeightNormParamAttr
from . import backward, optimizer
from .backward import append_backward, gradients
from . import data_feeder, lod_tensor, reader, io
from .data_feeder import DataFeeder
from .lod_tensor import create_lod_tensor, create_random_int_lodtensor
from .io import load, load_program_state, save, set_program_state
from . import compiler, parallel_executor
from .compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from .parallel_executor import ParallelExecutor
from . import average, debugger, graphviz, evaluator, metrics, nets, profiler, install_check
from . import dataset, data_feed_desc, communicator, distribute_lookup_table, recordio_writer
from . import log_helper, op, wrapped_decorator
from .async_executor import AsyncExecutor
from .data_feed_desc import DataFeedDesc
from .dataset import DatasetFactory, InMemoryDataset, QueueDataset
from . import transpiler
from .transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
    HashName,
    RoundRobin,
    memory_optimize,
    release_memory,
)
from . import incubate, contrib
from .incubate import data_generator, fleet
from .contrib.trainer import (
    BeginEpochEvent,
    BeginStepEvent,
    CheckpointConfig,
    EndEpochEvent,
    EndStepEvent,
    Inferencer,
    Trainer,
)
from .input import data, embedding, one_hot
from .layers import learning_rate_scheduler as learning_rate_decay
from . import _dygraph, _later, _modules
from ._dygraph import load_dygraph, save_dygraph

_modules.make(__name__, _dygraph.MODULES, "fluid._dygraph")
_modules.make(__name__, _later.MODULES, "fluid._later")
globals().update({name: getattr(_dygraph, name) for name in (_dygraph.LAYERS + " Layer").split()})
from ._not_yet import unknown

__getattr__ = unknown(__name__)
