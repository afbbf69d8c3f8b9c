"""Which server keeps which part of the parameters."""

from .._not_yet import not_yet


class PSDispatcher:
    """Gives parts of the parameters to servers."""

    def __init__(self, pserver_endpoints):
        self._eps = pserver_endpoints
        self._step = 0

    @property
    def eps(self):
        """The servers."""
        return self._eps

    def reset(self):
        """Starts again with the first server."""
        self._step = 0

    def dispatch(self, varlist):
        """The server of each variable."""
        raise not_yet(type(self).__name__ + ".dispatch")


class HashName(PSDispatcher):
    """By a hash of the name."""


class RoundRobin(PSDispatcher):
    """One after the other."""
