"""Documents ranked for queries. This version does not read them."""

from . import common

URLS = (
    "http://www.bigdatalab.ac.cn/benchmark/upload/download_source"
    "/7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar",
)


def train(format="pairwise", shuffle=False, fill_missing=-1):
    """A reader of the training set."""
    raise common.unsupported("mq2007", "MQ2007", *URLS)


def test(format="pairwise", shuffle=False, fill_missing=-1):
    """A reader of the test set."""
    raise common.unsupported("mq2007", "MQ2007", *URLS)


def fetch():
    """Gets the files."""
    raise common.unsupported("mq2007", "MQ2007", *URLS)
