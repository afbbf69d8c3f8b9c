"""Writes fluid_signatures.json: the signatures of Fluid 1.8.5 that ours are compared with.

Run it with a Python that has `paddlepaddle==1.8.5`:

    python python/tests/tools/fluid_signatures.py > python/tests/fluid_signatures.json

A parameter is [name], or [name, default]; `**` stands before one that takes all other keywords.
"""

import inspect
import json
import types

import paddle.fluid as fluid

MODULES = {"layers": fluid.layers, "nets": fluid.nets, "fluid": fluid}


def parameter(p):
    """A default that JSON cannot hold is its text."""
    if p.kind is inspect.Parameter.VAR_KEYWORD:
        return ["**" + p.name]
    if p.default is inspect.Parameter.empty:
        return [p.name]
    plain = p.default is None or isinstance(p.default, (bool, int, float, str, list, tuple))
    return [p.name, p.default if plain else str(p.default)]


def functions(module):
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if isinstance(value, types.FunctionType) and not name.startswith("_"):
            yield name, [parameter(p) for p in inspect.signature(value).parameters.values()]


def main():
    modules = []
    for name, module in MODULES.items():
        lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in functions(module))
        modules.append(f' "{name}": {{\n' + ",\n".join(lines) + "\n }")
    print("{\n" + ",\n".join(modules) + "\n}")


if __name__ == "__main__":
    main()
