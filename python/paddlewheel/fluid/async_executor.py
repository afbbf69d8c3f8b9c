"""The oldest way to train on files; Fluid 1.8 has it no more."""

from ._not_yet import DATASETS, not_yet_class

AsyncExecutor = not_yet_class("AsyncExecutor", DATASETS)
