"""How parameters start."""

import contextlib

from .. import _core
from ._not_yet import unknown


class Initializer:
    """How a parameter starts; `_core` says it to the layers."""

    _core = None

    def __call__(self, var, block):
        """Puts the operator that fills `var` before all others of `block`."""
        return self._core.fill(var, block)

    def __repr__(self):
        return repr(self._core)


class ConstantInitializer(Initializer):
    """Everywhere the same number."""

    def __init__(self, value=0.0, force_cpu=False):
        self._core = _core.Initializer.constant(value)


class UniformInitializer(Initializer):
    """Numbers between `low` and `high`."""

    def __init__(self, low=-1.0, high=1.0, seed=0, diag_num=0, diag_step=0, diag_val=1.0):
        if diag_num:
            raise NotImplementedError("a uniform initializer with a diagonal is not supported")
        self._core = _core.Initializer.uniform(low, high, seed)


class NormalInitializer(Initializer):
    """Normally distributed numbers."""

    def __init__(self, loc=0.0, scale=1.0, seed=0):
        self._core = _core.Initializer.normal(loc, scale, seed)


class TruncatedNormalInitializer(Initializer):
    """Normally distributed numbers, none farther than two deviations from the mean."""

    def __init__(self, loc=0.0, scale=1.0, seed=0):
        self._core = _core.Initializer.truncated_normal(loc, scale, seed)


class XavierInitializer(Initializer):
    """Spread by the sum of the numbers of inputs and outputs."""

    def __init__(self, uniform=True, fan_in=None, fan_out=None, seed=0):
        self._core = _core.Initializer.xavier(uniform, fan_in, fan_out, seed)


class MSRAInitializer(Initializer):
    """Spread by the number of inputs."""

    def __init__(self, uniform=True, fan_in=None, seed=0):
        self._core = _core.Initializer.msra(uniform, fan_in, seed)


class BilinearInitializer(Initializer):
    """Weights of a transposed convolution that interpolates."""

    def __init__(self):
        self._core = _core.Initializer.bilinear()


class NumpyArrayInitializer(Initializer):
    """The numbers of an array."""

    def __init__(self, value):
        self._core = _core.Initializer.array(value)


@contextlib.contextmanager
def init_on_cpu():
    """Accepted; everything is on the processor."""
    yield


def force_init_on_cpu():
    """Always false: there is nothing to force."""
    return False


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer


__getattr__ = unknown(__name__)
