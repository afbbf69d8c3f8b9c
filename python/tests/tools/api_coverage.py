"""Says which names of Fluid resolve in this package.

    python python/tests/tools/api_coverage.py names.txt

reads one name a line, or the first 200 rows of a table whose second column is a name in
backquotes, and prints those that are not there. A name may go through objects:
`fluid.Program().clone` is the method of a program, `fleet[ps].init` that of the fleet of
parameter servers.
"""

import importlib
import re
import sys

ROWS_MAX = 200
FLEETS = "paddlewheel.fluid.incubate.fleet."

# The module that the first word of a name stands for.
ROOTS = {
    "paddle": "paddlewheel",
    "fluid": "paddlewheel.fluid",
    "role_maker": FLEETS + "base.role_maker",
    "distributed_strategy": FLEETS + "parameter_server.distribute_transpiler.distributed_strategy",
    "fleet": FLEETS + "parameter_server.distribute_transpiler",
    "fleet[ps]": FLEETS + "parameter_server.distribute_transpiler.fleet",
    "fleet[pslib]": FLEETS + "parameter_server.pslib.fleet",
    "fleet[collective]": FLEETS + "collective.fleet",
}

# Names for what Fluid has no name for.
STANDS_FOR = {
    "fluid.optimizer.*": "fluid.optimizer.Optimizer",
    "fleet.DistributedOptimizer": "fleet.TranspilerOptimizer",
    "fluid.Block()": "fluid.Program().global_block()",
}

# How an object is made, where calling without arguments is not enough.
ARGUMENTS = {
    "fluid.Scope().var": ("x",),
    "fluid.LayerHelper": ("layer",),
    "fluid.layer_helper.LayerHelper": ("layer",),
    "fluid.io.DataLoader.from_generator": ((), 1),
}


def imported(path):
    """A module, or what a module has under a name."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def member(holder, name):
    """An attribute, or a module that was not imported yet."""
    try:
        return getattr(holder, name)
    except AttributeError:
        if not hasattr(holder, "__path__"):
            raise
        return imported(holder.__name__ + "." + name)


def made(path, maker):
    """The result of a call; the class itself if only programs make its objects."""
    if path == "fluid.Scope().find_var":
        scope = maker.__self__
        scope.var("x")
        return maker("x")
    try:
        return maker(*ARGUMENTS.get(path, ()))
    except TypeError:
        return maker


def find(name):
    """The object of this name; AttributeError, ImportError or NotImplementedError if none."""
    for unnamed, named in STANDS_FOR.items():
        name = name.replace(unnamed, named)
    path = re.match(r"\w+(\[\w+\])?", name).group()
    found = imported(ROOTS[path])
    for step in re.findall(r"\.(\w+)|(\(\))", name[len(path):]):
        if step[0]:
            found, path = member(found, step[0]), path + "." + step[0]
        else:
            found, path = made(path, found), path + "()"
    return found


def state(name):
    """Whether a name is "there", "not yet" there (its use is an error that says so), or
    "missing"."""
    try:
        return "not yet" if getattr(find(name), "_not_yet", False) is True else "there"
    except NotImplementedError:
        return "not yet"
    except (AttributeError, ImportError):
        return "missing"


def names_in(text):
    """The names of a table, or of a list of lines."""
    table = re.findall(r"^\| *\d+ \| `([^`]+)`", text, re.MULTILINE)
    return (table or text.split())[:ROWS_MAX]


def main(path):
    with open(path, encoding="utf-8") as file:
        names = names_in(file.read())
    states = {name: state(name) for name in names}
    for wanted in ("missing", "not yet"):
        for name in names:
            if states[name] == wanted:
                print("%-8s %s" % (wanted, name))
    there = sum(found == "there" for found in states.values())
    print("%d of %d names are there" % (there, len(names)))


if __name__ == "__main__":
    main(sys.argv[1])
