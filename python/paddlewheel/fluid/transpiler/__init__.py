"""Changes programs for training on several machines."""

from . import collective, details
from .distribute_transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
    ServerRuntimeConfig,
    slice_variable,
)
from .memory_optimization_transpiler import memory_optimize, release_memory
from .ps_dispatcher import HashName, PSDispatcher, RoundRobin
