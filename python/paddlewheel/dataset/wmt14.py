"""Sentences in French and English. This version does not read them."""

from . import common

URLS = ("http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz",)


def train(dict_size):
    """A reader of the training set."""
    raise common.unsupported("wmt14", "wmt14", *URLS)


def test(dict_size):
    """A reader of the test set."""
    raise common.unsupported("wmt14", "wmt14", *URLS)


def gen(dict_size):
    """A reader of the set for generating."""
    raise common.unsupported("wmt14", "wmt14", *URLS)


def get_dict(dict_size, reverse=True):
    """The numbers of words."""
    raise common.unsupported("wmt14", "wmt14", *URLS)


def fetch():
    """Gets the files."""
    raise common.unsupported("wmt14", "wmt14", *URLS)
