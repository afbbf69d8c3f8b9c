"""Starts training on several machines."""

from ..fluid.entry_attr import CountFilterEntry, ProbabilityEntry
from . import fleet
