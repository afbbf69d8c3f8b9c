"""Sentences with the roles of their parts. This version does not read them."""

from . import common

URLS = ("http://paddlemodels.bj.bcebos.com/conll05st/conll05st-tests.tar.gz",)


def get_dict():
    """The numbers of words."""
    raise common.unsupported("conll05", "conll05st", *URLS)


def get_embedding():
    """Trained vectors of words."""
    raise common.unsupported("conll05", "conll05st", *URLS)


def test():
    """A reader of the test set."""
    raise common.unsupported("conll05", "conll05st", *URLS)


def fetch():
    """Gets the files."""
    raise common.unsupported("conll05", "conll05st", *URLS)
