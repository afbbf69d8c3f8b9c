"""What `train.py` can be told."""

import argparse


def parse_args():
    """The arguments of this process."""
    parser = argparse.ArgumentParser(description="Trains a click-through model.")
    parser.add_argument(
        "--is_local", type=int, default=0, help="1: one process; 0: the environment says who I am"
    )
    return parser.parse_args()
