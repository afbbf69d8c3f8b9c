"""Fluid's newer parts: fleet and data generators."""
