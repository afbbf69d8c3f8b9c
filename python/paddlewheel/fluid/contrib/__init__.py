"""Fluid's tools around training."""

from . import layers, trainer
from .trainer import CheckpointConfig, Inferencer, Trainer
