"""Checkpoints of the event trainer: numbered folders, the newest whole one counts."""

import os
import time

from .. import io
from ... import _core

#: The names of `fluid.io` of version 0.14.
OF_IO = (
    "save_checkpoint",
    "load_checkpoint",
    "clean_checkpoint",
    "get_latest_checkpoint_serial",
    "load_persist_vars_without_grad",
    "save_persist_vars_without_grad",
)
MODEL = "__model__"
PROGRESS = ("epoch_id", "step_id")

Checkpoints = _core.io.Checkpoints
StepsDone = _core.io.StepsDone
is_checkpoint_var = _core.io.is_checkpoint_var


class CheckpointConfig:
    """Where and how often a trainer saves itself."""

    def __init__(
        self, checkpoint_dir=None, max_num_checkpoints=3, epoch_interval=1, step_interval=10
    ):
        assert epoch_interval >= 1, "epoch_interval must be at least 1"
        assert step_interval >= 1, "step_interval must be at least 1"
        self.checkpoint_dir = os.getcwd() if checkpoint_dir is None else checkpoint_dir
        self.max_num_checkpoints = max_num_checkpoints
        self.epoch_interval = epoch_interval
        self.step_interval = step_interval
        self.epoch_id = 0
        self.step_id = 0
        self.load_serial = None
        self.pserver_id = None
        self.lookup_table_name = None


def serials(checkpoint_dir):
    """The numbers of the checkpoints in a folder; other entries are left alone."""
    return Checkpoints(checkpoint_dir).serials()


def get_latest_checkpoint_serial(checkpoint_dir):
    """The number of the newest complete checkpoint; -1 if there is none."""
    return Checkpoints(checkpoint_dir).latest()


def save_checkpoint(
    executor,
    checkpoint_dir,
    trainer_id,
    main_program,
    trainer_args=None,
    max_num_checkpoints=3,
    lookup_table=None,
    pserver_endpoints=None,
):
    """Writes the next checkpoint and removes the oldest beyond `max_num_checkpoints`.

    Trainer 0 saves the model, tables of servers among it; each trainer saves its own arguments.
    """
    if checkpoint_dir is None:
        raise ValueError("'checkpoint_dir' should not be None")
    arguments = [(name, str(value)) for name, value in (trainer_args or {}).items()]
    kept = max(int(max_num_checkpoints), 1)
    Checkpoints(checkpoint_dir).save(
        executor, main_program, trainer_id, arguments, kept, time.ctime()
    )


def load_checkpoint(executor, checkpoint_dir, main_program, serial=None):
    """Reads the variables of a checkpoint: of this one, or of the newest that is whole.

    Version 0.14 has the number before the program; both ways are understood.
    """
    if isinstance(main_program, int):
        main_program, serial = serial, main_program
    serial = None if serial is None or serial < 0 else serial
    Checkpoints(checkpoint_dir).load(executor, main_program, serial)


def save_persist_vars_without_grad(executor, dirname, program):
    """Writes the variables that a checkpoint holds, and marks the folder as complete."""
    model = os.path.join(dirname, MODEL)
    io.save_vars(executor, model, program, predicate=is_checkpoint_var)
    with open(os.path.join(model, "_SUCCESS"), "a", encoding="utf-8") as file:
        file.write(time.ctime())


def load_persist_vars_without_grad(executor, dirname, program, has_model_dir=False):
    """Reads the variables that a checkpoint holds."""
    dirname = os.path.join(dirname, MODEL) if has_model_dir else dirname
    io.load_vars(executor, dirname, program, predicate=is_checkpoint_var)


def load_progress(checkpoint_dir, serial, trainer_id):
    """The epoch and step that a trainer wrote with a checkpoint."""
    found = Checkpoints(checkpoint_dir).arguments(serial, trainer_id)
    return [int(found.get(name, 0)) for name in PROGRESS]


def clean_checkpoint(checkpoint_dir, delete_dir=False):
    """Removes all checkpoints, and the folder if asked to and empty."""
    Checkpoints(checkpoint_dir).clean(0, delete_dir)
