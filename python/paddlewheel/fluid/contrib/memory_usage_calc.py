"""How much memory a program takes."""

from ... import _core
from .. import core

_types = core.VarDesc.VarType
dtype_to_size = {
    _types.FP16: 2,
    _types.FP32: 4,
    _types.FP64: 8,
    _types.INT16: 2,
    _types.INT32: 4,
    _types.INT64: 8,
    _types.BOOL: 1,
    _types.UINT8: 1,
}

memory_usage = _core.memory_usage
