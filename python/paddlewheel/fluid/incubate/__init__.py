"""Fluid's newer parts: fleet and data generators."""

from . import data_generator, fleet
