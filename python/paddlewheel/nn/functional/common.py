"""Products, tables, dropout, convolutions, pools and norms."""

from ...fluid import layers, unique_name
from ...tensor import linalg, math
from ...tensor._op import make, need_variable
from ...tensor.shape import squeeze, unsqueeze

_TRAINING = [True]


def linear(x, weight, bias=None, name=None):
    """x weight + bias."""
    need_variable(x, "linear")
    # Both operators share a name, as in version 2: names of later layers count on from it.
    name = unique_name.generate("linear") if name is None else name
    attrs = {"trans_x": False, "trans_y": False}
    product = make("matmul_v2", {"X": x, "Y": weight}, attrs, name=name, layer="linear")
    if bias is None:
        return product
    return make("elementwise_add", {"X": product, "Y": bias}, {"axis": len(x.shape) - 1}, name=name, layer="linear")


def embedding(x, weight, padding_idx=None, sparse=False, name=None):
    """Rows of a table for ids of any shape; zeros for `padding_idx`."""
    need_variable(x, "embedding")
    rows = weight.shape[0]
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else rows + padding_idx
    attrs = {"is_sparse": bool(sparse), "is_distributed": False, "remote_prefetch": False, "padding_idx": padding}
    return make("lookup_table_v2", {"Ids": x, "W": weight}, attrs, dtype=weight.dtype, name=name, layer="embedding")


def one_hot(x, num_classes, name=None):
    """A one at the place of each id, zeros elsewhere."""
    return layers.one_hot_v2(x, num_classes)


def dropout(x, p=0.5, axis=None, training=True, mode="upscale_in_train", name=None):
    """A share p of numbers becomes zero; the others grow so that the sum stays (`upscale_in_train`)."""
    need_variable(x, "dropout")
    if axis is not None:
        raise NotImplementedError("dropout along an axis is not supported")
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise ValueError("mode argument should be 'downscale_in_infer' or 'upscale_in_train'")
    if p == 0:
        return x
    if not training:
        return math.scale(x, 1.0 if mode == "upscale_in_train" else 1.0 - p)
    return layers.dropout(x, p, name=name, dropout_implementation=mode)


def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis."""
    dots = math.sum(math.multiply(x1, x2), axis=axis)
    squares = math.sum(math.multiply(x1, x1), axis=axis)
    others = math.sum(math.multiply(x2, x2), axis=axis)
    length = math.sqrt(math.clip(math.multiply(squares, others), min=eps * eps))
    return math.divide(dots, length)


def normalize(x, p=2, axis=1, epsilon=1e-12, name=None):
    """Vectors along an axis, divided by their length."""
    length = linalg.norm(x, p, axis, True)
    return math.divide(x, math.clip(length, min=epsilon))


def layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-05, name=None):
    """The last axes with mean 0 and variance 1, then scaled and shifted."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    attrs = {"epsilon": epsilon, "begin_norm_axis": len(x.shape) - len(shape)}
    if list(x.shape[attrs["begin_norm_axis"]:]) != shape:
        raise ValueError("normalized_shape is {}, but the input's shape is {}".format(shape, tuple(x.shape)))
    inputs = {"X": x, "Scale": weight, "Bias": bias}
    return make("layer_norm", inputs, attrs, ("Y", "Mean", "Variance"), name=name)[0]


def _two(value):
    return [int(each) for each in value] if isinstance(value, (list, tuple)) else [int(value)] * 2


