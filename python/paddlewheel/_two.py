"""Where the names of version 2 live. Nothing is loaded before it is used."""

import importlib
import sys

from .fluid._not_yet import unknown

OURS = __name__.partition(".")[0]
MODULES = (
    "base common_ops_import core device distributed framework incubate inference io jit metric nn optimizer regularizer static tensor"
)
#: Names of `paddle` itself and the modules that have them.
HOMES = {
    "device": "set_device get_device is_compiled_with_cuda is_compiled_with_custom_device is_compiled_with_xpu "
    "is_compiled_with_rocm is_compiled_with_ipu is_compiled_with_cinn",
    "fluid": "ParamAttr CPUPlace CUDAPlace CUDAPinnedPlace get_flags set_flags",
    "objects": "save load seed get_rng_state summary grad no_grad",
}
TYPES = {
    "bool": "BOOL", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32",
    "float64": "FP64", "int8": "INT8", "uint8": "UINT8",
}


def find(name):
    """A name of version 2, or an error that says what was perhaps meant."""
    if name == "__git_commit__":
        return "unknown"
    if name.startswith("__"):
        raise AttributeError(name)
    if name in MODULES.split():
        return importlib.import_module("{}.{}".format(OURS, name))
    if name in TYPES:
        from ._core import VarType

        return getattr(VarType, TYPES[name])
    for home, names in HOMES.items():
        if name in names.split():
            return _keep(name, getattr(importlib.import_module("{}.{}".format(OURS, _file(home))), name))
    from .tensor import FUNCTIONS

    if name in FUNCTIONS:
        return _keep(name, FUNCTIONS[name])
    return unknown(OURS)(name)


def _file(home):
    return "_objects" if home == "objects" else home


def _keep(name, found):
    setattr(sys.modules[OURS], name, found)
    return found
