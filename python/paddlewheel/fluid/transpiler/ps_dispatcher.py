"""Which server keeps which part of the parameters."""

from ... import _core


class PSDispatcher:
    """Gives parts of the parameters to servers.

    A class derived from this one may be the `split_method` of a configuration: its `dispatch` gets
    the blocks of one variable at a time, as objects with a `name`, and returns their servers.
    """

    def __init__(self, pserver_endpoints):
        self._eps = list(pserver_endpoints)
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
        raise NotImplementedError("Interface has not been implemented.")


class Chosen(PSDispatcher):
    """A method that the core knows, by the name of its class."""

    def dispatch(self, varlist):
        """The server of each variable."""
        names = [var.name for var in varlist]
        servers = _core.choose_servers(type(self).__name__, names, self._eps, self._step)
        self._step += len(names)
        return servers


class HashName(Chosen, PSDispatcher):
    """By a hash of the name, the same in every process."""


class RoundRobin(Chosen, PSDispatcher):
    """One after the other."""
