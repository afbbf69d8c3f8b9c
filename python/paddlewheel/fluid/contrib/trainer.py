"""The older way to train: events instead of a loop."""

import atexit
import logging
import os

import numpy

from ... import _core
from .. import core, io, unique_name
from ..compiler import BuildStrategy, CompiledProgram
from ..data_feeder import DataFeeder
from ..executor import Executor, scope_guard
from ..framework import Program, program_guard
from ..optimizer import Optimizer
from ..transpiler.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from .checkpoint import (
    CheckpointConfig,
    Checkpoints,
    StepsDone,
    clean_checkpoint,
    get_latest_checkpoint_serial,
    load_checkpoint,
    load_progress,
    save_checkpoint,
)


class BeginEpochEvent:
    """A pass over the data begins."""

    def __init__(self, epoch_id):
        self.epoch = epoch_id


class EndEpochEvent:
    """A pass over the data is done."""

    def __init__(self, epoch_id):
        self.epoch = epoch_id


class BeginStepEvent:
    """A batch begins; clear `fetch_metrics` to train without values."""

    def __init__(self, epoch_id, step_id):
        self.epoch = epoch_id
        self.step = step_id
        self.fetch_metrics = True


class EndStepEvent:
    """A batch is done."""

    def __init__(self, epoch_id, step_id, metrics):
        self.epoch = epoch_id
        self.step = step_id
        self.metrics = metrics


class Trainer:
    """Builds a program, trains it batch by batch, and calls a handler with what happens.

    In a job (`PADDLE_TRAINING_ROLE` and the other variables are set) it is a trainer or a server of
    it; with `PADDLE_TRAINER_IPS` it is one of several trainers without servers. With `parallel`, a step takes a batch for each of `CPU_NUM` devices.
    """

    def __init__(
        self,
        train_func,
        optimizer_func,
        param_path=None,
        place=None,
        parallel=False,
        checkpoint_config=None,
    ):
        if checkpoint_config is not None and not isinstance(checkpoint_config, CheckpointConfig):
            raise TypeError("The checkpoint_config shoule be an instance of CheckpointConfig")
        self.role = _core.fleet.role_in_a_job()
        self.servers = self.role.server_endpoints() if self.role else []
        self.others = self.role.worker_endpoints() if self.role else []
        self.checkpoint_cfg = checkpoint_config
        self.trainer_id = self.role.index() if self.role and self.role.is_worker() else 0
        self.parallel = parallel
        self.place = core.CPUPlace() if place is None else place
        self.scope = core.Scope()
        self.train_program, self.startup_program = Program(), Program()
        self.progress = StepsDone(1, 1)
        self._stopped = False
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            outputs = train_func()
            self.train_func_outputs = outputs if isinstance(outputs, list) else [outputs]
            self.test_program = self.train_program.clone(for_test=True)
            optimizer = optimizer_func()
            if not isinstance(optimizer, Optimizer):
                raise TypeError("The optimizer should be an instance of Optimizer")
            optimizer.minimize(self.train_func_outputs[0])
        self._split()
        self.exe = Executor(self.place)
        if checkpoint_config is not None:
            # Before it speaks to the other processes of a job, which must find the same.
            self._points = Checkpoints(checkpoint_config.checkpoint_dir)
            self._points.begin()
        with scope_guard(self.scope):
            self.exe.run(self.startup_program)
            self._resume(param_path)

    def _split(self):
        """In a job, makes the programs those of this process."""
        if self.role is None:
            return
        servers, config = self.servers, DistributeTranspilerConfig()
        programs = {"program": self.train_program, "startup_program": self.startup_program}
        if self.others:
            config.mode = "nccl2"
            DistributeTranspiler(config).transpile(
                self.trainer_id,
                trainers=",".join(self.others),
                current_endpoint=self.others[self.trainer_id],
                **programs,
            )
            return
        transpiler = DistributeTranspiler(config)
        transpiler.transpile(
            self.trainer_id,
            pservers=",".join(servers),
            trainers=self.role.worker_num(),
            **programs,
        )
        if self.role.is_server():
            programs = transpiler.get_pserver_programs(servers[self.role.index()])
            self.train_program, self.startup_program = programs
        else:
            transpiler.get_trainer_program()

    def _resume(self, param_path):
        """Continues from the newest whole checkpoint, else from saved parameters."""
        # A server loads what it keeps, a trainer what it does not get from servers.
        program = self.train_program if self.servers else self.startup_program
        config = self.checkpoint_cfg
        if config is not None:
            self.progress = StepsDone(config.epoch_interval, config.step_interval)
            config.load_serial = self._points.resume(
                self.exe, program, self.trainer_id, self.progress
            )
            config.epoch_id, config.step_id = self.progress.done() or (0, 0)
            if config.load_serial is not None:
                return
        if param_path and os.path.isdir(param_path):
            io.load_persistables(self.exe, param_path, program)

    def stop(self):
        """Ends the training before the next batch."""
        self._stopped = True

    def train(self, num_epochs, event_handler, reader=None, feed_order=None):
        """Trains `num_epochs` passes over the batches of a reader; a server serves."""
        with scope_guard(self.scope):
            if self.role is not None and self.role.is_server():
                self.exe.run(self.train_program)
                return
            self._train(num_epochs, event_handler, reader, feed_order)
        if self.servers:
            # Servers are needed for what is saved after the training.
            atexit.register(self.exe.close)

    def _train(self, num_epochs, event_handler, reader, feed_order):
        feeder = DataFeeder(feed_vars(self.train_program, feed_order), self.place)
        feeds = feeder.decorate_reader(reader, multi_devices=bool(self.parallel))
        config, program = self.checkpoint_cfg, self.train_program
        if self.parallel or self.others:
            program = self._on_devices()
        for epoch_id in range(self.progress.first_epoch(), num_epochs):
            event_handler(BeginEpochEvent(epoch_id))
            for step_id, feed in enumerate(feeds()):
                if self._stopped:
                    break
                if self.progress.takes(epoch_id, step_id):
                    self._step(program, (epoch_id, step_id), feed, event_handler)
            if self._stopped:
                break
            event_handler(EndEpochEvent(epoch_id))
        if config:
            Checkpoints(config.checkpoint_dir).clean(self.trainer_id, False)

    def _on_devices(self):
        """The program on each device, and with the gradients of other trainers."""
        strategy = BuildStrategy()
        if self.others:
            strategy.num_trainers, strategy.trainer_id = len(self.others), self.trainer_id
        return CompiledProgram(self.train_program).with_data_parallel(
            loss_name=self.train_func_outputs[0].name,
            build_strategy=strategy,
            places=None if self.parallel else [self.place],
        )

    def _step(self, program, at, feed, event_handler):
        begin = BeginStepEvent(*at)
        event_handler(begin)
        fetch = [output.name for output in self.train_func_outputs] if begin.fetch_metrics else []
        metrics = self.exe.run(program, feed=feed, fetch_list=fetch)
        if self.checkpoint_cfg and self.progress.is_due(*at):
            save_checkpoint(
                self.exe,
                self.checkpoint_cfg.checkpoint_dir,
                self.trainer_id,
                self.train_program,
                self.progress.arguments(*at),
                self.checkpoint_cfg.max_num_checkpoints,
            )
        event_handler(EndStepEvent(*at, metrics))

    def test(self, reader, feed_order):
        """The outputs of `train_func`, averaged over the batches of a reader."""
        feeder = DataFeeder(feed_vars(self.test_program, feed_order), self.place)
        names = [output.name for output in self.train_func_outputs]
        with scope_guard(self.scope):
            values = [
                self.exe.run(self.test_program, feed=feeder.feed(batch), fetch_list=names)
                for batch in reader()
            ]
        return [float(numpy.mean(column)) for column in zip(*values)]

    def _serves(self, what):
        """Whether this process is a server: trainers save what servers hold."""
        if self.role is None or not self.role.is_server():
            return False
        logging.warning("Trainer.%s does nothing in the process of a server: trainers save what servers hold", what)
        return True

    def save_params(self, param_path):
        """Saves the state that a training can continue from. A server leaves that to the trainers."""
        if self._serves("save_params"):
            return
        with scope_guard(self.scope):
            io.save_persistables(self.exe, param_path, self.train_program)

    def save_inference_model(self, param_path, feeded_var_names, target_var_indexes):
        """Saves a model that predicts some of the outputs of `train_func`. A server leaves that to the trainers."""
        if self._serves("save_inference_model"):
            return
        targets = [self.train_func_outputs[index] for index in target_var_indexes]
        with scope_guard(self.scope):
            io.save_inference_model(
                param_path, feeded_var_names, targets, self.exe, self.train_program
            )


