"""The names that scripts use most are there.

`fluid_names.txt` has the 200 names of Fluid that a count over public scripts found most often,
the most frequent first; `tools/api_coverage.py` says how they are read.
"""

import importlib.util
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
NAMES = (HERE / "fluid_names.txt").read_text().split()

COLLECTIVE = "training without parameter servers comes with its own issue"

# Names that can be imported but not used, by how they begin.
NOT_YET = {
    "fleet[collective].": COLLECTIVE,
    "fluid.incubate.fleet.collective.": COLLECTIVE,
}


def tool():
    spec = importlib.util.spec_from_file_location("coverage", HERE / "tools" / "api_coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STATE = tool().state


def is_exception(name):
    return name.startswith(tuple(NOT_YET))


def test_the_list_is_whole():
    assert len(NAMES) == len(set(NAMES)) == 200


@pytest.mark.parametrize("name", [name for name in NAMES if not is_exception(name)])
def test_is_there(name):
    assert STATE(name) == "there"


@pytest.mark.parametrize("name", [name for name in NAMES if is_exception(name)])
def test_is_not_yet_there_and_says_so(name):
    """An exception that is one no longer must leave the list."""
    assert STATE(name) == "not yet"


def test_a_name_that_nobody_has_is_missing():
    for name in ["fluid.layers.nothing", "fluid.Program().nothing", "paddle.nothing.at_all"]:
        assert STATE(name) == "missing"


def test_exceptions_are_used():
    for start in NOT_YET:
        assert any(name.startswith(start) for name in NAMES), start
