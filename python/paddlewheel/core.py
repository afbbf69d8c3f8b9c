"""`paddle.core`: the native objects."""

from .fluid import core as _core


def __getattr__(name):
    """The names of `paddle.fluid.core`."""
    return getattr(_core, name)
