"""Programs as text and as pictures."""

import io
import re

from .graphviz import GraphPreviewGenerator
from .transpiler.details import block_to_code


def pprint_program_codes(program, show_backward=False):
    """A program as text; without operators that compute gradients unless `show_backward`."""
    return "\n".join(pprint_block_codes(block, show_backward) for block in program.blocks)


def pprint_block_codes(block, show_backward=False):
    """A block as text; without operators that compute gradients unless `show_backward`."""
    text = io.StringIO()
    block_to_code(block, block.idx, text, skip_op_callstack=True)
    lines = text.getvalue().splitlines()
    if not show_backward:
        lines = [line for line in lines if "@GRAD" not in line]
    return "\n".join(lines)


def draw_block_graphviz(block, highlights=None, path="./temp.dot"):
    """Writes a picture of a block: variables and operators, and the readers and writers of each variable."""
    graph = GraphPreviewGenerator("some graph")
    wanted = [re.compile(pattern) for pattern in highlights or []]
    parts = {}

    def variable(name):
        if name not in parts:
            highlight = any(pattern.match(name) for pattern in wanted)
            var = block.vars.get(name)
            if var is not None and bool(var.is_parameter):
                parts[name] = graph.add_param(name, str(var.dtype), highlight=highlight)
            else:
                parts[name] = graph.add_arg(name, highlight=highlight)
        return parts[name]

    for op in block.ops:
        box = graph.add_op(op.type)
        for name in op.input_arg_names:
            graph.add_edge(variable(name), box)
        for name in op.output_arg_names:
            graph.add_edge(box, variable(name))
    graph(path, show=False)
