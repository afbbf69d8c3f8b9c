"""`paddle.base` of version 2.6: what `paddle.fluid` was before."""

from . import fluid as _fluid
from .fluid import core


def __getattr__(name):
    """The names of `paddle.fluid`."""
    return getattr(_fluid, name)
