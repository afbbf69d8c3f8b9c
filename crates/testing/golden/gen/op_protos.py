"""Writes what Fluid's operators take and give: run with the real Fluid 1.8.5.

    python op_protos.py > crates/program/src/op/protos.txt

One operator a line: `type|inputs|outputs|attributes`. A `*` after a port: several variables; `?`: may
be left out; `~`: for the gradient only. An attribute is `name:type`, and `name:type=value` if it has a
value when nobody sets it.
"""
import json

import numpy
import paddle.fluid.core as core
import paddle.fluid.proto.framework_pb2 as pb

# The attributes that every operator has.
COMMON = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"}


def port(var):
    return var.name + "*" * var.duplicable + "?" * var.dispensable + "~" * var.intermediate


def attribute(attr, defaults):
    """A float is written as the shortest text that reads back the same, without spaces."""
    kind = pb.AttrType.Name(attr.type).lower()
    if attr.name not in defaults:
        return attr.name + ":" + kind
    value = json.dumps(shortest(defaults[attr.name]), separators=(",", ":"))
    return attr.name + ":" + kind + "=" + value


def shortest(value):
    if isinstance(value, list):
        return [shortest(item) for item in value]
    return float(str(numpy.float32(value))) if isinstance(value, float) else value


def line(proto):
    attrs = [a for a in proto.attrs if a.name not in COMMON]
    defaults = core.get_op_attrs_default_value(proto.type.encode())
    names = [attribute(a, defaults) for a in attrs]
    parts = [map(port, proto.inputs), map(port, proto.outputs), names]
    return "|".join([proto.type] + [" ".join(part) for part in parts])


if __name__ == "__main__":
    protos = [pb.OpProto.FromString(text) for text in core.get_all_op_protos()]
    for proto in sorted(protos, key=lambda proto: proto.type):
        if proto.inputs or proto.outputs:
            print(line(proto))
