"""Layers that make their parameters where they are called."""

from ..fluid import layers as _fluid
from ..fluid._not_yet import unknown
from ..fluid.contrib import layers as _contrib
from ..fluid.entry_attr import ShowClickEntry
from ..distributed.fleet.strategy import say_once
from ..fluid.layers import (
    case,
    cond,
    continuous_value_model,
    data_norm,
    layer_norm,
    prelu,
    sequence_concat,
    sequence_conv,
    sequence_enumerate,
    sequence_expand,
    sequence_expand_as,
    sequence_first_step,
    sequence_last_step,
    sequence_pad,
    sequence_pool,
    sequence_reshape,
    sequence_reverse,
    sequence_scatter,
    sequence_slice,
    sequence_softmax,
    sequence_unpad,
    switch_case,
    while_loop,
)


#: The height of a table that has a row for each number of 64 bits.
ALL_IDS = 2**63 - 1


def fc(x, size, num_flatten_dims=1, weight_attr=None, bias_attr=None, activation=None, name=None):
    """x weight + bias, through an activation."""
    rank = len((x[0] if isinstance(x, (list, tuple)) else x).shape)
    dims = num_flatten_dims if num_flatten_dims >= 0 else rank + num_flatten_dims
    return _fluid.fc(x, size, dims, param_attr=weight_attr, bias_attr=bias_attr, act=activation, name=name)


def embedding(input, size, is_sparse=False, is_distributed=False, padding_idx=None, param_attr=None, dtype="float32"):
    """Rows of a table for ids of any shape."""
    return _fluid.embedding_v2(input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


def sparse_embedding(
    input, size, padding_idx=None, is_test=False, entry=None, table_class="MemorySparseTable", param_attr=None,
    dtype="float32", slot=None,
):
    """Rows of a table that servers make when they are first used. Ids end in a dimension of 1; each number of
    64 bits is one, whatever `size[0]` is."""
    if table_class not in ("MemorySparseTable", "CommonSparseTable"):
        raise NotImplementedError("tables lie in memory here: table_class {} is not supported".format(table_class))
    if isinstance(entry, ShowClickEntry):
        say_once(
            "ShowClickEntry: servers keep rows whatever their shows and clicks are; CountFilterEntry and "
            "ProbabilityEntry choose rows"
        )
        entry = None
    return _contrib.sparse_embedding(input, [ALL_IDS, size[1]], padding_idx, is_test, entry, param_attr, dtype)


def batch_norm(
    input, act=None, is_test=False, momentum=0.9, epsilon=1e-05, param_attr=None, bias_attr=None, data_layout="NCHW",
    in_place=False, name=None, moving_mean_name=None, moving_variance_name=None,
    do_model_average_for_mean_and_var=True, use_global_stats=False,
):
    """Each channel with mean 0 and variance 1 over the batch, then scaled and shifted."""
    return _fluid.batch_norm(
        input, act, is_test, momentum, epsilon, param_attr, bias_attr, data_layout, in_place, name, moving_mean_name,
        moving_variance_name, do_model_average_for_mean_and_var, use_global_stats,
    )


def conv2d(
    input, num_filters, filter_size, stride=1, padding=0, dilation=1, groups=None, param_attr=None, bias_attr=None,
    use_cudnn=True, act=None, name=None, data_format="NCHW",
):
    """Filters slid over images."""
    return _fluid.conv2d(
        input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, use_cudnn, act,
        name, data_format,
    )


def py_func(func, x, out, backward_func=None, skip_vars_in_backward_input=None):
    """A function of Python in a program."""
    return _fluid.py_func(func, x, out, backward_func, skip_vars_in_backward_input)


def __getattr__(name):
    """Layers that `fluid.layers` has under the same name."""
    if name in ("nce", "row_conv", "spectral_norm", "group_norm", "instance_norm", "bilinear_tensor_product", "crf_decoding", "conv2d_transpose", "conv3d", "conv3d_transpose", "StaticRNN"):
        return getattr(_fluid, name)
    return unknown(__name__)(name)
