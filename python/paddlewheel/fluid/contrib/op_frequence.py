"""Which operators a program has."""

from collections import Counter, OrderedDict

from ..framework import Program


def op_freq_statistic(program):
    """How often each operator is there, and each pair of one that writes what the other reads."""
    if not isinstance(program, Program):
        raise TypeError(
            "The input type should be Porgram.But you passed in %s" % (type(program))
        )
    single, pairs, writer = Counter(), Counter(), {}
    parameters = {var.name for var in program.global_block().all_parameters()}
    for op in program.global_block().ops:
        if not set(op.output_arg_names) - parameters:
            continue
        single[op.type] += 1
        for name in op.input_arg_names:
            if name in writer:
                pairs["{}->{}".format(writer[name], op.type)] += 1
        writer.update({name: op.type for name in op.output_arg_names})
    return OrderedDict(single.most_common()), OrderedDict(pairs.most_common())
