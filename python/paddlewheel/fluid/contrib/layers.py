"""Layers that Fluid keeps apart."""

from ... import _core
from .._not_yet import not_yet_function

shuffle_batch = _core.layers.shuffle_batch
tdm_child = _core.layers.tdm_child
tdm_sampler = _core.layers.tdm_sampler
ctr_metric_bundle = not_yet_function(
    "ctr_metric_bundle", "use fluid.layers.auc and fluid.metrics"
)
