"""Layers on trial."""

from ..fluid._not_yet import not_yet_function
from ..fluid.contrib.layers import shuffle_batch

fused_seqpool_cvm = not_yet_function(
    "paddle.incubate.layers.fused_seqpool_cvm", "use static.nn.sequence_pool and static.nn.continuous_value_model"
)
