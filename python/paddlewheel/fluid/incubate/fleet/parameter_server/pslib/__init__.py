"""The fleet of another parameter server."""

from ...._not_yet_fleet import NotYetFleet

fleet = NotYetFleet("fleet")
