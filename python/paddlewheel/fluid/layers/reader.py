"""Readers as part of a program."""

from .. import unique_name
from ..framework import default_main_program
from ..reader import PyReader


def py_reader(capacity, shapes, dtypes, lod_levels=None, name=None, use_double_buffer=True):
    """A reader that feeds variables of these shapes; `read_file` gives the variables."""
    levels = [0] * len(shapes) if lod_levels is None else lod_levels
    if not len(shapes) == len(dtypes) == len(levels):
        raise ValueError("shapes, dtypes and lod_levels must have the same length")
    block = default_main_program().global_block()
    base = unique_name.generate("read_file") if name is None else name
    variables = [
        block.create_var(
            name=unique_name.generate(base + ".tmp"),
            shape=list(shape),
            dtype=dtype,
            lod_level=level,
            stop_gradient=True,
            is_data=True,
        )
        for shape, dtype, level in zip(shapes, dtypes, levels)
    ]
    return PyReader(variables, capacity, use_double_buffer, iterable=False)


def create_py_reader_by_data(capacity, feed_list, name=None, use_double_buffer=True):
    """A reader that feeds variables that are there."""
    return PyReader(feed_list, capacity, use_double_buffer, iterable=False)


def read_file(reader):
    """The variables that a reader feeds: one, or a list."""
    variables = reader._feed_list
    return variables[0] if len(variables) == 1 else list(variables)


def double_buffer(reader, place=None, name=None):
    """The reader itself: readers always read ahead."""
    return reader
