"""Starts training on several machines."""

from . import fleet
