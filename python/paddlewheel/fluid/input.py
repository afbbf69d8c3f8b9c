"""Inputs in the newer form: no batch dimension is added, ids need no last dimension of one."""

from .. import _core
from . import layers


def data(name, shape, dtype="float32", lod_level=0):
    """Declares an input of exactly this shape; None or -1 where a size is known only at run time."""
    return layers.data(name, shape, append_batch_size=False, dtype=dtype, lod_level=lod_level)


embedding = one_hot = None
