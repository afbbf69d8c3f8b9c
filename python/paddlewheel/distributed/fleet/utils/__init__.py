"""Files of fleets."""

from . import fs
