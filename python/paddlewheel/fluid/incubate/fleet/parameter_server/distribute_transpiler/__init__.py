"""The fleet of trainers and parameter servers."""

import logging
import socket
import sys

from ......_core import global_scope
from .....compiler import CompiledProgram
from .....executor import Executor
from .....framework import default_startup_program
from .....io import save_inference_model as _save_local_model
from .....transpiler.config import FIELDS, checked
from .....transpiler.distribute_transpiler import chooser
from .....transpiler.ps_dispatcher import RoundRobin
from ...base.fleet_base import DistributedOptimizer, Fleet
from ...base.mode import Mode
from .distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    DistributeTranspilerConfig,
    GeoStrategy,
    HalfAsyncStrategy,
    ServerRuntimeConfig,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
)

NO_ROLE = "use fleet.init(role) to initialize the role of current node before optimizer.minimize(loss)"
NO_STRATEGY = (
    "In {} mode, strategy must be an instance of DistributeTranspilerConfig, SyncStrategy, "
    "HalfAsyncStrategy, AsyncStrategy, or GeoStrategy"
)


def _listens(endpoint):
    """Whether a process takes connections there."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


class DistributedTranspiler(Fleet):
    """Trainers and parameter servers: one script, two roles."""

    def __init__(self):
        super().__init__(Mode.TRANSPILER)
        self.startup_program = None
        self.main_program = None
        self._origin_program = None
        self._waits = True

    def distributed_optimizer(self, optimizer, strategy=None):
        """An optimizer whose `minimize` also splits the programs for this process."""
        self._optimizer = TranspilerOptimizer(optimizer, strategy)
        return self._optimizer

    def _distribute(self, main, startup, strategy):
        """Splits the programs of a loss that has been minimized, and waits for the servers."""
        strategy = strategy or SyncStrategy()
        is_plain = isinstance(strategy, DistributeTranspilerConfig)
        config = checked(strategy if is_plain else strategy.get_program_config())
        trainer = None if is_plain else strategy.get_trainer_runtime_config()
        server = ServerRuntimeConfig() if is_plain else strategy.get_server_runtime_config()
        wishes = {name: getattr(config, name) for name in FIELDS}
        wishes["fluid_block_init"] = getattr(config, "fluid_block_init", False)
        settings = (
            server._rpc_send_thread_num,
            server._rpc_get_thread_num,
            server._rpc_prefetch_thread_num,
            bool(server.tolerate_lost_trainers),
        )
        choose = chooser(config.split_method or RoundRobin, self.server_endpoints())
        self._native.distribute(main, startup, wishes, trainer, settings, choose)
        self._origin_program = self._native.origin()
        programs = self._native.server_programs() or (main, startup)
        self.main_program, self.startup_program = programs
        self._waits = bool(config.wait_port)
        if self._waits:
            self._native.wait_for_servers()

    def init_worker(self):
        """Gets this trainer ready to send."""
        self._need().init_worker()

    def init_server(self, model_dir=None, missing=None):
        """Fills this server's parameters, from a model if one is given.

        With `missing="init"`, a model that has other variables, or other sizes of them, gives what
        fits; the rest starts as without a model.
        """
        self._need().init_server(global_scope(), model_dir, missing)

    def run_server(self):
        """Serves until all trainers have completed. A signal to end ends the process, in order."""
        code = self._need().run_server(global_scope())
        if code is not None:
            sys.exit(code)

    def stop_worker(self):
        """This trainer has finished: its queue is sent, and servers are told.

        A script that does not wait for servers (`wait_port = False`) ends without them if none is there."""
        native = self._need()
        endpoints = self.server_endpoints()
        if not self._waits and not any(_listens(endpoint) for endpoint in endpoints):
            logging.warning(
                "stop_worker: no server listens at %s, and wait_port is False: no server learns that this trainer "
                "has finished",
                ", ".join(endpoints),
            )
            return
        native.stop_worker(global_scope())

    def save_persistables(self, executor, dirname, main_program=None):
        """Saves parameters and optimizer state as they are on the servers now."""
        program = self._program_arg("save_persistables", executor, main_program)
        self._need().save_persistables(global_scope(), dirname, program or self.main_program)

    def save_inference_model(
        self,
        executor,
        dirname,
        feeded_var_names,
        target_vars,
        main_program=None,
        export_for_deployment=True,
    ):
        """Saves a model to infer with, with parameters as they are on the servers now."""
        program = self._program_arg("save_inference_model", executor, main_program)
        if program is not None:
            return _save_local_model(
                dirname,
                feeded_var_names,
                target_vars,
                executor,
                program,
                export_for_deployment=export_for_deployment,
            )
        return self._need().save_inference_model(
            global_scope(), dirname, feeded_var_names, target_vars, export_for_deployment
        )

    def _program_arg(self, function, executor, program):
        text = "in fleet.{}() function, {}"
        if not isinstance(executor, Executor):
            raise TypeError(text.format(function, "executor must be as Executor type"))
        if isinstance(program, CompiledProgram):
            rule = "main_program must be as Program type, CompiledProgram is not allowed"
            raise TypeError(text.format(function, rule))
        return program


class TranspilerOptimizer(DistributedOptimizer):
    """An optimizer whose `minimize` also splits the programs for this process."""

    def __init__(self, optimizer, strategy=None):
        super().__init__(optimizer, strategy)
        if not fleet._is_initialized:
            raise ValueError(NO_ROLE)
        known = (DistributeTranspilerConfig, DistributedStrategy)
        if strategy is not None and not isinstance(strategy, known):
            raise TypeError(NO_STRATEGY.format(fleet._mode))

    def minimize(
        self, loss, scopes=None, startup_program=None, parameter_list=None, no_grad_set=None
    ):
        """Adds everything that training needs, and splits the programs for this process."""
        if isinstance(loss, list):
            text = "DistributedTranspiler's minimize can not accept loss with list"
            raise TypeError(text)
        if isinstance(startup_program, list):
            text = "DistributedTranspiler's minimize can not accept program with list"
            raise TypeError(text)
        startup = startup_program or default_startup_program()
        done = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        fleet._distribute(loss.block.program, startup, self._strategy)
        return done


fleet = DistributedTranspiler()
