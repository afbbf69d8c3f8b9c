"""Figures of quality that Fluid does not have, exact and over all trainers.

    samples = metrics.ScoredSamples()
    samples.update(predictions, labels, users=user_ids, slices=positions)   # batch after batch
    metrics.all_trainers(samples).quality()                                 # or samples.quality() alone
"""

from . import _core

Quality = _core.metrics.Quality
ScoredSamples = _core.metrics.ScoredSamples


def quality(preds, labels, users=None, slices=None):
    """How good predictions are: AUC, GAUC by user, log loss, normalised entropy, PCOC."""
    samples = ScoredSamples()
    samples.update(preds, labels, users, slices)
    return samples.quality()


def all_trainers(samples):
    """The samples of all trainers of a job; every trainer calls this at the same time."""
    from .fluid.incubate.fleet.parameter_server import distribute_transpiler

    return distribute_transpiler.fleet._need().global_samples(samples)
