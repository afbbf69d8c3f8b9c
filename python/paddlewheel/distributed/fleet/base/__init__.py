"""What all fleets share."""

from . import role_maker
