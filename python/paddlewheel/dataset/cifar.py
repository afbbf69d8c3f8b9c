"""Small coloured pictures in 10 or 100 classes, in the layout of `cifar-10-python.tar.gz`."""

import itertools
import pickle
import tarfile

import numpy

from . import common

URL_PREFIX = "https://dataset.bj.bcebos.com/cifar/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"


def reader_creator(filename, sub_name, cycle=False):
    """A reader of (3072 numbers from 0 to 1, label)."""

    def one_pass():
        with tarfile.open(filename) as archive:
            for name in archive.getnames():
                if sub_name not in name:
                    continue
                batch = pickle.load(archive.extractfile(name), encoding="bytes")
                labels = batch.get(b"labels", batch.get(b"fine_labels"))
                assert labels is not None
                for pixels, label in zip(batch[b"data"], labels):
                    yield (pixels / 255.0).astype(numpy.float32), int(label)

    def reader():
        passes = itertools.count() if cycle else range(1)
        return itertools.chain.from_iterable(one_pass() for _ in passes)

    return reader


def train100():
    """A reader of the training set with 100 classes."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "train")


def test100():
    """A reader of the test set with 100 classes."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "test")


def train10(cycle=False):
    """A reader of the training set with 10 classes."""
    path = common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)
    return reader_creator(path, "data_batch", cycle)


def test10(cycle=False):
    """A reader of the test set with 10 classes."""
    path = common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)
    return reader_creator(path, "test_batch", cycle)


def fetch():
    """Gets the files."""
    common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)
    common.download(CIFAR100_URL, "cifar", CIFAR100_MD5)
