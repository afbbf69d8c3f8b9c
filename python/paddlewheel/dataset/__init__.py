"""Well-known datasets, read from `~/.cache/paddle/dataset` or `PADDLE_DATASET_HOME`."""

import importlib

from .. import _core

__all__ = [
    "cifar",
    "common",
    "conll05",
    "flowers",
    "imdb",
    "imikolov",
    "mnist",
    "movielens",
    "mq2007",
    "sentiment",
    "synthetic",
    "uci_housing",
    "wmt14",
    "wmt16",
]


def __getattr__(name):
    """Loads a dataset when it is first named: a server needs none of what they import."""
    if name not in __all__:
        raise AttributeError(_core.no_such_name("paddle.dataset", name, __all__))
    return importlib.import_module("." + name, __name__)


def __dir__():
    return __all__
