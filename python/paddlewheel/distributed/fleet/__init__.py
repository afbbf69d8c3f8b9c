"""The fleet of version 2: the same trainers and servers under shorter names."""

from ...fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory
from ...fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet as _fleet
from . import metrics
from .base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker


class DistributedStrategy:
    """How trainers and servers keep step: `a_sync`, and `a_sync_configs["k_steps"]` for GEO."""

    def __init__(self):
        self.a_sync = False
        self.a_sync_configs = {"k_steps": 0}

    def _meant(self):
        k_steps = int(self.a_sync_configs.get("k_steps", 0))
        if not self.a_sync:
            return StrategyFactory.create_sync_strategy()
        if k_steps > 0:
            return StrategyFactory.create_geo_strategy(k_steps)
        return StrategyFactory.create_async_strategy()


def distributed_optimizer(optimizer, strategy=None):
    """An optimizer whose `minimize` also splits the programs for this process."""
    meant = strategy._meant() if isinstance(strategy, DistributedStrategy) else strategy
    return _fleet.distributed_optimizer(optimizer, meant)


init = _fleet.init
is_first_worker = _fleet.is_first_worker
worker_index = _fleet.worker_index
worker_num = _fleet.worker_num
is_worker = _fleet.is_worker
is_server = _fleet.is_server
init_worker = _fleet.init_worker
init_server = _fleet.init_server
run_server = _fleet.run_server
stop_worker = _fleet.stop_worker
barrier_worker = _fleet.barrier_worker
save_persistables = _fleet.save_persistables
save_inference_model = _fleet.save_inference_model
