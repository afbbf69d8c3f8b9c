"""Kinds of fleets."""


class Mode:
    """Kinds of fleets."""

    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3
