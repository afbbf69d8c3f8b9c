"""The fleet of trainers and parameter servers."""

from ...._not_yet_fleet import NotYetFleet, not_yet_class
from .....transpiler.distribute_transpiler import DistributeTranspilerConfig
from .distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
)

TranspilerOptimizer = not_yet_class("TranspilerOptimizer")
fleet = NotYetFleet("fleet")
