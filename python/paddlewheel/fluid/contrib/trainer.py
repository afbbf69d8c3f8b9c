"""The older way to train: events instead of a loop."""

import os

import numpy

from .. import core, io, unique_name
from .._not_yet import not_yet
from ..data_feeder import DataFeeder
from ..executor import Executor, scope_guard
from ..framework import Program, program_guard
from ..optimizer import Optimizer
from .checkpoint import (
    CheckpointConfig,
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
    """Builds a program, trains it batch by batch, and calls a handler with what happens."""

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
        for name in ("PADDLE_TRAINER_IPS", "PADDLE_TRAINING_ROLE"):
            if name in os.environ:
                raise not_yet("Trainer with " + name)
        self.checkpoint_cfg = checkpoint_config
        self.trainer_id = 0
        self.parallel = parallel
        self.place = core.CPUPlace() if place is None else place
        self.scope = core.Scope()
        self.train_program, self.startup_program = Program(), Program()
        self._stopped = False
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            outputs = train_func()
            self.train_func_outputs = outputs if isinstance(outputs, list) else [outputs]
            self.test_program = self.train_program.clone(for_test=True)
            optimizer = optimizer_func()
            if not isinstance(optimizer, Optimizer):
                raise TypeError("The optimizer should be an instance of Optimizer")
            optimizer.minimize(self.train_func_outputs[0])
        self.exe = Executor(self.place)
        with scope_guard(self.scope):
            self.exe.run(self.startup_program)
            self._resume(param_path)

    def _resume(self, param_path):
        """Continues from the newest checkpoint, else from saved parameters."""
        config = self.checkpoint_cfg
        serial = -1 if config is None else get_latest_checkpoint_serial(config.checkpoint_dir)
        if serial >= 0:
            config.load_serial = serial
            load_checkpoint(self.exe, config.checkpoint_dir, self.startup_program, serial)
            config.epoch_id, config.step_id = load_progress(
                config.checkpoint_dir, serial, self.trainer_id
            )
        elif param_path and os.path.isdir(param_path):
            io.load_persistables(self.exe, param_path, self.startup_program)

    def stop(self):
        """Ends the training before the next batch."""
        self._stopped = True

    def train(self, num_epochs, event_handler, reader=None, feed_order=None):
        """Trains `num_epochs` passes over the batches of a reader."""
        feeder = DataFeeder(feed_vars(self.train_program, feed_order), self.place)
        first = self.checkpoint_cfg.epoch_id if self.checkpoint_cfg else 0
        with scope_guard(self.scope):
            for epoch_id in range(first, num_epochs):
                event_handler(BeginEpochEvent(epoch_id))
                for step_id, batch in enumerate(reader()):
                    if self._stopped:
                        break
                    if not self._is_done(epoch_id, step_id):
                        self._step(epoch_id, step_id, feeder.feed(batch), event_handler)
                if self._stopped:
                    break
                event_handler(EndEpochEvent(epoch_id))
            if self.checkpoint_cfg:
                clean_checkpoint(self.checkpoint_cfg.checkpoint_dir)

    def _is_done(self, epoch_id, step_id):
        """Whether the checkpoint that was loaded was written after this batch."""
        config = self.checkpoint_cfg
        if config is None or config.load_serial is None:
            return False
        return (epoch_id, step_id) <= (config.epoch_id, config.step_id)

    def _step(self, epoch_id, step_id, feed, event_handler):
        begin = BeginStepEvent(epoch_id, step_id)
        event_handler(begin)
        fetch = self.train_func_outputs if begin.fetch_metrics else []
        metrics = self.exe.run(self.train_program, feed=feed, fetch_list=fetch)
        config = self.checkpoint_cfg
        due = config and epoch_id % config.epoch_interval == step_id % config.step_interval == 0
        if due:
            save_checkpoint(
                self.exe,
                config.checkpoint_dir,
                self.trainer_id,
                self.train_program,
                {"epoch_id": epoch_id, "step_id": step_id},
                config.max_num_checkpoints,
            )
        event_handler(EndStepEvent(epoch_id, step_id, metrics))

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

    def save_params(self, param_path):
        """Saves what a training can go on from."""
        with scope_guard(self.scope):
            io.save_persistables(self.exe, param_path, self.train_program)

    def save_inference_model(self, param_path, feeded_var_names, target_var_indexes):
        """Saves a model that predicts some of the outputs of `train_func`."""
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