def feed_vars(program, feed_order):
    """The data variables that the fields of a sample go to."""
    block = program.global_block()
    if feed_order is None:
        return [var for var in block.vars.values() if var.is_data]
    if isinstance(feed_order, dict):
        if sorted(feed_order.values()) != list(range(len(feed_order))):
            raise ValueError("The values of 'feed_order' should be a permutation of [0, len)")
        feed_order = sorted(feed_order, key=feed_order.get)
    if not isinstance(feed_order, (list, tuple)):
        raise TypeError("The 'feed_order' should be either None, list or dict.")
    return [block.var(name) for name in feed_order]


class Inferencer:
    """Builds a program, loads its parameters, and predicts."""

    def __init__(self, infer_func, param_path, place=None, parallel=False):
        self.scope = core.Scope()
        self.inference_program = Program()
        self.exe = Executor(core.CPUPlace() if place is None else place)
        with program_guard(self.inference_program, Program()), unique_name.guard():
            self.predict_var = infer_func()
        self.inference_program = self.inference_program.clone(for_test=True)
        with scope_guard(self.scope):
            io.load_params(self.exe, param_path, self.inference_program)

    def infer(self, inputs, return_numpy=True):
        """The prediction for a feed."""
        if not isinstance(inputs, dict):
            raise ValueError("inputs should be a map of {'input_name': input_var}")
        with scope_guard(self.scope):
            return self.exe.run(
                self.inference_program,
                feed=inputs,
                fetch_list=[self.predict_var.name],
                return_numpy=return_numpy,
            )
