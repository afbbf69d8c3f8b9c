"""What a trainer sends to servers in the background."""

from ._not_yet import not_yet_class

Communicator = not_yet_class("Communicator")
