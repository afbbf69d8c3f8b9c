"""Metrics and averages, with the numbers of Fluid 1.8.5."""

import numpy as np
import pytest

import paddlewheel.fluid as fluid
from paddlewheel.fluid import metrics


def test_accuracy_is_a_weighted_mean():
    accuracy = metrics.Accuracy()
    with pytest.raises(ValueError, match="There is no data in Accuracy"):
        accuracy.eval()
    accuracy.update(value=np.array([0.5]), weight=2)
    accuracy.update(1.0, np.array([2]))
    assert accuracy.eval() == [0.75] and isinstance(accuracy.eval(), np.ndarray)
    assert accuracy.get_config() == {"name": "Accuracy", "states": {"value": [3.0], "weight": 4.0}}
    assert "%.2f" % float(accuracy.eval()[0]) == "0.75" and str(accuracy) == "Accuracy"
    accuracy.reset()
    accuracy.update(0.25, 1)
    assert accuracy.eval() == 0.25


@pytest.mark.parametrize("value, weight", [("a", 1), ([0.5], 1), (0.5, "a"), (0.5, -1), (None, 1)])
def test_accuracy_refuses(value, weight):
    with pytest.raises(ValueError):
        metrics.Accuracy().update(value, weight)


def test_precision_and_recall():
    preds = np.array([[0.9], [0.2], [0.8]])
    labels = np.array([[1], [1], [0]])
    precision, recall = metrics.Precision(), metrics.Recall("r")
    assert (precision.eval(), recall.eval(), str(recall)) == (0.0, 0.0, "r")
    both = metrics.CompositeMetric()
    both.add_metric(precision)
    both.add_metric(recall)
    both.update(preds, labels)
    assert both.eval() == [0.5, 0.5]
    assert (precision.tp, precision.fp, recall.tp, recall.fn) == (1, 1, 1, 1)
    both.reset()
    assert both.eval() == [0.0, 0.0]
    with pytest.raises(ValueError, match="inherit from MetricBase"):
        both.add_metric(3)
    with pytest.raises(ValueError, match="'preds' must be a numpy ndarray"):
        precision.update([0.1], labels)
    with pytest.raises(ValueError, match="'labels' must be a numpy ndarray"):
        precision.update(preds, [1])
    with pytest.raises(ValueError, match="preds has 1 elements"):
        precision.update(preds[:1], labels)


def test_auc():
    auc = metrics.Auc("auc")
    assert auc.eval() == 0.0
    preds = np.array([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]])
    auc.update(preds=preds, labels=np.array([[0], [0], [1], [1]]))
    assert auc.eval() == 0.75
    assert len(auc._stat_pos) == 4096 and sum(auc._stat_neg) == 2
    auc.reset()
    assert auc.eval() == 0.0
    auc.update(preds.astype("float32"), np.array([0, 0, 1, 1]))
    assert auc.eval() == 0.75


def test_auc_refuses():
    auc, labels = metrics.Auc("auc", num_thresholds=200), np.array([1])
    for preds, error in [
        ([[0.1, 0.9]], ValueError),
        (np.array([[0.0, 1.5]]), AssertionError),
        (np.array([[0.0, -0.5]]), ValueError),
        (np.array([[0.0, np.nan]]), ValueError),
        (np.array([[0.5]]), IndexError),
        (np.array([0.5]), IndexError),
    ]:
        with pytest.raises(error):
            auc.update(preds, labels)
    with pytest.raises(TypeError, match="name"):
        metrics.Auc()


def test_chunks_and_edit_distance():
    chunks = metrics.ChunkEvaluator()
    assert chunks.eval() == (0, 0, 0)
    chunks.update(10, np.array([8]), 6)
    assert chunks.eval() == (0.6, 0.75, pytest.approx(2 / 3))
    with pytest.raises(ValueError, match="num_infer_chunks"):
        chunks.update("a", 1, 1)
    distance = metrics.EditDistance("d")
    with pytest.raises(ValueError, match="There is no data in EditDistance"):
        distance.eval()
    distance.update(np.array([[1.0], [0.0], [2.0]]), np.array([3]))
    assert distance.eval() == (1.0, pytest.approx(2 / 3))
    with pytest.raises(ValueError, match="distances"):
        distance.update([1.0], 1)


def test_own_metrics_may_be_made():
    class Count(metrics.MetricBase):
        def __init__(self):
            super().__init__(None)
            self.seen, self.total, self.rows = 0, 0.0, np.ones(2)

        def update(self, preds, labels):
            self.seen += len(preds)

        def eval(self):
            return self.seen

    count = Count()
    count.update([1, 2], None)
    assert count.get_config()["states"]["seen"] == 2
    count.reset()
    assert (count.eval(), count.total, count.rows.tolist()) == (0, 0.0, [0.0, 0.0])
    with pytest.raises(NotImplementedError):
        metrics.MetricBase("m").update(1, 2)


def test_weighted_average():
    average = fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="no data to be averaged"):
        average.eval()
    average.add(2, 1)
    average.add(3, 1)
    assert average.eval() == 2.5
    average.reset()
    average.add(np.array([[1.0, 2.0]]), 1)
    average.add(np.array([[3.0, 4.0]]), 3)
    np.testing.assert_array_equal(average.eval(), [[2.5, 3.5]])
    for value, weight in [("a", 1), (1.0, "a"), (np.ones(3), 1)]:
        with pytest.raises(ValueError):
            average.add(value, weight)
    average.reset()
    average.add(1.0, 0)
    with pytest.raises(ZeroDivisionError):
        average.eval()
