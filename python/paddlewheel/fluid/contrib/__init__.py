"""Fluid's tools around training."""

from . import layers, trainer, utils
from .layers import ctr_metric_bundle, shuffle_batch, sparse_embedding, tdm_child, tdm_sampler
from .trainer import CheckpointConfig, Inferencer, Trainer
from .utils import HDFSClient
