"""The arguments of `transpile`, which changed from version to version of Fluid."""

import inspect

from .ps_dispatcher import HashName, RoundRobin

PSERVERS = "127.0.0.1:6174"
#: The names of the methods in older versions.
OLDER_METHODS = {"round_robin": RoundRobin, "hash_name": HashName}


def newest(
    trainer_id,
    program=None,
    pservers=PSERVERS,
    trainers=1,
    sync_mode=True,
    startup_program=None,
    current_endpoint=PSERVERS,
):
    """Since 0.15."""
    return locals()


def with_ids(
    optimize_ops,
    params_grads,
    trainer_id=None,
    program=None,
    pservers=PSERVERS,
    trainers=1,
    split_method=None,
    sync_mode=True,
    startup_program=None,
    current_endpoint=PSERVERS,
):
    """Of 0.12."""
    return locals()


def without_ids(
    optimize_ops,
    params_grads,
    program=None,
    pservers=PSERVERS,
    trainers=1,
    split_method=None,
    trainer_id=None,
    sync_mode=True,
    startup_program=None,
    current_endpoint=PSERVERS,
):
    """Before that."""
    return locals()


def is_list(value):
    """Whether it is a list or a tuple: the forms of `minimize`'s results."""
    return isinstance(value, (list, tuple))


def bind(args, kwargs):
    """The arguments by name, whichever way they were given, and wishes about the split."""
    kwargs = dict(kwargs)
    extra = {name: kwargs.pop(name) for name in ("slice_var_up",) if name in kwargs}
    old = is_list(args[0]) if args else "optimize_ops" in kwargs
    if not old:
        if "split_method" in kwargs:
            extra["split_method"] = kwargs.pop("split_method")
        given = newest(*args, **kwargs)
    else:
        third = args[2] if len(args) > 2 else None
        numbered = isinstance(third, int) and not isinstance(third, bool)
        given = (with_ids if numbered or len(args) < 3 else without_ids)(*args, **kwargs)
        check_pairs(given.pop("optimize_ops"), given.pop("params_grads"))
        method = given.pop("split_method")
        if method is not None:
            extra["split_method"] = method
    if "split_method" in extra:
        method = extra["split_method"]
        extra["split_method"] = OLDER_METHODS.get(getattr(method, "__name__", method), method)
    return given, extra


def check_pairs(optimize_ops, params_grads):
    """Both are found in the program again; here they only must be what `minimize` returned."""
    if not is_list(params_grads) or any(
        not is_list(pair) or len(pair) != 2 for pair in params_grads
    ):
        raise TypeError("params_grads must be the pairs that optimizer.minimize returned")


_OWN = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
#: How `transpile` shows itself.
SIGNATURE = inspect.Signature(_OWN + list(inspect.signature(newest).parameters.values()))
