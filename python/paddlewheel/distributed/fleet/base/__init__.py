"""Common parts of all fleets."""

from . import role_maker
