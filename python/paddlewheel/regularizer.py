"""Terms that make parameters small, under the names of version 2."""

from .fluid.regularizer import L1DecayRegularizer, L2DecayRegularizer, WeightDecayRegularizer


class L1Decay(L1DecayRegularizer):
    """Adds `coeff * sign(param)` to the gradient."""

    def __init__(self, coeff=0.0):
        super().__init__(coeff)


class L2Decay(L2DecayRegularizer):
    """Adds `coeff * param` to the gradient."""

    def __init__(self, coeff=0.0):
        super().__init__(coeff)
