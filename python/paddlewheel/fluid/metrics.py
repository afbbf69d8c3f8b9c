"""Figures of quality, collected over batches outside of a program."""

import numpy

from .. import _core
from ._not_yet import unknown


class MetricBase:
    """A figure that is collected over batches. States of a subclass are its public attributes."""

    #: States that are properties.
    _states = ()

    def __init__(self, name):
        self._name = str(name) if name is not None else self.__class__.__name__

    def __str__(self):
        return self._name

    def _public(self):
        names = [name for name in self.__dict__ if not name.startswith("_")]
        return names + list(self._states)

    def reset(self):
        """Back to zero."""
        for name in self._public():
            value = getattr(self, name)
            if isinstance(value, (int, float)):
                setattr(self, name, type(value)(0))
            elif isinstance(value, (numpy.ndarray, numpy.generic)):
                setattr(self, name, numpy.zeros_like(value))
            else:
                setattr(self, name, None)

    def get_config(self):
        """The name and the states."""
        return {"name": self._name, "states": {name: getattr(self, name) for name in self._public()}}

    def update(self, preds, labels):
        """Adds a batch."""
        raise NotImplementedError("Should not use it directly, please extend it.")

    def eval(self):
        """The figure so far."""
        raise NotImplementedError("Should not use it directly, please extend it.")


class CompositeMetric(MetricBase):
    """Several metrics that get the same batches."""

    def __init__(self, name=None):
        super().__init__(name)
        self._metrics = []

    def add_metric(self, metric):
        """Adds a metric."""
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def update(self, preds, labels):
        """Adds a batch to each."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def reset(self):
        """Each back to zero."""
        for metric in self._metrics:
            metric.reset()

    def eval(self):
        """A list with the figure of each."""
        return [metric.eval() for metric in self._metrics]


class _Counted(MetricBase):
    """A metric whose states are in the core."""

    def reset(self):
        """Back to zero."""
        self._core.reset()


class _Answers(_Counted):
    def __init__(self, name=None):
        super().__init__(name)
        self._core = _core.metrics.Answers()

    def update(self, preds, labels):
        """Adds predictions (above one half means yes) and labels (1 means yes)."""
        self._core.update(preds, labels)

    tp = property(lambda self: self._core.tp, doc="Said yes, and it was.")


class Precision(_Answers):
    """The share of positive predictions that are right."""

    _states = ("tp", "fp")
    fp = property(lambda self: self._core.fp, doc="Said yes, but it was not.")

    def eval(self):
        """The precision so far."""
        return self._core.precision()


class Recall(_Answers):
    """The share of positive samples that are predicted so."""

    _states = ("tp", "fn")
    fn = property(lambda self: self._core.fn, doc="Said no, but it was.")

    def eval(self):
        """The recall so far."""
        return self._core.recall()


class Accuracy(_Counted):
    """The mean of the accuracies of batches, by their sizes."""

    _states = ("value", "weight")
    value = property(lambda self: self._core.sum, doc="The sum of accuracy times size.")
    weight = property(lambda self: self._core.weight, doc="The sum of the sizes.")

    def __init__(self, name=None):
        super().__init__(name)
        self._core = _core.metrics.WeightedMean()

    def update(self, value, weight):
        """Adds the accuracy of a batch of size `weight`."""
        self._core.add_positive(value, weight)

    def eval(self):
        """The accuracy so far."""
        if not self._core.weight:
            raise ValueError(
                "There is no data in Accuracy Metrics. "
                "Please check layers.accuracy output has added to Accuracy."
            )
        return self._core.mean()


class ChunkEvaluator(_Counted):
    """Precision, recall and F1 of chunks."""

    _states = ("num_infer_chunks", "num_label_chunks", "num_correct_chunks")
    num_infer_chunks = property(lambda self: self._core.counts()[0], doc="Predicted.")
    num_label_chunks = property(lambda self: self._core.counts()[1], doc="In the labels.")
    num_correct_chunks = property(lambda self: self._core.counts()[2], doc="Both.")

    def __init__(self, name=None):
        super().__init__(name)
        self._core = _core.metrics.Chunks()

    def update(self, num_infer_chunks, num_label_chunks, num_correct_chunks):
        """Adds the counts of a batch."""
        self._core.update(num_infer_chunks, num_label_chunks, num_correct_chunks)

    def eval(self):
        """Precision, recall, F1."""
        return self._core.scores()


class EditDistance(_Counted):
    """The mean edit distance, and the share of sequences that are not right."""

    _states = ("total_distance", "seq_num", "instance_error")
    total_distance = property(lambda self: self._core.counts()[0], doc="The sum of distances.")
    seq_num = property(lambda self: self._core.counts()[1], doc="How many sequences.")
    instance_error = property(lambda self: self._core.counts()[2], doc="How many wrong ones.")

    def __init__(self, name):
        super().__init__(name)
        self._core = _core.metrics.EditDistances()

    def update(self, distances, seq_num):
        """Adds the distances of `seq_num` sequences."""
        self._core.update(distances, seq_num)

    def eval(self):
        """The mean distance and the share of wrong sequences."""
        scores = self._core.scores()
        if scores is None:
            raise ValueError(
                "There is no data in EditDistance Metric. "
                "Please check layers.edit_distance output has been added to EditDistance."
            )
        return scores


class Auc(_Counted):
    """The area under the ROC curve."""

    _stat_pos = property(lambda self: self._core.stat_pos, doc="Positives in each bucket.")
    _stat_neg = property(lambda self: self._core.stat_neg, doc="Negatives in each bucket.")

    def __init__(self, name, curve="ROC", num_thresholds=4095):
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._core = _core.metrics.Auc(num_thresholds)

    def update(self, preds, labels):
        """Adds probabilities, shape [N, 2], and labels, 0 or 1."""
        self._core.update(preds, labels)

    def eval(self):
        """The area so far; 0.0 while there is only one class."""
        return self._core.area()


class DetectionMAP:
    """The mean average precision of detections: not supported."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("DetectionMAP is not supported: there are no detection operators")


__getattr__ = unknown(__name__)
