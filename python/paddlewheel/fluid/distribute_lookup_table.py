"""Finds the embedding that lives on servers."""

LOOKUP_TABLE_TYPES = ("lookup_table", "lookup_table_v2")


def lookups(program, is_distributed=True):
    """The operators that look rows of a distributed table up."""
    ops = program.global_block().ops
    found = [op for op in ops if op.type in LOOKUP_TABLE_TYPES]
    return [op for op in found if not is_distributed or op.attr("is_distributed") is True]


def find_distributed_lookup_table(program):
    """The name of the distributed table; None if there is none."""
    names = {op.input("W")[0] for op in lookups(program)}
    if len(names) > 1:
        raise RuntimeError("all distributed lookup_table_ops should have only one table")
    return names.pop() if names else None


def find_distributed_lookup_table_inputs(program, table_name):
    """The variables with the keys."""
    block = program.global_block()
    ops = [op for op in lookups(program, False) if op.input("W")[0] == table_name]
    return [block.vars[name] for op in ops for name in op.input("Ids")]


def find_distributed_lookup_table_outputs(program, table_name):
    """The variables with the rows."""
    block = program.global_block()
    ops = [op for op in lookups(program, False) if op.input("W")[0] == table_name]
    return [block.vars[name] for op in ops for name in op.output("Out")]
