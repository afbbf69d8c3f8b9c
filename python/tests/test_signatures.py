"""Our layers are called like Fluid's: the same parameters in the same order, the same defaults.

`fluid_signatures.json` was written by `tools/fluid_signatures.py` under Fluid 1.8.5.
"""

import inspect
import json
import pathlib

import pytest

from paddlewheel import _core

FLUID = json.loads((pathlib.Path(__file__).parent / "fluid_signatures.json").read_text())

# Functions that Fluid has under another name.
ELSEWHERE = {
    ("layers", "data_checked"): ("fluid", "data"),
    ("layers", "embedding_v2"): ("fluid", "embedding"),
    ("layers", "one_hot_v2"): ("fluid", "one_hot"),
}

# Where ours is deliberately not Fluid 1.8.5's: the parameters that differ, and why.
DIFFERENT = {
    ("layers", "data"): ({"type"}, "an enum member is no literal: None stands for LOD_TENSOR"),
    ("layers", "fc"): ({"is_test"}, "Fluid 1.5 still had is_test, and scripts pass it"),
}


def bound():
    for module in ("layers", "nets"):
        for name, function in vars(getattr(_core, module)).items():
            place = ELSEWHERE.get((module, name), (module, name))
            if not isinstance(function, type) and place[1] in FLUID[place[0]]:
                yield pytest.param(module, name, *place, id=f"{module}.{name}")


def ours(function):
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if parameter.default is inspect.Parameter.empty:
            yield [parameter.name]
        else:
            yield [parameter.name, parameter.default]


def exact(parameters, without):
    """With types, because 1 == 1.0 == True."""
    return [(p[0], [repr(value) for value in p[1:]]) for p in parameters if p[0] not in without]


@pytest.mark.parametrize("module, name, fluid_module, fluid_name", list(bound()))
def test_signature_is_fluids(module, name, fluid_module, fluid_name):
    function = getattr(getattr(_core, module), name)
    different, _reason = DIFFERENT.get((module, name), (set(), ""))
    expected = exact(FLUID[fluid_module][fluid_name], different)
    assert exact(ours(function), different) == expected
    assert function.__doc__, "a layer says what it does"


def test_differences_are_real():
    for (module, name), (different, _reason) in DIFFERENT.items():
        given = exact(ours(getattr(getattr(_core, module), name)), set())
        assert given != exact(FLUID[module][name], set()), f"{module}.{name} is as in Fluid"


def test_enough_is_bound():
    assert len(list(bound())) >= 100
