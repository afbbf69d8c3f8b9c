"""Saves and loads objects; seeds; calls of dynamic graphs, which say what is there instead."""

import pickle

import numpy

from .fluid._not_yet import not_yet_function
from .fluid.framework import default_main_program, default_startup_program

PLAIN = (dict, list, tuple, set, str, bytes, int, float, bool, type(None), numpy.ndarray, numpy.generic)
DYNAMIC = "it belongs to dynamic graphs: build a program and run it with paddle.static.Executor"

summary = not_yet_function("paddle.summary", DYNAMIC)
grad = not_yet_function("paddle.grad", "use paddle.static.gradients")
no_grad = not_yet_function("paddle.no_grad", DYNAMIC + "; set stop_gradient on variables")
get_rng_state = not_yet_function("paddle.get_rng_state", "set the seed of a Program: program.random_seed")


def seed(seed):
    """Random operators of the current programs begin with this seed."""
    default_main_program().random_seed = int(seed)
    default_startup_program().random_seed = int(seed)


def save(obj, path, protocol=4, **configs):
    """Writes numbers, texts, arrays, and lists and dicts of them."""
    if protocol not in (2, 3, 4):
        raise ValueError("Expected 1<'protocol'<5, but received protocol={}".format(protocol))
    _check(obj)
    with open(path, "wb") as out:
        pickle.dump(obj, out, protocol)


def _check(obj):
    if not isinstance(obj, PLAIN):
        raise NotImplementedError(
            "paddle.save writes numbers, texts and arrays, and lists and dicts of them, not {}: save the "
            "parameters of a program with paddle.static.save".format(type(obj).__name__)
        )
    for inner in obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple, set)) else ():
        _check(inner)


class _Unpickler(pickle.Unpickler):
    """Makes arrays and plain objects, and calls nothing else that a file names."""

    KNOWN = {
        ("numpy", "ndarray"), ("numpy", "dtype"), ("collections", "OrderedDict"), ("_codecs", "encode"),
        ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar"),
    }

    def find_class(self, module, name):
        if (module, name) not in self.KNOWN:
            raise pickle.UnpicklingError("a file of paddle.save has no {}.{}".format(module, name))
        return super().find_class(module, name)


def load(path, **configs):
    """Reads what `save` wrote; of parameters, arrays by name."""
    with open(path, "rb") as file:
        return _Unpickler(file, encoding="latin1").load()
