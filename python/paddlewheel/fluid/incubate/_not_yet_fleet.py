"""A fleet that is not yet there."""

from .._not_yet import not_yet, not_yet_class


class NotYetFleet:
    """Can be imported; says what is missing as soon as it is used."""

    def __init__(self, name, why):
        self._name = name
        self._why = why

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_yet("{}.{}".format(self._name, name), self._why)
