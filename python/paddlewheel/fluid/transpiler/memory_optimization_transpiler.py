"""Variables that are never alive together share memory in every program; these calls say which must not."""

from ... import _core


def memory_optimize(input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=True):
    """Keeps memory of their own for the variables of `skip_opt_set`; with `print_log`, lists those that share.

    Call it before `transpile`, never in a server. No variable gets another name, so gradients reach the
    servers with and without `skip_grads`. Both levels share alike: memory grows and shrinks with what is in it.
    """
    if level not in (0, 1):
        raise ValueError("only support opt_level 0 or 1.")
    if skip_opt_set is not None and not isinstance(skip_opt_set, (set, list, tuple)):
        raise ValueError("only support skip_opt_set as set.")
    names = sorted(getattr(var, "name", var) for var in skip_opt_set or ())
    places = _core.memory_optimize(input_program, names)
    input_program._is_mem_optimized = True
    if print_log:
        for place in places:
            print("share memory: " + ", ".join(place))


def release_memory(input_program, skip_opt_set=None):
    """The same without a log: memory is given to the next variable after the last use."""
    memory_optimize(input_program, skip_opt_set)