def _paddings(padding):
    """Sizes, and the algorithm that computes them."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ValueError("Unknown padding: '{}'. It can only be 'SAME' or 'VALID'.".format(padding))
        return [0, 0], padding.upper()
    return _two(padding), "EXPLICIT"


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCHW", name=None):
    """Filters slid over images."""
    need_variable(x, "conv2d")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format is NCHW or NHWC, not {}".format(data_format))
    last = data_format == "NHWC"
    if last:
        x = layers.transpose(x, [0, 3, 1, 2])
    sizes, algorithm = _paddings(padding)
    attrs = {
        "strides": _two(stride), "paddings": sizes, "dilations": _two(dilation), "groups": int(groups),
        "padding_algorithm": algorithm, "data_format": "NCHW",
    }
    out = make("conv2d", {"Input": x, "Filter": weight}, attrs, ("Output",), name=name)
    if bias is not None:
        out = make("elementwise_add", {"X": out, "Y": bias}, {"axis": 1}, name=name, layer="conv2d")
    return layers.transpose(out, [0, 2, 3, 1]) if last else out


def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCL", name=None):
    """Filters slid over rows."""
    if data_format not in ("NCL", "NLC"):
        raise ValueError("data_format is NCL or NLC, not {}".format(data_format))
    if data_format == "NLC":
        x = layers.transpose(x, [0, 2, 1])
    first = lambda value: int(value[0]) if isinstance(value, (list, tuple)) else int(value)
    sizes = padding if isinstance(padding, str) else [first(padding), 0]
    if isinstance(padding, (list, tuple)) and len(padding) > 1:
        raise NotImplementedError("conv1d takes the same padding at both ends")
    images, filters = unsqueeze(x, -1), unsqueeze(weight, -1)
    out = conv2d(images, filters, bias, [first(stride), 1], sizes, [first(dilation), 1], groups)
    out = squeeze(out, -1)
    return layers.transpose(out, [0, 2, 1]) if data_format == "NLC" else out


def _pool2d(x, kind, kernel_size, stride, padding, ceil_mode, exclusive, data_format):
    need_variable(x, kind + "_pool2d")
    size = _two(kernel_size)
    stride = size if stride is None else _two(stride)
    padding = padding if isinstance(padding, str) else _two(padding)
    return layers.pool2d(
        x, pool_size=size, pool_type=kind, pool_stride=stride, pool_padding=padding,
        ceil_mode=ceil_mode, exclusive=exclusive, data_format=data_format,
    )


def max_pool2d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format="NCHW", name=None):
    """The largest pixel of each window."""
    if return_mask:
        raise NotImplementedError("max_pool2d(return_mask=True) is not supported")
    return _pool2d(x, "max", kernel_size, stride, padding, ceil_mode, True, data_format)


def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None, data_format="NCHW", name=None):
    """The mean of each window."""
    if divisor_override is not None:
        raise NotImplementedError("avg_pool2d(divisor_override=...) is not supported")
    return _pool2d(x, "avg", kernel_size, stride, padding, ceil_mode, exclusive, data_format)


def _pool1d(x, kind, kernel_size, stride, padding, ceil_mode, exclusive):
    first = lambda value: int(value[0]) if isinstance(value, (list, tuple)) else int(value)
    stride = kernel_size if stride is None else stride
    sizes = padding if isinstance(padding, str) else [first(padding), 0]
    images = unsqueeze(x, -1)
    out = _pool2d(images, kind, [first(kernel_size), 1], [first(stride), 1], sizes, ceil_mode, exclusive, "NCHW")
    return squeeze(out, -1)


def max_pool1d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, name=None):
    """The largest of each window."""
    if return_mask:
        raise NotImplementedError("max_pool1d(return_mask=True) is not supported")
    return _pool1d(x, "max", kernel_size, stride, padding, ceil_mode, True)


def avg_pool1d(x, kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None):
    """The mean of each window."""
    return _pool1d(x, "avg", kernel_size, stride, padding, ceil_mode, exclusive)


def adaptive_avg_pool2d(x, output_size, data_format="NCHW", name=None):
    """Means of as many windows as asked for."""
    return layers.adaptive_pool2d(x, output_size, "avg")


def adaptive_max_pool2d(x, output_size, return_mask=False, name=None):
    """The largest of as many windows as asked for."""
    return layers.adaptive_pool2d(x, output_size, "max")


def pad(x, pad, mode="constant", value=0.0, data_format="NCHW", name=None):
    """Numbers around x: a pair for each axis."""
    if mode != "constant" or len(pad) != 2 * len(x.shape):
        raise NotImplementedError("pad takes mode 'constant' and two sizes for each axis")
    return layers.pad(x, list(pad), value, name)


def sequence_mask(x, maxlen=None, dtype="int64", name=None):
    """Ones before each length, zeros after it."""
    return layers.sequence_mask(x, maxlen, dtype, name)


def label_smooth(label, prior_dist=None, epsilon=0.1, name=None):
    """Labels a little less sure."""
    return layers.label_smooth(label, prior_dist, epsilon, name=name)
