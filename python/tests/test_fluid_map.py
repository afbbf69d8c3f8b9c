"""The names and errors in docs/reference/fluid-map.md are true."""

import inspect
import os
import re

import pytest

import paddlewheel
import paddlewheel.fluid.incubate.fleet.collective
import paddlewheel.fluid.incubate.fleet.parameter_server.pslib
import paddlewheel.fluid.incubate.fleet.utils.hdfs
from conftest import HERE
from paddlewheel import fluid

with open(os.path.join(HERE, "..", "..", "docs", "reference", "fluid-map.md"), encoding="utf-8") as file:
    MAP = file.read()

# Of the layers, other names for those in the tables, and what is not a layer.
NOT_IN_TABLES = set(
    "data_checked embedding_v2 one_hot_v2 shuffle_batch sparse_embedding tdm_child tdm_sampler".split()
    + "Variable unknown lstm PyFuncRegistry".split()
)


def section(title):
    return MAP.partition("## " + title + "\n")[2].partition("\n## ")[0]


def cells(text):
    """The cells of the rows of all tables, without their heads."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if len(row) > 1 and "---" not in row[0]]


def names(cell):
    return re.findall("`([^`]+)`", cell)


def refused():
    for row in cells(section("What is not supported")):
        for name in names(row[0]):
            # A name alone is a layer: the first of its row says so.
            yield (name if "." in name else "fluid.layers." + name), names(row[1])[0]


def test_the_tables_of_layers_are_complete():
    told = {name for row in cells(section("Layers")) for name in names(row[1])}
    modules = {name for name, item in vars(fluid.layers).items() if inspect.ismodule(item)}
    there = {name for name in dir(fluid.layers) if name[0] != "_"} - modules
    assert told - {"fluid.layers"} == there - NOT_IN_TABLES


@pytest.mark.parametrize("module", ["optimizer", "regularizer", "clip", "initializer", "metrics"])
def test_the_names_of_modules_are_there(module):
    table = cells(section("Optimizers and what belongs to them"))[1:]
    rows = {names(row[0])[0]: row[1] for row in table}
    for name in names(rows["fluid." + module]):
        assert name[0] == "…" or hasattr(getattr(fluid, module), name), name


@pytest.mark.parametrize("code, error", list(refused()))
def test_what_is_not_supported_is_refused(code, error):
    with pytest.raises({"AttributeError": AttributeError}.get(error, NotImplementedError)):
        eval(code, {"paddle": paddlewheel, "fluid": fluid})
