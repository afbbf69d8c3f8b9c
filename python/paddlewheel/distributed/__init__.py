"""Starts training on several machines."""

import os

from ..fluid._not_yet import unknown
from ..fluid.entry_attr import CountFilterEntry, ProbabilityEntry, ShowClickEntry
from . import fleet
from .fleet.dataset import InMemoryDataset, QueueDataset


def get_rank(group=None):
    """Which trainer this is."""
    return int(os.environ.get("PADDLE_TRAINER_ID", "0"))


def get_world_size(group=None):
    """How many trainers there are."""
    return int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))


class ParallelEnv:
    """Which trainer this is, and how many there are."""

    @property
    def rank(self):
        """Which trainer this is."""
        return get_rank()

    local_rank = rank

    @property
    def world_size(self):
        """How many trainers there are."""
        return get_world_size()

    nranks = world_size


__getattr__ = unknown(__name__)
