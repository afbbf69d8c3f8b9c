"""Layers on trial of version 2."""

from . import layers
