"""The description of a dataset's slots, from a file of protobuf text."""

from .._core import DataFeedDesc
