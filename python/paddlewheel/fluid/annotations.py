"""Marks on functions."""

import functools
import sys


def deprecated(since, instead, extra_message=""):
    """A function that names its replacement each time it is called."""

    def decorate(function):
        text = "API {} is deprecated since {}. Please use {} instead.".format(
            function.__name__, since, instead
        )
        text = "\n".join(part for part in (text, extra_message) if part)

        @functools.wraps(function)
        def call(*args, **kwargs):
            print(text, file=sys.stderr)
            return function(*args, **kwargs)

        call.__doc__ = "\n\n".join(part for part in ("Warning: " + text, function.__doc__) if part)
        return call

    return decorate
