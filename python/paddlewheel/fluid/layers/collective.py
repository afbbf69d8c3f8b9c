"""Layers that exchange a variable with other trainers (Fluid has them under private names)."""

from ..layer_helper import LayerHelper
from ..unique_name import generate_with_ignorable_key

_REDUCTIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3}


def _out(helper, x, key, shape):
    return helper.create_variable(
        name=generate_with_ignorable_key("{}.{}".format(x.name, key)),
        shape=shape,
        dtype=x.dtype,
        type=x.type,
        persistable=x.persistable,
    )


def _append(kind, x, out, **attrs):
    LayerHelper(kind).append_op(type=kind, inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    return out


def _allreduce(x, out=None, reduce_type="sum", sync_mode=False):
    """The reduction of `x` of all trainers."""
    if reduce_type not in _REDUCTIONS:
        raise TypeError("reduce type can only be [sum|prod|max|min]")
    out = _out(LayerHelper("allreduce"), x, "tmp", x.shape) if out is None else out
    number = _REDUCTIONS[reduce_type]
    return _append("allreduce", x, out, reduce_type=number, sync_mode=sync_mode)


def _broadcast(x, root, sync_mode=False):
    """`x` of one trainer."""
    return _append("broadcast", x, x, sync_mode=sync_mode, root=root)


def _c_allreduce(x, out=None, reduce_type="sum", ring_id=0, use_calc_stream=False):
    """The reduction of `x` of all trainers."""
    if reduce_type not in _REDUCTIONS:
        raise TypeError('reduce type can only be "sum|prod|max|min]"')
    kind = "c_allreduce_" + reduce_type
    out = _out(LayerHelper("c_allreduce"), x, kind, x.shape) if out is None else out
    return _append(kind, x, out, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_broadcast(x, root=0, ring_id=0, use_calc_stream=False):
    """`x` of one trainer."""
    return _append(
        "c_broadcast", x, x, root=root, ring_id=ring_id, use_calc_stream=use_calc_stream
    )


def _rows(x, change):
    shape = list(x.shape)
    if shape[0] > 0:
        shape[0] = change(shape[0])
    return shape


def _c_allgather(x, nranks, ring_id=0, use_calc_stream=False):
    """`x` of all trainers, one below the other."""
    kind = "c_allgather"
    out = _out(LayerHelper(kind), x, kind, _rows(x, lambda rows: rows * nranks))
    return _append(kind, x, out, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_reducescatter(x, nranks, ring_id=0, use_calc_stream=False):
    """This trainer's rows of the sum of `x` of all trainers."""
    if x.shape[0] > 0 and x.shape[0] % nranks:
        text = "x.shape[0]({}) cannot be evenly divided by nranks({})"
        raise ValueError(text.format(x.shape[0], nranks))
    kind = "c_reducescatter"
    out = _out(LayerHelper(kind), x, kind, _rows(x, lambda rows: rows // nranks))
    return _append(kind, x, out, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_sync_calc_stream(x):
    """There are no streams here: `x` itself."""
    return _append("c_sync_calc_stream", x, x)


def _c_sync_comm_stream(x, ring_id):
    """There are no streams here: `x` itself."""
    return _append("c_sync_comm_stream", x, x, ring_id=ring_id)
