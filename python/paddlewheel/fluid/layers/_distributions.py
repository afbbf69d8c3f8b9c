"""Distributions of random numbers: samples, entropies and likelihoods as ops of the current program."""

import math

import numpy as np

from ... import _core
from ..framework import Variable

layers = _core.layers

NUMBERS = (float, list, np.ndarray, Variable)


def check(value, name, kinds, what):
    """Raises Fluid's error if an argument is of another kind."""
    if not isinstance(value, kinds):
        raise TypeError("The type of '%s' in %s must be %s, but received %s." % (name, what, kinds, type(value)))


def batch_shape(first, second):
    """The shape of two Variables together."""
    return list((first + second).shape)


class Distribution(object):
    """Common parts of all distributions."""

    def sample(self):
        """A Variable of random numbers of this shape."""
        raise NotImplementedError

    def entropy(self):
        """The entropy, as a Variable."""
        raise NotImplementedError

    def kl_divergence(self, other):
        """The Kullback-Leibler divergence from another distribution of this kind."""
        raise NotImplementedError

    def log_prob(self, value):
        """The logarithm of the density at a value."""
        raise NotImplementedError

    def _validate_args(self, *args):
        """Whether the arguments are Variables; a mixture is an error."""
        are_variables = [isinstance(arg, Variable) for arg in args]
        if any(are_variables) and not all(are_variables):
            raise ValueError("if one argument is Variable, all arguments should be Variable")
        return any(are_variables)

    def _to_variable(self, *args):
        """Numbers, lists and arrays as Variables of one shape."""
        arrays = [np.asarray([arg] if isinstance(arg, float) else arg).astype("float32") for arg in args]
        return tuple(layers.assign(np.ascontiguousarray(array)) for array in np.broadcast_arrays(*arrays))


class Uniform(Distribution):
    """Numbers in [low, high), each equally likely."""

    def __init__(self, low, high):
        check(low, "low", NUMBERS, "Uniform")
        check(high, "high", NUMBERS, "Uniform")
        self.batch_size_unknown = self._validate_args(low, high)
        self.all_arg_is_float = isinstance(low, float) and isinstance(high, float)
        self.low, self.high = (low, high) if self.batch_size_unknown else self._to_variable(low, high)

    def sample(self, shape, seed=0):
        """Numbers in `shape`, followed by the shape of the arguments."""
        check(shape, "shape", list, "sample")
        check(seed, "seed", int, "sample")
        batch = batch_shape(self.low, self.high)
        if self.batch_size_unknown:
            zeros = layers.fill_constant_batch_size_like(self.low + self.high, batch + shape, self.low.dtype, 0.0)
            drawn = layers.uniform_random_batch_size_like(zeros, list(zeros.shape), min=0.0, max=1.0, seed=seed)
            return layers.reshape(drawn * (zeros + self.high - self.low) + self.low, shape + batch)
        # Fluid draws from [-1, 1) here.
        drawn = layers.uniform_random(shape + batch, seed=seed)
        zeros = layers.zeros(shape + batch, dtype=self.low.dtype)
        output = drawn * (zeros + (self.high - self.low)) + self.low
        return layers.reshape(output, shape) if self.all_arg_is_float else output

    def log_prob(self, value):
        """The logarithm of the density at each number."""
        check(value, "value", Variable, "log_prob")
        above = layers.cast(layers.less_than(self.low, value), dtype=value.dtype)
        below = layers.cast(layers.less_than(value, self.high), dtype=value.dtype)
        return layers.log(above * below) - layers.log(self.high - self.low)

    def entropy(self):
        """The entropy, as a Variable."""
        return layers.log(self.high - self.low)


