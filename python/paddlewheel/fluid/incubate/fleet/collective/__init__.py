"""The fleet of trainers that exchange with each other, without servers."""

import logging

from ..... import _core
from .....distributed.fs_wrapper import LocalFS
from ....compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from ....executor import Executor
from ....framework import Program, default_startup_program
from ....io import load_persistables as _load_persistables
from ....io import save_inference_model as _save_inference_model
from ....io import save_persistables as _save_persistables
from ....transpiler.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from ..base.fleet_base import DistributedOptimizer, Fleet
from ..base.mode import Mode
from ..base.role_maker import PaddleCloudRoleMaker
from .check_point import CheckPoints, TrainStatus

NOT_HERE = "You should not call '{}' method for collective mode."


class DistributedStrategy(BuildStrategy):
    """How trainers without servers keep their parameters equal."""

    _defaults = {
        **BuildStrategy._defaults,
        "_ut4grad_allreduce": False,
        "amp_loss_scaling": None,
        "collective_mode": None,
        "dist_fc_config": None,
        "exec_strategy": None,
        "forward_recompute": False,
        "mode": "nccl2",
        "recompute_checkpoints": None,
        "use_amp": False,
        "use_dist_fc": False,
        "use_local_sgd": False,
    }

    def __init__(self):
        super().__init__()
        self.amp_loss_scaling = 2**15
        self.recompute_checkpoints = []
        self.exec_strategy = ExecutionStrategy()


class LambConfig:
    """Fluid's name for wishes about LAMB; it has none."""


class DistFCConfig:
    """Fluid's name for wishes about a layer that is cut over trainers; it has none."""


class Collective(Fleet):
    """Trainers that exchange with each other: each has all parameters."""

    def __init__(self):
        super().__init__(Mode.COLLECTIVE)
        self.startup_program = None
        self.main_program = None
        self._origin_program = None
        self._transpiled_program = None

    def init(self, role_maker=None):
        """Finds out the number of this trainer; by the environment unless told otherwise."""
        super().init(PaddleCloudRoleMaker(is_collective=True) if role_maker is None else role_maker)

    def init_worker(self):
        """Does nothing: the startup program meets the others."""
        logging.warning(NOT_HERE.format("init_worker"))

    def run_worker(self, main_programs=None, scopes=None):
        """Does nothing."""
        logging.warning(NOT_HERE.format("run_worker"))

    def init_server(self, model_dir=None):
        """Does nothing: there are no servers."""
        logging.warning(NOT_HERE.format("init_server"))

    def run_server(self):
        """Does nothing: there are no servers."""
        logging.warning(NOT_HERE.format("run_server"))

    def stop_worker(self):
        """Does nothing: a trainer says good-bye when its script ends."""
        logging.warning(NOT_HERE.format("stop_worker"))

    def distributed_optimizer(self, optimizer, strategy=None):
        """An optimizer whose `minimize` also makes the programs those of this trainer."""
        self._optimizer = CollectiveOptimizer(optimizer, strategy)
        return self._optimizer

    def _checked(self, function, executor, program):
        text = "In fleet.{}() function, {} must be as {} type."
        assert isinstance(executor, Executor), text.format(function, "executor", "Executor")
        program = self._origin_program if program is None else program
        assert isinstance(program, Program), text.format(function, "main_program", "Program")
        return program

    def save_inference_model(
        self,
        executor,
        dirname,
        feeded_var_names=None,
        target_vars=None,
        main_program=None,
        export_for_deployment=True,
    ):
        """Saves a model to infer with."""
        program = self._checked("save_inference_model", executor, main_program)
        _save_inference_model(
            dirname,
            feeded_var_names,
            target_vars,
            executor,
            program,
            None,
            None,
            export_for_deployment,
        )

    def save_persistables(self, executor, dirname, main_program=None, filename=None):
        """Saves parameters and the state of optimizers."""
        program = self._checked("save_persistables", executor, main_program)
        _save_persistables(executor, dirname, program, filename=filename)

    def save_check_point(
        self,
        executor,
        path,
        train_status,
        main_program=None,
        fs=LocalFS(),
        local_cache_path=".cache",
        remain_all_checkpoint=True,
    ):
        """Saves parameters, the state of optimizers and the number of the pass."""
        points = CheckPoints(path, fs, local_cache_path)
        program = main_program or self._transpiled_program

        def save():
            with points.saving(train_status) as (folder, name):
                _save_persistables(executor, folder, program, filename=name)
            if not remain_all_checkpoint:
                points.clean(1)
            return []

        _core.once_in_job("checkpoint {} in {}".format(train_status._epoch_no, path), save)

    def load_check_point(
        self,
        executor,
        path,
        trainer_id,
        main_program=None,
        fs=LocalFS(),
        local_cache_path=".cache",
        ignore_empty=True,
    ):
        """Loads what was saved last, and says which pass it was; None if there is nothing."""
        points = CheckPoints(path, fs, local_cache_path)
        found = []

        def choose():
            found.extend(points.last(trainer_id) or ())
            return [str(found[2]._epoch_no)] if found else []

        epoch = _core.once_in_job("the last checkpoint in {}".format(path), choose)
        assert epoch or ignore_empty, "Can't find checkpoint"
        if not epoch:
            return None
        # A script that was started again in a running job has its variables from there.
        if found:
            program = main_program or self._transpiled_program
            _load_persistables(executor, found[0], program, filename=found[1])
        return TrainStatus(int(epoch[0]))

    def clean_redundant_check_points(self, root_path, fs=LocalFS(), checkpoint_num=1):
        """Keeps only the last ones."""
        CheckPoints(root_path, fs).clean(max(checkpoint_num, 1))


