"""Layers for tensors and images give Fluid's numbers: the cases of crates/testing/golden/gen/gen_tensors.py."""

import importlib.util
import pathlib

import numpy as np
import pytest

import paddlewheel.fluid as fluid

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "crates" / "testing" / "golden"


def script():
    spec = importlib.util.spec_from_file_location("gen_tensors", FOLDER / "gen" / "gen_tensors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = script()
GOLDEN = np.load(FOLDER / "tensors.npz")


@pytest.mark.parametrize("name", sorted(CASES.CASES))
def test_results_and_gradients_are_fluids(name):
    ours = CASES.run(fluid, name)
    theirs = {key: GOLDEN[key] for key in GOLDEN.files if key.split("/")[0] == name}
    assert sorted(ours) == sorted(theirs)
    for key, expected in theirs.items():
        assert ours[key].dtype == expected.dtype, key
        assert ours[key].shape == expected.shape, key
        np.testing.assert_allclose(ours[key], expected, rtol=2e-5, atol=1e-5, err_msg=key)


def test_a_negative_step_needs_both_ends():
    x = fluid.data("x", [4])
    with pytest.raises(ValueError, match="a negative step needs a start and an end"):
        x[::-2]


@pytest.mark.parametrize(
    "error, layer",
    [
        (TypeError, lambda layers, x: layers.bmm(layers.cast(x, "int64"), x)),
        (ValueError, lambda layers, x: layers.t(layers.reshape(x, [2, 2, 1]))),
        (ValueError, lambda layers, x: layers.image_resize(x, out_shape=[2, 2])),
        (ValueError, lambda layers, x: layers.maxout(x, 2, axis=2)),
        (ValueError, lambda layers, x: layers.randint(5, 5)),
        (AssertionError, lambda layers, x: layers.clamp(x)),
        (AssertionError, lambda layers, x: layers.flip(x, [])),
        (NotImplementedError, lambda layers, x: layers.adaptive_pool3d(x, 2, require_index=True)),
    ],
)
def test_refuses_with_fluids_kind_of_error(error, layer):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        with pytest.raises(error):
            layer(fluid.layers, fluid.data("x", [2, 2]))


def test_distributions():
    values = {}
    with fluid.program_guard(fluid.Program(), fluid.Program()) as _:
        one, two = fluid.layers.Normal([0.0], [2.0]), fluid.layers.Normal([1.0], [1.0])
        wide = fluid.layers.Uniform([0.0, 0.0], [2.0, 4.0])
        some = fluid.layers.Categorical(np.array([[1.0, 2.0, 3.0]], "float32"))
        flat = fluid.layers.Categorical(np.array([[1.0, 1.0, 1.0]], "float32"))
        loc, scale = np.array([0.1, 0.2], "float32"), np.array([[0.5, 0.0], [0.0, 2.0]], "float32")
        given = fluid.layers.assign
        many = fluid.layers.MultivariateNormalDiag(given(loc), given(scale))
        other = fluid.layers.MultivariateNormalDiag(given(loc + 1), given(scale * 2))
        at = fluid.layers.assign(np.array([1.0], "float32"))
        values["entropy"] = one.entropy()
        values["density"] = one.log_prob(at)
        values["divergence"] = one.kl_divergence(two)
        values["sample"] = one.sample([500], seed=3)
        values["uniform"] = wide.entropy()
        values["categories"] = some.entropy()
        values["between"] = some.kl_divergence(flat)
        values["matrix"] = many.entropy()
        values["matrices"] = many.kl_divergence(other)
        names, wanted = zip(*values.items())
        exe = fluid.Executor(fluid.CPUPlace())
        got = dict(zip(names, exe.run(fluid.default_main_program(), fetch_list=list(wanted))))
    p = np.exp([1.0, 2.0, 3.0]) / np.exp([1.0, 2.0, 3.0]).sum()
    np.testing.assert_allclose(got["entropy"], [0.5 + 0.5 * np.log(2 * np.pi) + np.log(2.0)], rtol=1e-5)
    np.testing.assert_allclose(got["density"], [-1 / 8 - np.log(2.0) - 0.5 * np.log(2 * np.pi)], rtol=1e-5)
    np.testing.assert_allclose(got["divergence"], [0.5 * (4 + 1 - 1 - np.log(4.0))], rtol=1e-5)
    np.testing.assert_allclose(got["uniform"], np.log([2.0, 4.0]), rtol=1e-5)
    np.testing.assert_allclose(got["categories"], [[-(p * np.log(p)).sum()]], rtol=1e-5)
    np.testing.assert_allclose(got["between"], [[(p * np.log(p * 3)).sum()]], rtol=1e-4)
    np.testing.assert_allclose(got["matrix"], [0.5 * (2 * (1 + np.log(2 * np.pi)) + np.log(1.0))], rtol=1e-5)
    np.testing.assert_allclose(got["matrices"], [0.5 * (1.0 + 1.0 + 0.25 - 2 + np.log(4.0))], rtol=1e-4)
    assert got["sample"].shape == (500, 1) and abs(got["sample"].std() - 2) < 0.2
