"""Figures of quality."""

from .static.metric import accuracy as _accuracy


def accuracy(input, label, k=1, correct=None, total=None, name=None):
    """The share of rows whose label is among the k best classes."""
    return _accuracy(input, label, k, correct, total)


def _refused(name):
    from .fluid._not_yet import not_yet_class

    return not_yet_class("paddle.metric." + name, "paddle.fluid.metrics has classes that count what runs fetched")


Accuracy, Auc, Precision, Recall, Metric = map(_refused, "Accuracy Auc Precision Recall Metric".split())
