"""Layers below fluid.contrib."""

import numpy as np
import pytest

from paddlewheel import fluid


def test_ctr_metric_bundle_adds_up_over_batches():
    x = fluid.data("x", [None, 1], "float32")
    y = fluid.data("y", [None, 1], "float32")
    sums = fluid.contrib.layers.ctr_metric_bundle(x, y)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    source = np.random.RandomState(0)
    for n in (4, 3):
        feed = {
            "x": source.rand(n, 1).astype("float32"),
            "y": source.randint(0, 2, (n, 1)).astype("float32"),
        }
        found = exe.run(feed=feed, fetch_list=list(sums))
    # The results of Fluid 1.8.5.
    expected = [1.8712225, 3.1875939, 4.7046728, 4.6254373, 4.0, 7.0]
    assert np.concatenate(found) == pytest.approx(expected, rel=1e-6)


def test_shapes_must_agree():
    x = fluid.data("x", [None, 1], "float32")
    y = fluid.data("y", [None, 2], "float32")
    with pytest.raises(AssertionError):
        fluid.contrib.layers.ctr_metric_bundle(x, y)
