"""Functions and layers in the form of Paddle 2.x give the numbers of the real 2.6.2."""

import json
import os

import numpy
import pytest
from conftest import HERE
from two_cases import CASES, run

import paddlewheel as paddle

paddle.enable_static()
with open(os.path.join(HERE, "fixtures", "paddle2.json")) as _file:
    REAL = json.load(_file)


def test_all_cases_are_recorded():
    assert set(REAL) == set(CASES) and len(REAL) > 200


@pytest.mark.parametrize("case", CASES)
def test_gives_the_numbers_of_the_real_paddle(case):
    given = run(paddle, case)
    assert len(given) == len(REAL[case])
    for ours, (shape, numbers) in zip(given, REAL[case]):
        # The real one has numbers without dimensions; here they have one.
        assert list(ours.shape) == (shape or [1])
        numpy.testing.assert_allclose(ours.astype("float64").reshape(-1), numbers, rtol=2e-5, atol=1e-5)