fleet = Collective()


class CollectiveOptimizer(DistributedOptimizer):
    """An optimizer whose `minimize` also makes the programs those of this trainer."""

    def __init__(self, optimizer, strategy=None):
        strategy = DistributedStrategy() if strategy is None else strategy
        super().__init__(optimizer, strategy)
        if not isinstance(strategy.recompute_checkpoints, list):
            raise ValueError("DistStrategy.recompute_checkpoints should be a List")
        self.print_config = False

    def _check(self):
        strategy = self._strategy
        if strategy.forward_recompute or strategy.use_amp or strategy.use_dist_fc:
            names = "forward_recompute, use_amp and use_dist_fc"
            raise NotImplementedError(names + " need a graphics card; leave them False")
        if strategy.use_local_sgd:
            strategy.mode, strategy.collective_mode = "collective", "local_sgd"
        if strategy._ut4grad_allreduce:
            strategy.mode, strategy.collective_mode = "collective", "grad_allreduce"
        if strategy.collective_mode in ("local_sgd", "grad_allreduce"):
            rule = "local_sgd and grad_allreduce can be used under collective mode"
            assert strategy.mode == "collective", rule

    def _transpile(self, startup, main):
        config, endpoints = DistributeTranspilerConfig(), fleet.worker_endpoints()
        for name in (
            "mode collective_mode nccl_comm_num use_hierarchical_allreduce "
            "hierarchical_allreduce_inter_nranks"
        ).split():
            setattr(config, name, getattr(self._strategy, name))
        DistributeTranspiler(config).transpile(
            fleet.worker_index(),
            trainers=",".join(endpoints),
            startup_program=startup,
            program=main,
            current_endpoint=endpoints[fleet.worker_index()],
        )

    def minimize(self, loss, startup_program=None, parameter_list=None, no_grad_set=None):
        """Adds everything that training needs, and makes the programs those of this trainer."""
        fleet._need()
        self._check()
        main = loss.block.program
        startup = startup_program or default_startup_program()
        fleet.startup_program = startup
        minimized = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        fleet._origin_program = main.clone(for_test=False)
        fleet._transpiled_program = main
        self._transpile(startup, main)
        in_program = self._strategy.mode == "collective"
        fleet.main_program = main if in_program else self._compiled(loss, main)
        return minimized

    def _compiled(self, loss, main):
        strategy = self._strategy
        strategy.num_trainers = fleet.worker_num()
        strategy.trainer_id = fleet.worker_index()
        strategy.trainers_endpoints = fleet.worker_endpoints()
        return CompiledProgram(main).with_data_parallel(
            loss_name=loss.name,
            build_strategy=strategy,
            exec_strategy=strategy.exec_strategy,
        )


class CollectiveOpBasedOptimizer(CollectiveOptimizer):
    """Fluid's other name for it."""

    def __init__(self, optimizer, strategy=None):
        assert isinstance(strategy, DistributedStrategy), "strategy must be DistributedStrategy"
        super().__init__(optimizer, strategy)


class LocalSGD(CollectiveOptimizer):
    """A `CollectiveOptimizer` whose trainers average their parameters after every step."""

    def __init__(self, optimizer, strategy=None):
        super().__init__(optimizer, strategy)
        self._strategy.use_local_sgd = True
