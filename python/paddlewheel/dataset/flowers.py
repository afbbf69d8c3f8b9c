"""Photographs of flowers in 102 classes. This version does not read them."""

from . import common

URLS = (
    "http://paddlemodels.bj.bcebos.com/flowers/102flowers.tgz",
    "http://paddlemodels.bj.bcebos.com/flowers/imagelabels.mat",
    "http://paddlemodels.bj.bcebos.com/flowers/setid.mat",
)


def train(mapper=None, buffered_size=1024, use_xmap=True, cycle=False):
    """A reader of the training set."""
    raise common.unsupported("flowers", "flowers", *URLS)


def test(mapper=None, buffered_size=1024, use_xmap=True, cycle=False):
    """A reader of the test set."""
    raise common.unsupported("flowers", "flowers", *URLS)


def valid(mapper=None, buffered_size=1024, use_xmap=True):
    """A reader of the validation set."""
    raise common.unsupported("flowers", "flowers", *URLS)


def fetch():
    """Gets the files."""
    raise common.unsupported("flowers", "flowers", *URLS)
