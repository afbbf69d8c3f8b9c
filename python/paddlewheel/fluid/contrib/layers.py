"""Layers that Fluid keeps apart."""

from ... import _core
from .. import layers
from ..entry_attr import EntryAttr
from .._not_yet import not_yet_function as _refused
from ..layer_helper import LayerHelper
from ._basic_rnn import BasicGRUUnit, BasicLSTMUnit, basic_gru, basic_lstm

fused_elemwise_activation = _core.layers.fused_elemwise_activation
fused_embedding_seq_pool = _core.layers.fused_embedding_seq_pool
match_matrix_tensor = _core.layers.match_matrix_tensor
partial_concat = _core.layers.partial_concat
partial_sum = _core.layers.partial_sum
search_pyramid_hash = _core.layers.search_pyramid_hash
sequence_topk_avg_pooling = _core.layers.sequence_topk_avg_pooling
shuffle_batch = _core.layers.shuffle_batch
tdm_child = _core.layers.tdm_child
tdm_sampler = _core.layers.tdm_sampler
tree_conv = _core.layers.tree_conv
var_conv_2d = _core.layers.var_conv_2d
rank_attention = _refused(
    "fluid.contrib.layers.rank_attention",
    "its operator runs on graphics cards alone, in Fluid too",
)


def sparse_embedding(
    input, size, padding_idx=None, is_test=False, entry=None, param_attr=None, dtype="float32"
):
    """Rows of a table that servers make when they are first used; ids end in a dimension of 1.

    Every optimizer and every mode works as for ``embedding(is_sparse=True)``, and ``size``
    may be as high as ids get: only rows that were used cost memory. ``[2**63 - 1, width]`` has a row
    for each id of 64 bits; an id beyond a lower height is an error.

    Args:
        entry: which rows servers take in, ``CountFilterEntry`` or ``ProbabilityEntry``. The others
            read as zeros and do not learn. Without servers all take part.
        is_test: rows that do not exist read as zeros and are not made.
    """
    if entry is not None and not isinstance(entry, EntryAttr):
        raise ValueError(
            "entry must be instance in [paddle.distributed.ProbabilityEntry, "
            "paddle.distributed.CountFilterEntry]"
        )
    entry = entry and entry._to_attr()
    return _core.layers.sparse_embedding(
        input, size, padding_idx, is_test, entry, param_attr, dtype
    )


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