class Normal(Distribution):
    """Normal numbers with a mean (`loc`) and a deviation (`scale`)."""

    def __init__(self, loc, scale):
        check(loc, "loc", NUMBERS, "Normal")
        check(scale, "scale", NUMBERS, "Normal")
        self.batch_size_unknown = self._validate_args(loc, scale)
        self.all_arg_is_float = isinstance(loc, float) and isinstance(scale, float)
        self.loc, self.scale = (loc, scale) if self.batch_size_unknown else self._to_variable(loc, scale)

    def sample(self, shape, seed=0):
        """Numbers in `shape`, followed by the shape of the arguments."""
        check(shape, "shape", list, "sample")
        check(seed, "seed", int, "sample")
        batch = batch_shape(self.loc, self.scale)
        if self.batch_size_unknown:
            zeros = layers.fill_constant_batch_size_like(self.loc + self.scale, batch + shape, self.loc.dtype, 0.0)
            drawn = layers.gaussian_random(layers.shape(zeros), mean=0.0, std=1.0, seed=seed)
            return layers.reshape(drawn * (zeros + self.scale) + self.loc, shape + batch)
        drawn = layers.gaussian_random(shape + batch, mean=0.0, std=1.0, seed=seed)
        zeros = layers.zeros(shape + batch, dtype=self.loc.dtype)
        output = drawn * (zeros + self.scale) + self.loc
        return layers.reshape(output, shape) if self.all_arg_is_float else output

    def entropy(self):
        """The entropy, as a Variable."""
        batch = batch_shape(self.loc, self.scale)
        zeros = layers.fill_constant_batch_size_like(self.loc + self.scale, batch, self.loc.dtype, 0.0)
        return 0.5 + 0.5 * math.log(2 * math.pi) + layers.log(self.scale + zeros)

    def log_prob(self, value):
        """The logarithm of the density at each number."""
        check(value, "value", Variable, "log_prob")
        variance = self.scale * self.scale
        distance = value - self.loc
        of_scale = layers.log(self.scale)
        return -1.0 * (distance * distance) / (2.0 * variance) - of_scale - math.log(math.sqrt(2.0 * math.pi))

    def kl_divergence(self, other):
        """The Kullback-Leibler divergence from another distribution of this kind."""
        check(other, "other", Normal, "kl_divergence")
        ratio = self.scale / other.scale
        ratio = ratio * ratio
        distance = (self.loc - other.loc) / other.scale
        return 0.5 * (ratio + distance * distance - 1.0 - layers.log(ratio))


class Categorical(Distribution):
    """One of several, with scores (`logits`) along the last dimension."""

    def __init__(self, logits):
        check(logits, "logits", (np.ndarray, Variable, list), "Categorical")
        self.logits = logits if self._validate_args(logits) else self._to_variable(logits)[0]

    def _shares(self):
        """The scores below their greatest, their probabilities, and the sum of their powers."""
        logits = self.logits - layers.reduce_max(self.logits, dim=-1, keep_dim=True)
        powers = layers.exp(logits)
        total = layers.reduce_sum(powers, dim=-1, keep_dim=True)
        return logits, powers / total, total

    def kl_divergence(self, other):
        """The Kullback-Leibler divergence from another distribution of this kind."""
        check(other, "other", Categorical, "kl_divergence")
        logits, probabilities, total = self._shares()
        others, _, other_total = other._shares()
        difference = logits - layers.log(total) - others + layers.log(other_total)
        return layers.reduce_sum(probabilities * difference, dim=-1, keep_dim=True)

    def entropy(self):
        """The entropy, as a Variable."""
        logits, probabilities, total = self._shares()
        return -1.0 * layers.reduce_sum(probabilities * (logits - layers.log(total)), dim=-1, keep_dim=True)


class MultivariateNormalDiag(Distribution):
    """Normal vectors whose numbers do not depend on each other: `scale` is a matrix with their variances."""

    def __init__(self, loc, scale):
        check(loc, "loc", (np.ndarray, Variable, list), "MultivariateNormalDiag")
        check(scale, "scale", (np.ndarray, Variable, list), "MultivariateNormalDiag")
        are_variables = self._validate_args(loc, scale)
        self.loc, self.scale = (loc, scale) if are_variables else self._to_variable(loc, scale)

    def _ones(self, value):
        """A matrix of ones like `value`, and one with ones on its diagonal alone."""
        shape, dtype = list(value.shape), self.loc.dtype
        return layers.ones(shape=shape, dtype=dtype), layers.diag(layers.ones(shape=shape[:1], dtype=dtype))

    def _det(self, value):
        ones, diagonal = self._ones(value)
        return layers.reduce_prod(value + ones - diagonal)

    def _inv(self, value):
        ones, diagonal = self._ones(value)
        return layers.elementwise_pow(value, ones - 2 * diagonal)

    def entropy(self):
        """The entropy, as a Variable."""
        of_size = self.scale.shape[0] * (1.0 + math.log(2 * math.pi))
        return 0.5 * (of_size + layers.log(self._det(self.scale)))

    def kl_divergence(self, other):
        """The Kullback-Leibler divergence from another distribution of this kind."""
        check(other, "other", MultivariateNormalDiag, "kl_divergence")
        inverse = self._inv(other.scale)
        distance = other.loc - self.loc
        ratios = layers.reduce_sum(inverse * self.scale)
        squares = layers.matmul(layers.matmul(distance, inverse), distance)
        of_volumes = layers.log(self._det(other.scale)) - layers.log(self._det(self.scale))
        return 0.5 * (ratios + squares - list(self.scale.shape)[0] + of_volumes)
