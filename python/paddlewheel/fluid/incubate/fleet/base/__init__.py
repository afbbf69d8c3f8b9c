"""Common parts of all fleets."""
