"""The names that scripts use most are there.

`fluid_names.txt` has the 200 names of Fluid that a count over public scripts found most often,
the most frequent first; `tools/api_coverage.py` says how they are read.
"""

import importlib.util
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
NAMES = (HERE / "fluid_names.txt").read_text().split()

def tool():
    spec = importlib.util.spec_from_file_location("coverage", HERE / "tools" / "api_coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STATE = tool().state


def test_the_list_is_whole():
    assert len(NAMES) == len(set(NAMES)) == 200


@pytest.mark.parametrize("name", NAMES)
def test_is_there(name):
    assert STATE(name) == "there"


def test_a_name_that_nobody_has_is_missing():
    for name in ["fluid.layers.nothing", "fluid.Program().nothing", "paddle.nothing.at_all"]:
        assert STATE(name) == "missing"
