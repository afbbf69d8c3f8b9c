"""Inputs in the newer form: ids without a last dimension of one."""

from . import layers
