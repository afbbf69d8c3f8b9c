"""Sentences in German and English. This version does not read them."""

from . import common

URLS = ("http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz",)


def train(src_dict_size, trg_dict_size, src_lang="en"):
    """A reader of the training set."""
    raise common.unsupported("wmt16", "wmt16", *URLS)


def test(src_dict_size, trg_dict_size, src_lang="en"):
    """A reader of the test set."""
    raise common.unsupported("wmt16", "wmt16", *URLS)


def validation(src_dict_size, trg_dict_size, src_lang="en"):
    """A reader of the validation set."""
    raise common.unsupported("wmt16", "wmt16", *URLS)


def get_dict(lang, dict_size, reverse=False):
    """The numbers of words."""
    raise common.unsupported("wmt16", "wmt16", *URLS)


def fetch():
    """Gets the files."""
    raise common.unsupported("wmt16", "wmt16", *URLS)
