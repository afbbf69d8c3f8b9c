"""The parts of Fluid that this version does not have yet."""

import sys

from .. import _core

REASON = "{} is not yet there in this version of paddlewheel: {}"

LATER = "nothing takes its place"
DATASETS = (
    "make a dataset with fluid.DatasetFactory().create_dataset('QueueDataset'), tell it set_use_var, "
    "set_filelist and set_pipe_command, and give it to exe.train_from_dataset"
)


def not_yet(what, why=LATER):
    """The error that a user gets."""
    return NotImplementedError(REASON.format(what, why))


def not_yet_class(name, why=LATER, doc=None):
    """A class that can be named but not made."""

    def __init__(self, *args, **kwargs):
        raise not_yet(name, why)

    members = {"__doc__": doc or name + ": not yet there.", "_not_yet": True}
    return type(name.rpartition(".")[2], (), {"__init__": __init__, **members})


def not_yet_function(name, why=LATER):
    """A function that can be named but not called."""

    def function(*args, **kwargs):
        raise not_yet(name, why)

    function.__name__ = name.rpartition(".")[2]
    function.__doc__ = name + ": not yet there."
    function._not_yet = True
    return function


def unknown(module):
    """A `__getattr__` for a module: says what it does not have, and what was perhaps meant."""
    fluids = module.replace("paddlewheel", "paddle")

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(name)
        there = vars(sys.modules[module])
        known = [*there, *there.get("_names", ())]
        raise AttributeError(_core.no_such_name(fluids, name, known))

    return __getattr__
