"""How parameters start, under the names of version 2."""

import numpy

from ..fluid import initializer as _fluid
from ..fluid.initializer import Initializer


class Constant(_fluid.ConstantInitializer):
    """Everywhere the same number."""

    def __init__(self, value=0.0):
        super().__init__(value)


class Normal(_fluid.NormalInitializer):
    """Normally distributed numbers."""

    def __init__(self, mean=0.0, std=1.0, name=None):
        super().__init__(float(mean), float(std))


class TruncatedNormal(_fluid.TruncatedNormalInitializer):
    """Normally distributed numbers, none farther than two deviations from the mean."""

    def __init__(self, mean=0.0, std=1.0, a=-2.0, b=2.0, name=None):
        if (a, b) != (-2.0, 2.0):
            raise NotImplementedError("TruncatedNormal ends two deviations from the mean; a and b cannot be chosen")
        super().__init__(float(mean), float(std))


class Uniform(_fluid.UniformInitializer):
    """Numbers between `low` and `high`."""

    def __init__(self, low=-1.0, high=1.0, name=None):
        super().__init__(float(low), float(high))


class XavierNormal(_fluid.XavierInitializer):
    """Normally distributed, by the sum of the numbers of inputs and outputs."""

    def __init__(self, fan_in=None, fan_out=None, gain=1.0, name=None):
        _only_one(gain)
        super().__init__(False, fan_in, fan_out)


class XavierUniform(_fluid.XavierInitializer):
    """Between two bounds, by the sum of the numbers of inputs and outputs."""

    def __init__(self, fan_in=None, fan_out=None, gain=1.0, name=None):
        _only_one(gain)
        super().__init__(True, fan_in, fan_out)


def _only_one(gain):
    if gain != 1.0:
        raise NotImplementedError("a gain other than 1 is not supported")


class KaimingNormal(_fluid.MSRAInitializer):
    """Normally distributed, by the number of inputs."""

    def __init__(self, fan_in=None, negative_slope=0.0, nonlinearity="relu"):
        _only_relu(negative_slope, nonlinearity)
        super().__init__(False, fan_in)


class KaimingUniform(_fluid.MSRAInitializer):
    """Between two bounds, by the number of inputs."""

    def __init__(self, fan_in=None, negative_slope=0.0, nonlinearity="relu"):
        _only_relu(negative_slope, nonlinearity)
        super().__init__(True, fan_in)


def _only_relu(negative_slope, nonlinearity):
    if negative_slope or nonlinearity != "relu":
        raise NotImplementedError("the Kaiming initializers are for relu here")


class Assign(_fluid.NumpyArrayInitializer):
    """The numbers of an array or a list."""

    def __init__(self, value, name=None):
        value = numpy.asarray(value)
        super().__init__(value.astype("float32") if value.dtype == numpy.float64 else value)


class Bilinear(_fluid.BilinearInitializer):
    """Weights of a transposed convolution that interpolates."""
