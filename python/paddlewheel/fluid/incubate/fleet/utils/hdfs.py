"""Files of a Hadoop file system."""

from ..._not_yet_fleet import not_yet_class

HDFSClient = not_yet_class("HDFSClient")
