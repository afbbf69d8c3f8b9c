"""Fluid's tools around training."""

from . import trainer
from .trainer import CheckpointConfig, Inferencer, Trainer
