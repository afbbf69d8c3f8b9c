"""Fluid scripts, trained by a Rust core. Mirrors the package `paddle` of version 1.8."""

from . import reader
from ._batch import batch
from . import dataset
from . import fluid
from . import distributed
from . import compat, version
from . import v2
from . import metrics
from ._core import export, import_rows, show
from ._core import CTR, Predictor, hash_id

#: The version of Fluid whose behaviour this package has; scripts compare it.
__version__ = version.full_version


def enable_static():
    """Programs are always built first and run afterwards; there is nothing to switch."""
