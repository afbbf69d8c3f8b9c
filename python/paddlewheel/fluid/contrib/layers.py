"""Layers that Fluid keeps apart."""

from ... import _core
from .. import layers
from ..layer_helper import LayerHelper

shuffle_batch = _core.layers.shuffle_batch
tdm_child = _core.layers.tdm_child
tdm_sampler = _core.layers.tdm_sampler


def _running_sum(helper, values):
    """A variable that grows by the sum of these values with each batch."""
    batch = layers.reduce_sum(values, dim=0)
    total = layers.create_global_var(shape=[1], value=0.0, dtype="float32", persistable=True)
    helper.append_op(
        type="elementwise_add", inputs={"X": [batch], "Y": [total]}, outputs={"Out": [total]}
    )
    return total


def ctr_metric_bundle(input, label):
    """Sums over all batches for the quality of a click-through model.

    Returns six variables: squared errors, absolute errors, predictions, their sigmoids, labels,
    and the number of examples. Both inputs are float32 of shape [N, 1].
    """
    assert input.shape == label.shape
    helper = LayerHelper("ctr_metric_bundle")
    error = layers.elementwise_sub(input, label)
    ones = layers.fill_constant_batch_size_like(label, shape=[-1, 1], dtype="float32", value=1.0)
    parts = [layers.square(error), layers.abs(error), input, layers.sigmoid(input), label, ones]
    return tuple(_running_sum(helper, part) for part in parts)
