"""The older way to predict."""

from .trainer import Inferencer
