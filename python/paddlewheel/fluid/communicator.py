"""The background sender of a trainer."""

from ._not_yet import not_yet_class

WHY = "fleet.init_worker starts what a trainer sends with"

Communicator = not_yet_class("Communicator", WHY)
