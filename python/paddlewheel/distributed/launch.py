"""`python -m paddle.distributed.launch`: starts the processes of a training."""

import sys

from .._cli import main


def launch(argv=None):
    """Starts the processes, waits for them, and ends with their exit code."""
    sys.exit(main(["launch", *(sys.argv[1:] if argv is None else argv)]))


if __name__ == "__main__":
    launch()
