"""Prices of houses in Boston, shipped with this package: 13 features, 506 rows."""

import os

import numpy

from . import common

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
feature_names = [
    "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B",
    "LSTAT",
]

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "housing.data")

UCI_TRAIN_DATA = None
UCI_TEST_DATA = None


def load_data(filename, feature_num=14, ratio=0.8):
    """Reads a file: features as distance from the mean in units of their range; the first rows
    are for training."""
    global UCI_TRAIN_DATA, UCI_TEST_DATA
    if UCI_TRAIN_DATA is not None and UCI_TEST_DATA is not None:
        return
    data = numpy.fromfile(filename, sep=" ").reshape(-1, feature_num)
    features = data[:, :-1]
    ranges = features.max(axis=0) - features.min(axis=0)
    data[:, :-1] = (features - features.mean(axis=0)) / ranges
    offset = int(data.shape[0] * ratio)
    UCI_TRAIN_DATA, UCI_TEST_DATA = data[:offset], data[offset:]


def train():
    """A reader of 404 samples: features, price."""
    load_data(SHIPPED)
    return lambda: ((row[:-1], row[-1:]) for row in UCI_TRAIN_DATA)


def test():
    """A reader of 102 samples: features, price."""
    load_data(SHIPPED)
    return lambda: ((row[:-1], row[-1:]) for row in UCI_TEST_DATA)


def predict_reader():
    """A reader of the features for a prediction."""
    load_data(SHIPPED)
    return lambda: iter([(UCI_TEST_DATA[:, :-1],)])


def fluid_model():
    """A trained model is not shipped."""
    raise common.unsupported("uci_housing", "uci_housing", URL)


def fetch():
    """The file is shipped."""
