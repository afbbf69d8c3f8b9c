"""Names that no other variable has."""

import contextlib

from .._core import UniqueNameGenerator
from .._core import unique_name_generate as generate
from .._core import unique_name_switch

generate_with_ignorable_key = generate


def switch(new_generator=None, new_para_name_checker=None):
    """Installs another generator, or a fresh one; returns the one before."""
    return unique_name_switch(new_generator)


@contextlib.contextmanager
def guard(new_generator=None):
    """A fresh generator inside the `with`; a string is put before all its names."""
    if isinstance(new_generator, (str, bytes)):
        prefix = new_generator if isinstance(new_generator, str) else new_generator.decode()
        new_generator = UniqueNameGenerator(prefix)
    before = switch(new_generator)
    try:
        yield
    finally:
        switch(before)
