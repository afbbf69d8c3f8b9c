"""Programs as readable text, and looking for operators."""

from ... import core
from ...framework import Parameter

CALLSTACK = core.op_proto_and_checker_maker.kOpCreationCallstackAttrName()


def delete_ops(block, ops):
    """Takes operators out of a block."""
    for op in ops:
        block._remove_op(op.idx)


def find_op_by_input_arg(block, arg_name):
    """The place of the first operator that reads a variable; -1 if there is none."""
    return _place(block, lambda op: arg_name in op.input_arg_names)


def find_op_by_output_arg(block, arg_name, reverse=False):
    """The place of the first (or last) operator that writes a variable; -1 if there is none."""
    return _place(block, lambda op: arg_name in op.output_arg_names, reverse)


def _place(block, is_wanted, reverse=False):
    places = [place for place, op in enumerate(block.ops) if is_wanted(op)]
    return (places[-1] if reverse else places[0]) if places else -1


def get_indent_space(indent, space_num=4):
    """So many steps of spaces."""
    return " " * (indent * space_num)


def variable_to_code(var):
    """A variable as a line of text."""
    kinds = core.VarDesc.VarType
    text = "{} : fluid.{}".format(var.name, var.type)
    if var.type in (kinds.SELECTED_ROWS, kinds.LOD_TENSOR):
        text += ".shape{}.astype({})".format(var.shape, var.dtype)
    else:
        text += ")"
    if isinstance(var, Parameter):
        text = ("trainable parameter " if var.trainable else "parameter ") + text
    else:
        text = "var " + text
    return "persist " + text if var.persistable else text


def _ports(names, variables):
    return "{" + ", ".join("{}={}".format(name, variables(name)) for name in names) + "}"


def _attribute(op, name):
    kind = op.attr_type(name)
    if kind == core.AttrType.BLOCK:
        return "{} = block[{}]".format(name, op._block_attr_id(name))
    if kind == core.AttrType.BLOCKS:
        return "{} = blocks{}".format(name, op._blocks_attr_ids(name))
    return "{} = {}".format(name, op.attr(name))


def op_to_code(op, skip_op_callstack=True):
    """An operator as a line of text."""
    names = [name for name in sorted(op.attr_names) if name != CALLSTACK or not skip_op_callstack]
    attrs = ", ".join(_attribute(op, name) for name in names)
    text = "{}(inputs={}, {})".format(op.type, _ports(op.input_names, op.input), attrs)
    if not op.output_names:
        return text
    return "{} = {}".format(_ports(op.output_names, op.output), text)


def block_to_code(block, block_idx, fout=None, skip_op_callstack=False):
    """Prints a block: its variables by name, then its operators."""
    space = get_indent_space(1)
    print("{ // block " + str(block_idx), file=fout)
    for _, var in sorted(block.vars.items()):
        print(space + variable_to_code(var), file=fout)
    if block.vars:
        print(file=fout)
    for op in block.ops:
        print(space + op_to_code(op, skip_op_callstack), file=fout)
    print("}", file=fout)


def program_to_code(prog, fout=None, skip_op_callstack=True):
    """Prints a program, block by block."""
    for place, block in enumerate(prog.blocks):
        block_to_code(block, place, fout, skip_op_callstack)
