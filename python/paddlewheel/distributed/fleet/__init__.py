"""The fleet of version 2: trainers and servers under shorter names, or one process alone."""

import sys

from ...fluid._not_yet import not_yet_function, unknown
from ...fluid.incubate.data_generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator
from ...fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet as _fleet
from . import base, metrics, utils
from .base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from .strategy import DistributedStrategy, say_once
from .util import UtilBase

#: Whether this process trains without servers and other trainers.
_alone = False
util = UtilBase(sys.modules[__name__])

COLLECTIVE = "trainers without servers: use paddle.fluid.incubate.fleet.collective"


def init(role_maker=None, is_collective=False, strategy=None, log_level="INFO"):
    """Finds out who this process is. Without the variables of a job it trains alone."""
    global _alone
    maker = role_maker
    if is_collective or (maker is not None and getattr(maker, "_is_collective", False)):
        if get_world() > 1:
            raise NotImplementedError("fleet.init(is_collective=True): " + COLLECTIVE)
        _alone = True
        return
    by_environment = maker is None or type(maker) is PaddleCloudRoleMaker
    if by_environment and not base.role_maker.in_a_job():
        _alone = True
        return
    _alone = False
    _fleet.init(maker)


def get_world():
    """How many trainers the variables of a job name."""
    import os

    return int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))


def _of_job(name, alone):
    """A function of the fleet, and what it gives to a process alone."""
    inner = getattr(_fleet, name)

    def function(*args, **kwargs):
        return alone if _alone else inner(*args, **kwargs)

    function.__name__, function.__doc__ = name, inner.__doc__
    return function


is_first_worker = _of_job("is_first_worker", True)
worker_index = _of_job("worker_index", 0)
worker_num = _of_job("worker_num", 1)
is_worker = _of_job("is_worker", True)
is_server = _of_job("is_server", False)
worker_endpoints = _of_job("worker_endpoints", [])
server_num = _of_job("server_num", 0)
server_index = _of_job("server_index", 0)
server_endpoints = _of_job("server_endpoints", [])
barrier_worker = _of_job("barrier_worker", None)
init_worker = _of_job("init_worker", None)
stop_worker = _of_job("stop_worker", None)
run_server = _of_job("run_server", None)


def init_server(dirname=None, *args, **kwargs):
    """Fills this server's parameters, from a model if there is one to go on from."""
    if not _alone:
        _fleet.init_server(dirname or None, **kwargs)


class _Distributed:
    """An optimizer whose `minimize` also splits the programs for this process."""

    def __init__(self, optimizer, strategy):
        self._optimizer = optimizer
        self.user_defined_strategy = strategy
        meant = strategy._meant() if isinstance(strategy, DistributedStrategy) else strategy
        self._inner = None if _alone else _fleet.distributed_optimizer(optimizer, meant)

    def minimize(self, loss, startup_program=None, parameters=None, no_grad_set=None):
        """Adds everything that training needs, and splits the programs for this process."""
        program = loss.block.program
        if self._inner is None:
            done = self._optimizer.minimize(loss, startup_program, parameters, no_grad_set)
        else:
            schedule = getattr(self._optimizer, "_schedule", None)
            if schedule is not None:
                schedule._in_job = True
                self._optimizer._schedule = None
            done = self._inner.minimize(loss, None, startup_program, parameters, no_grad_set)
        program._fleet_opt = dict(program._fleet_opt or {})
        return done

    def __getattr__(self, name):
        return getattr(self._optimizer, name)


def distributed_optimizer(optimizer, strategy=None):
    """An optimizer whose `minimize` also splits the programs for this process."""
    return _Distributed(optimizer, strategy)


def save_persistables(executor, dirname, main_program=None, mode=0):
    """Saves parameters and optimizer state as they are on the servers now."""
    if _alone:
        from ...fluid.io import save_persistables as save

        return save(executor, dirname, main_program)
    return _fleet.save_persistables(executor, dirname, main_program)


def save_inference_model(
    executor, dirname, feeded_var_names, target_vars, main_program=None, export_for_deployment=True, mode=0
):
    """Saves a model to infer with, with parameters as they are on the servers now."""
    targets = list(target_vars) if isinstance(target_vars, (list, tuple)) else [target_vars]
    feeds = [var if isinstance(var, str) else var.name for var in feeded_var_names]
    if _alone:
        from ...fluid.io import save_inference_model as save

        return save(dirname, feeds, targets, executor, main_program)
    feeds = _needed(main_program or _fleet._origin_program, feeds, targets)
    return _fleet.save_inference_model(executor, dirname, feeds, targets, main_program, export_for_deployment)


def _needed(program, feeds, targets):
    """The feeds that the targets are computed from; of others it is said that they are left out."""
    names = [target.name for target in targets]
    pruned = program.clone(for_test=True)._prune_with_input(feeds, names)
    read = {name for op in pruned.global_block().ops for name in op.input_arg_names}
    for name in feeds:
        if name not in read:
            say_once("save_inference_model: {!r} is no part of what computes the targets, and is left out".format(name))
    return [name for name in feeds if name in read]


load_model = not_yet_function("fleet.load_model", "start the servers from a model: fleet.init_server(dirname)")
load_inference_model = not_yet_function(
    "fleet.load_inference_model", "load a model with paddle.static.load_inference_model, without servers"
)
save_cache_table = not_yet_function("fleet.save_cache_table", "save_persistables saves all rows")
shrink = not_yet_function("fleet.shrink", "rows are taken in by entry rules, and stay")
all_reduce = util.all_reduce

__getattr__ = unknown(__name__)
