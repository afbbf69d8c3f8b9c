"""Layers of ranking, matching and decoding models give Fluid's numbers: the cases of crates/testing/golden/gen/gen_ranking.py."""

import importlib.util
import pathlib

import numpy as np
import pytest

import paddlewheel.fluid as fluid

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "crates" / "testing" / "golden"


def script():
    spec = importlib.util.spec_from_file_location("gen_ranking", FOLDER / "gen" / "gen_ranking.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = script()
GOLDEN = np.load(FOLDER / "ranking_layers.npz")
#: Fluid multiplies with the filter in another order than the one of the forward pass: not a derivative (fluid-map.md).
NOT_DERIVATIVES = {"tree_conv/grad/x"}


@pytest.mark.parametrize("name", sorted(CASES.CASES))
def test_results_sequences_and_gradients_are_fluids(name):
    ours = CASES.run(fluid, name)
    theirs = {key: GOLDEN[key] for key in GOLDEN.files if key.split("/")[0] == name}
    assert sorted(ours) == sorted(theirs)
    for key, expected in theirs.items():
        assert ours[key].dtype == expected.dtype, key
        if key in NOT_DERIVATIVES:
            assert ours[key].shape == expected.shape, key
            continue
        np.testing.assert_allclose(ours[key], expected, rtol=1e-5, atol=2e-6, err_msg=key)
