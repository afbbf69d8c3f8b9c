"""Memory is always reused; these calls check their arguments."""


def memory_optimize(input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=True):
    """Marks a program; variables that are never alive together share memory anyway."""
    if level not in (0, 1):
        raise ValueError("only support opt_level 0 or 1.")
    if skip_opt_set is not None and not isinstance(skip_opt_set, (set, list)):
        raise ValueError("only support skip_opt_set as set.")
    input_program._is_mem_optimized = True


def release_memory(input_program, skip_opt_set=None):
    """Marks a program; memory is released after the last use anyway."""
    input_program._is_mem_optimized = True
