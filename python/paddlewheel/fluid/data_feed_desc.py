"""The description of a dataset's slots."""

from ._not_yet import DATASETS, not_yet_class

DataFeedDesc = not_yet_class("DataFeedDesc", DATASETS)
