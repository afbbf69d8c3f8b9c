"""Fluid scripts, trained by a Rust core. Mirrors the package `paddle` of version 1.8, and of version 2 what
static training uses."""

from . import reader
from ._batch import batch
from . import dataset
from . import fluid
from . import compat, version
from . import v2
from . import metrics
from . import _two
from ._core import export, import_rows, show
from ._core import CTR, Predictor, hash_id

#: The version of Fluid whose behaviour this package has; scripts compare it.
__version__ = version.full_version


def enable_static():
    """Programs are always built first and run afterwards; variables get the methods of version 2."""
    _two.find("tensor")


def disable_static(place=None):
    """Dynamic graphs are not there; says what is."""
    raise NotImplementedError(
        "dynamic graphs are not supported: build a program with paddle.static and paddle.nn, and run it with "
        "paddle.static.Executor"
    )


def in_dynamic_mode():
    """Always false: programs are built first and run afterwards."""
    return False


def __getattr__(name):
    """The names of version 2, which are loaded when they are first used."""
    return _two.find(name)
