"""Readers: functions without arguments that return an iterator over samples; and what makes new
readers of them."""

from . import creator
from .decorator import (
    ComposeNotAligned,
    Fake,
    PipeReader,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
