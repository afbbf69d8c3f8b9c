"""Tensors that hold sequences."""

from .._core import create_lod_tensor, create_random_int_lodtensor
