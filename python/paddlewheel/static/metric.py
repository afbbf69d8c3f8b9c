"""Figures of quality that the program itself computes."""

from ..fluid import layers
from ..fluid.contrib.layers import ctr_metric_bundle as _bundle
from ..tensor.search import topk


def accuracy(input, label, k=1, correct=None, total=None):
    """The share of rows whose label is among the k best classes."""
    return layers.accuracy(input, label, k, correct, total)


def auc(input, label, curve="ROC", num_thresholds=2**12 - 1, topk=1, slide_steps=1, ins_tag_weight=None):
    """The area under the curve: over all batches, over the last ones, and the histograms it is read from."""
    if ins_tag_weight is not None:
        raise NotImplementedError("auc takes no ins_tag_weight here")
    return layers.auc(input, label, curve, num_thresholds, topk, slide_steps)


def ctr_metric_bundle(input, label, ins_tag_weight=None):
    """Sums that figures of a click-through model are computed from."""
    if ins_tag_weight is not None:
        raise NotImplementedError("ctr_metric_bundle takes no ins_tag_weight here")
    return _bundle(input, label)
