"""Layers: each adds operators, and parameters if it has any, to the current program."""

from ... import _core

#: Layers that Fluid keeps in `fluid.contrib.layers` alone.
_APART = frozenset(
    "fused_elemwise_activation fused_embedding_seq_pool match_matrix_tensor partial_concat partial_sum "
    "search_pyramid_hash sequence_topk_avg_pooling tree_conv var_conv_2d".split()
)
globals().update({name: item for name, item in vars(_core.layers).items() if name[0] != "_" and name not in _APART})

from ..framework import Variable
from . import collective, utils
from ._cells import GRUCell, LSTMCell, RNNCell, rnn
from ._decoding import (
    BasicDecoder,
    BeamSearchDecoder,
    DecodeHelper,
    Decoder,
    GreedyEmbeddingHelper,
    SampleEmbeddingHelper,
    TrainingHelper,
    dynamic_decode,
)
from ._dynamic_rnn import DynamicRNN
from ._distributions import Categorical, Distribution, MultivariateNormalDiag, Normal, Uniform
from .py_func import PyFuncRegistry, py_func
from .reader import create_py_reader_by_data, double_buffer, py_reader, read_file
from .._modules import make as _make
from .._not_yet import not_yet_function as _refused
from .._not_yet import unknown
from ._table import MODULES as _MODULES

lstm = _refused(
    "fluid.layers.lstm", "its operator runs on graphics cards alone, in Fluid too; use dynamic_lstm"
)

_make(__name__, _MODULES, "fluid.layers")

__getattr__ = unknown(__name__)
