"""Other shapes of the same numbers, parts of them, and several put together."""

from ..fluid import layers
from ._op import Variable, axes_of, make, need_variable


def _sizes(shape):
    """A list of numbers and variables, or a variable."""
    if isinstance(shape, Variable):
        return shape
    return [size if isinstance(size, Variable) else int(size) for size in shape]


def reshape(x, shape, name=None):
    """The same numbers in another shape: 0 copies a size, one -1 stands for what is left over."""
    need_variable(x, "reshape")
    return layers.reshape(x, _sizes(shape), name=name)


def flatten(x, start_axis=0, stop_axis=-1, name=None):
    """The axes from `start_axis` to `stop_axis` become one."""
    need_variable(x, "flatten")
    attrs = {"start_axis": int(start_axis), "stop_axis": int(stop_axis)}
    return make("flatten_contiguous_range", {"X": x}, attrs, outs=("Out", "XShape"), name=name, layer="flatten")[0]


def squeeze(x, axis=None, name=None):
    """Without axes of size 1: those named, or all."""
    need_variable(x, "squeeze")
    return layers.squeeze(x, axes_of(axis) or [], name=name)


def unsqueeze(x, axis, name=None):
    """With axes of size 1 at these places."""
    need_variable(x, "unsqueeze")
    return layers.unsqueeze(x, axis if isinstance(axis, Variable) else axes_of(axis), name=name)


def transpose(x, perm, name=None):
    """The axes in another order."""
    need_variable(x, "transpose")
    return layers.transpose(x, list(perm), name=name)


def t(input, name=None):
    """A matrix turned around; a row stays."""
    return transpose(input, [1, 0]) if len(input.shape) == 2 else layers.assign(input)


def concat(x, axis=0, name=None):
    """Several variables one behind the other along an axis."""
    return layers.concat([x] if isinstance(x, Variable) else list(x), axis, name=name)


def stack(x, axis=0, name=None):
    """Several variables along a new axis."""
    return layers.stack([x] if isinstance(x, Variable) else list(x), axis)


def unstack(x, axis=0, num=None):
    """The parts along an axis, without it."""
    return layers.unstack(x, axis, num)


def unbind(input, axis=0):
    """The parts along an axis, without it."""
    return layers.unstack(input, axis)


def split(x, num_or_sections, axis=0, name=None):
    """Parts along an axis: so many equal ones, or of these sizes."""
    need_variable(x, "split")
    return layers.split(x, num_or_sections, dim=axis, name=name)


def chunk(x, chunks, axis=0, name=None):
    """So many equal parts along an axis."""
    return split(x, chunks, axis)


def slice(input, axes, starts, ends):
    """From `starts` to `ends` along each of `axes`."""
    need_variable(input, "slice", "input")
    return layers.slice(input, list(axes), starts, ends)


def gather(x, index, axis=None, name=None):
    """The parts at `index` along an axis."""
    axis = 0 if axis is None else int(axis)
    if axis == 0:
        return layers.gather(x, index, overwrite=False)
    order = list(range(len(x.shape)))
    axis %= len(order)
    order[0], order[axis] = order[axis], order[0]
    return transpose(layers.gather(transpose(x, order), index, overwrite=False), order)


def index_select(x, index, axis=0, name=None):
    """The parts at `index` along an axis."""
    return gather(x, index, axis)


def gather_nd(x, index, name=None):
    """The parts at the places that the last axis of `index` names."""
    return layers.gather_nd(x, index, name=name)


def scatter(x, index, updates, overwrite=True, name=None):
    """x with the rows at `index` replaced, or the sum of all updates there."""
    return layers.scatter(x, index, updates, name=name, overwrite=overwrite)


def scatter_nd_add(x, index, updates, name=None):
    """x with updates added at the places that `index` names."""
    return layers.scatter_nd_add(x, index, updates, name=name)


def tile(x, repeat_times, name=None):
    """x repeated along each axis; missing axes are put in front."""
    need_variable(x, "tile")
    times = _sizes(repeat_times)
    if isinstance(times, Variable):
        return make("tile", {"X": x, "RepeatTimes": times}, {"repeat_times": [-1] * times.shape[0]}, name=name)
    inputs, numbers = _with_tensors("repeat_times_tensor", times)
    return make("tile", {"X": x, **inputs}, {"repeat_times": numbers}, name=name)


def _with_tensors(port, sizes):
    """The input and the attribute for sizes, some of which are variables."""
    if not any(isinstance(size, Variable) for size in sizes):
        return {}, sizes
    tensors = [
        layers.cast(size, "int32") if isinstance(size, Variable) else layers.fill_constant([1], "int32", size)
        for size in sizes
    ]
    return {port: tensors}, [-1 if isinstance(size, Variable) else size for size in sizes]


def expand(x, shape, name=None):
    """x repeated along axes of size 1 until it has this shape; -1 keeps a size."""
    need_variable(x, "expand")
    if isinstance(shape, Variable):
        return make("expand_v2", {"X": x, "Shape": shape}, {"shape": [-1] * shape.shape[0]}, name=name, layer="expand")
    inputs, sizes = _with_tensors("expand_shapes_tensor", _sizes(shape))
    return make("expand_v2", {"X": x, **inputs}, {"shape": sizes}, name=name, layer="expand")


broadcast_to = expand


def expand_as(x, y, name=None):
    """x repeated until it has the shape of y."""
    return make("expand_v2", {"X": x, "Shape": layers.shape(y)}, {"shape": list(y.shape)}, name=name, layer="expand_as")


def reverse(x, axis, name=None):
    """The order turned around along axes."""
    return layers.reverse(x, axes_of(axis))


flip = reverse


def cast(x, dtype):
    """The same numbers in another type."""
    need_variable(x, "cast")
    return layers.cast(x, dtype)


def shape(input):
    """The sizes of a variable, as a variable."""
    return layers.shape(input)


def numel(x, name=None):
    """How many numbers there are."""
    return layers.reduce_prod(layers.cast(layers.shape(x), "int64"))


def rank(input):
    """How many axes there are."""
    return layers.fill_constant([1], "int32", len(input.shape))


def masked_select(x, mask, name=None):
    """The numbers where `mask` is true, in a row."""
    need_variable(x, "masked_select")
    return make("masked_select", {"X": x, "Mask": mask}, outs=("Y",), name=name)


def strided_slice(x, axes, starts, ends, strides, name=None):
    """Every n-th part from `starts` to `ends` along axes."""
    return layers.strided_slice(x, axes, starts, ends, strides)


def take_along_axis(arr, indices, axis):
    """Not there; says what is."""
    raise NotImplementedError("take_along_axis is not supported: use gather_nd, or gather along axis 0")


def unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, dtype="int64", name=None):
    """Different numbers in the order of their first places; with the place of each."""
    if return_index or return_counts or axis is not None:
        raise NotImplementedError("unique has return_inverse alone here")
    raise NotImplementedError(
        "paddle.unique sorts, and nothing here does; fluid.layers.unique gives the order of first places"
    )
