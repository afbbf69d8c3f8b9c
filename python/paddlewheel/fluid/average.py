"""Averages outside of a program."""

from .. import _core


class WeightedAverage:
    """The mean of numbers or arrays, each with a weight."""

    def __init__(self):
        self._core = _core.metrics.WeightedMean()

    def reset(self):
        """Forgets everything."""
        self._core.reset()

    def add(self, value, weight):
        """Adds a value that counts `weight` times."""
        self._core.add(value, weight)

    def eval(self):
        """The mean so far."""
        if not self._core.is_used:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return self._core.mean()
