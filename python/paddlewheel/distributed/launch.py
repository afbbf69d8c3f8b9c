"""`python -m paddle.distributed.launch`: starts the processes of a training."""

from ..fluid._not_yet import not_yet


def launch():
    """Starts the processes."""
    raise not_yet("paddle.distributed.launch")


if __name__ == "__main__":
    launch()
