"""Readers of arrays and text files."""


def np_array(x):
    """A reader of the rows of an array."""

    def reader():
        if x.ndim < 1:
            yield x
        else:
            yield from x

    return reader


def text_file(path):
    """A reader of the lines of a file, without their ends."""

    def reader():
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")

    return reader
