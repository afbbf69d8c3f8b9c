"""The command `paddlewheel`, which the core does."""

import os
import signal
import sys

from . import _core

ALIAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_alias")


def main(argv=None):
    """Entry point of the command; returns the exit code."""
    # While the core is busy, Python would not act on the Ctrl-C that it notes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.command(sys.argv[1:] if argv is None else argv, sys.executable, ALIAS, sys.path)
