"""The oldest way to train on files."""

from ._not_yet import DATASETS, not_yet_class

AsyncExecutor = not_yet_class("AsyncExecutor", DATASETS)
