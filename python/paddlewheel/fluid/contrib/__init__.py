"""Fluid's tools around training."""

from . import layers, trainer, utils
from .layers import (
    ctr_metric_bundle,
    fused_elemwise_activation,
    fused_embedding_seq_pool,
    match_matrix_tensor,
    partial_concat,
    partial_sum,
    rank_attention,
    search_pyramid_hash,
    sequence_topk_avg_pooling,
    shuffle_batch,
    sparse_embedding,
    tdm_child,
    tdm_sampler,
    tree_conv,
    var_conv_2d,
)
from .memory_usage_calc import memory_usage
from .op_frequence import op_freq_statistic
from .trainer import CheckpointConfig, Inferencer, Trainer
from .utils import (
    HDFSClient,
    convert_dist_to_sparse_program,
    load_persistables_for_increment,
    load_persistables_for_inference,
    multi_download,
    multi_upload,
)
from .._not_yet import unknown

__getattr__ = unknown(__name__)
