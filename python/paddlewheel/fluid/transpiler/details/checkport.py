"""Waiting for servers."""

from .... import _core


def wait_server_ready(endpoints):
    """Returns as soon as all servers accept connections; lists on stderr those that do not."""
    _core.wait_server_ready(list(endpoints))
