"""Programs for training without servers, as JSON.

usage: python gen_collective.py <config.json> <out dir>

The CPU wheel has no operators `c_gen_nccl_id`, `gen_nccl_id` (they need a GPU). They are declared here for Python alone, with the ports and
attributes that the transpiler gives them; the transpiler itself is the real one.
"""
import json
import os
import sys

import paddle.fluid as fluid
from paddle.fluid import core, framework, unique_name
from paddle.fluid.proto import framework_pb2

from common import load_config, programs
from gen_transpiler import KEEP, dump, net

KEEP.update({
    "c_gen_nccl_id": ["rank", "endpoint", "other_endpoints"],
    "gen_nccl_id": ["trainers", "trainer_id", "nccl_comm_num", "use_hierarchical_allreduce", "hierarchical_allreduce_inter_nranks"],
    "c_comm_init": ["nranks", "rank", "ring_id"], "c_broadcast": ["ring_id", "root"], "c_allreduce_sum": ["ring_id"],
    "c_sync_comm_stream": ["ring_id"], "elementwise_sub": ["axis"],
})


KINDS = {"int": framework_pb2.INT, "string": framework_pb2.STRING, "strings": framework_pb2.STRINGS, "bool": framework_pb2.BOOLEAN}
COMMON = {"op_role": "int", "op_role_var": "strings", "op_namescope": "string", "op_callstack": "strings", "op_device": "string"}


def declare(kind, out, **attrs):
    proto = framework_pb2.OpProto()
    proto.type, proto.comment = kind, ""
    port = proto.outputs.add()
    port.name, port.comment = out, ""
    for name, of in dict(attrs, **COMMON).items():
        attr = proto.attrs.add()
        attr.name, attr.type, attr.comment = name, KINDS[of], ""
    framework.OpProtoHolder.instance().op_proto_map[kind] = proto


declare("c_gen_nccl_id", "Out", rank="int", endpoint="string", other_endpoints="strings")
declare("gen_nccl_id", "NCCLID", trainers="strings", trainer_id="int", nccl_comm_num="int", use_hierarchical_allreduce="bool",
        hierarchical_allreduce_inter_nranks="int")
_plain_init = framework.Operator.__init__


class Unchecked(object):
    """A description of an operator that the library does not know: nothing is checked."""

    def __init__(self, desc):
        self.desc = desc

    def check_attrs(self):
        pass

    def __getattr__(self, name):
        return getattr(self.desc, name)


def _init(self, block, desc, type=None, inputs=None, outputs=None, attrs=None):
    if type in ("c_gen_nccl_id", "gen_nccl_id"):
        desc = Unchecked(desc)
    _plain_init(self, block, desc, type, inputs, outputs, attrs)
    if isinstance(self.desc, Unchecked):
        self.desc = self.desc.desc


framework.Operator.__init__ = _init


def made(c):
    with unique_name.guard():
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup):
            net(c)
            cfg = fluid.DistributeTranspilerConfig()
            cfg.mode = c["mode"]
            cfg.wait_port = False
            cfg.nccl_comm_num = c.get("nccl_comm_num", 1)
            if c["mode"] == "collective":
                cfg.collective_mode = c["collective_mode"]
            t = fluid.DistributeTranspiler(cfg)
            t.transpile(c["trainer_id"], program=main, trainers=",".join(c["endpoints"]), startup_program=startup,
                        current_endpoint=c["endpoints"][c["trainer_id"]])
    return {"case": c, "main": dump(main), "startup": dump(startup)}


if __name__ == "__main__":
    cfg, out = load_config(sys.argv[1]), sys.argv[2]
    for c in cfg["collective"]:
        text = json.dumps(made(c), sort_keys=True)
        for key in ("attrs", "in", "idx", "blocks"):       # one op per line
            text = text.replace('{"%s":' % key, '\n{"%s":' % key)
        with open(os.path.join(out, "collective_%s.json" % c["name"]), "w") as f:
            f.write(text + "\n")
        print(c["name"])
