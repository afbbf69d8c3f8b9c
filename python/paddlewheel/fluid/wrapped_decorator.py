"""Decorators that keep the name and the arguments of what they decorate."""

import contextlib
import functools


def wrap_decorator(decorator_func):
    """The decorator, made to keep name, text and arguments of functions."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            return decorator_func(function)(*args, **kwargs)

        return call

    return decorate


def signature_safe_contextmanager(function):
    """A `with` block from a function that yields once."""
    return wrap_decorator(contextlib.contextmanager)(function)
