"""Checkpoints of the event trainer: numbered folders, the newest complete one counts."""

import os
import re
import shutil
import time

from .. import core, io

MODEL = "__model__"
SUCCESS = "_SUCCESS"
PROGRESS = ("epoch_id", "step_id")
#: What `fluid.io` of version 0.14 has.
OF_IO = (
    "save_checkpoint",
    "load_checkpoint",
    "clean_checkpoint",
    "get_latest_checkpoint_serial",
    "load_persist_vars_without_grad",
    "save_persist_vars_without_grad",
)
FOREIGN = ("@GRAD", ".trainer_", ".block")


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
    names = os.listdir(checkpoint_dir) if os.path.isdir(checkpoint_dir) else []
    matches = (re.fullmatch(r"checkpoint_(\d+)", name) for name in names)
    return sorted(int(match.group(1)) for match in matches if match)


def folder(checkpoint_dir, serial, *below):
    """A path in a checkpoint."""
    return os.path.join(checkpoint_dir, "checkpoint_%d" % serial, *below)


def get_latest_checkpoint_serial(checkpoint_dir):
    """The number of the newest complete checkpoint; -1 if there is none."""
    complete = [
        serial
        for serial in serials(checkpoint_dir)
        if os.path.exists(folder(checkpoint_dir, serial, MODEL, SUCCESS))
    ]
    return complete[-1] if complete else -1


def is_checkpoint_var(var):
    """Whether a checkpoint holds this variable."""
    kinds = core.VarDesc.VarType
    if var.type in (kinds.FEED_MINIBATCH, kinds.FETCH_LIST, kinds.RAW):
        return False
    return var.persistable and not any(part in var.name for part in FOREIGN)


def succeed(path):
    """Marks a folder as complete."""
    with open(os.path.join(path, SUCCESS), "a", encoding="utf-8") as file:
        file.write(time.ctime())


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
    """Writes the next checkpoint and removes the oldest beyond `max_num_checkpoints`."""
    if checkpoint_dir is None:
        raise ValueError("'checkpoint_dir' should not be None")
    serial = max(serials(checkpoint_dir), default=-1) + 1
    own = folder(checkpoint_dir, serial, "trainer_%d" % trainer_id)
    os.makedirs(own, exist_ok=True)
    for name, value in (trainer_args or {}).items():
        with open(os.path.join(own, name), "w", encoding="utf-8") as file:
            file.write("%d\n" % value)
    succeed(own)
    if trainer_id == 0:
        model = folder(checkpoint_dir, serial, MODEL)
        io.save_vars(executor, model, main_program, predicate=is_checkpoint_var)
        succeed(model)
    for old in serials(checkpoint_dir)[:-max_num_checkpoints]:
        shutil.rmtree(folder(checkpoint_dir, old), ignore_errors=True)


def load_checkpoint(executor, checkpoint_dir, main_program, serial=None):
    """Reads the variables of a checkpoint, the newest unless another is named.

    Version 0.14 has the number before the program; both ways are understood.
    """
    if isinstance(main_program, int):
        main_program, serial = serial, main_program
    if serial is None or serial < 0:
        serial = get_latest_checkpoint_serial(checkpoint_dir)
    if serial < 0:
        raise ValueError("there is no complete checkpoint in %s" % checkpoint_dir)
    model = folder(checkpoint_dir, serial, MODEL)
    io.load_vars(executor, model, main_program, predicate=is_checkpoint_var)


def save_persist_vars_without_grad(executor, dirname, program):
    """Writes the variables that a checkpoint holds, and marks the folder as complete."""
    model = os.path.join(dirname, MODEL)
    io.save_vars(executor, model, program, predicate=is_checkpoint_var)
    succeed(model)


def load_persist_vars_without_grad(executor, dirname, program, has_model_dir=False):
    """Reads the variables that a checkpoint holds."""
    dirname = os.path.join(dirname, MODEL) if has_model_dir else dirname
    io.load_vars(executor, dirname, program, predicate=is_checkpoint_var)


def load_progress(checkpoint_dir, serial, trainer_id):
    """The epoch and step that a checkpoint was written after."""
    values = []
    for name in PROGRESS:
        path = folder(checkpoint_dir, serial, "trainer_%d" % trainer_id, name)
        with open(path, encoding="utf-8") as file:
            values.append(int(file.read()))
    return values


def clean_checkpoint(checkpoint_dir, delete_dir=False):
    """Removes all checkpoints, and the folder if asked to and empty."""
    for serial in serials(checkpoint_dir):
        shutil.rmtree(folder(checkpoint_dir, serial), ignore_errors=True)
    if delete_dir and os.path.isdir(checkpoint_dir) and not os.listdir(checkpoint_dir):
        os.rmdir(checkpoint_dir)
