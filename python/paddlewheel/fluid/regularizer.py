"""Terms that make parameters small."""

from .. import _core
from ._not_yet import unknown


class WeightDecayRegularizer:
    """A term of a parameter that is added to its gradient; `_core` says it to the optimizers."""

    _core = None


class L2DecayRegularizer(WeightDecayRegularizer):
    """Adds `regularization_coeff * param`."""

    def __init__(self, regularization_coeff=0.0):
        self._core = _core.Regularizer.l2(regularization_coeff)
        self._regularization_coeff = regularization_coeff

    def __str__(self):
        return "L2Decay, regularization_coeff=%f" % self._regularization_coeff


class L1DecayRegularizer(WeightDecayRegularizer):
    """Adds `regularization_coeff * sign(param)`."""

    def __init__(self, regularization_coeff=0.0):
        self._core = _core.Regularizer.l1(regularization_coeff)
        self._regularization_coeff = regularization_coeff

    def __str__(self):
        return "L1Decay, regularization_coeff=%f" % self._regularization_coeff


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer


__getattr__ = unknown(__name__)
