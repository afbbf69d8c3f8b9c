"""Changes programs for training on several machines."""

from .distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from .memory_optimization_transpiler import memory_optimize, release_memory
from .ps_dispatcher import HashName, RoundRobin
