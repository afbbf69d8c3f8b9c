"""Hand-written digits: 60000 to train, 10000 to test, 28 x 28 pixels from -1 to 1."""

import gzip

import numpy

from . import common

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

IMAGES_MAGIC = 2051
LABELS_MAGIC = 2049


def read_idx(filename, magic):
    """The array of an IDX file of bytes."""
    with gzip.open(filename, "rb") as file:
        content = file.read()
    if len(content) < 4 or int.from_bytes(content[:4], "big") != magic:
        raise ValueError("{} is not an IDX file of the right kind".format(filename))
    rank = content[3]
    dims = numpy.frombuffer(content, ">i4", rank, 4)
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * rank).reshape(dims)


def reader_creator(image_filename, label_filename, buffer_size):
    """A reader of (784 pixels, label)."""

    def reader():
        images = read_idx(image_filename, IMAGES_MAGIC)
        labels = read_idx(label_filename, LABELS_MAGIC)
        if len(images) != len(labels):
            text = "{} has {} images, {} has {} labels"
            sizes = (image_filename, len(images), label_filename, len(labels))
            raise ValueError(text.format(*sizes))
        for start in range(0, len(images), buffer_size):
            piece = images[start:start + buffer_size].reshape(-1, 784).astype("float32")
            piece = piece / 255.0 * 2.0 - 1.0
            for pixels, label in zip(piece, labels[start:start + buffer_size]):
                yield pixels, int(label)

    return reader


def train():
    """A reader of the training set."""
    images = common.download(TRAIN_IMAGE_URL, "mnist", TRAIN_IMAGE_MD5)
    labels = common.download(TRAIN_LABEL_URL, "mnist", TRAIN_LABEL_MD5)
    return reader_creator(images, labels, 100)


def test():
    """A reader of the test set."""
    images = common.download(TEST_IMAGE_URL, "mnist", TEST_IMAGE_MD5)
    labels = common.download(TEST_LABEL_URL, "mnist", TEST_LABEL_MD5)
    return reader_creator(images, labels, 100)


def fetch():
    """Gets the files."""
    train()
    test()
