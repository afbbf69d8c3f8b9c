"""Layers with parameters: products, tables, norms, convolutions."""

from ...fluid import layers as _fluid
from ...fluid.layer_helper import LayerHelper
from ...fluid.param_attr import ParamAttr
from ...tensor._op import make
from .. import functional as F
from .. import initializer as I
from .layers import Layer


class Linear(Layer):
    """x weight + bias."""

    def __init__(self, in_features, out_features, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.name = name

    def forward(self, input):
        return F.linear(input, self.weight, self.bias, self.name)


class Embedding(Layer):
    """Rows of a table for ids."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, sparse=False, weight_attr=None, name=None):
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise ValueError("num_embeddings and embedding_dim must be greater than 0")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError("padding_idx must be within [-{0}, {0})".format(num_embeddings))
        self._num_embeddings, self._embedding_dim = num_embeddings, embedding_dim
        self._sparse = sparse
        self._padding_idx = padding_idx
        self._name = name
        self.weight = self.create_parameter(
            [num_embeddings, embedding_dim], weight_attr, default_initializer=I.XavierNormal() if weight_attr is None else None
        )

    def forward(self, x):
        return F.embedding(x, self.weight, self._padding_idx, self._sparse, self._name)


class Dropout(Layer):
    """A share p of numbers becomes zero in training."""

    def __init__(self, p=0.5, axis=None, mode="upscale_in_train", name=None):
        super().__init__()
        self.p, self.axis, self.mode, self.name = p, axis, mode, name

    def forward(self, input):
        return F.dropout(input, self.p, self.axis, self.training, self.mode, self.name)


class Flatten(Layer):
    """The axes from `start_axis` to `stop_axis` become one."""

    def __init__(self, start_axis=1, stop_axis=-1):
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input):
        from ...tensor.shape import flatten

        return flatten(input, self.start_axis, self.stop_axis)


class LayerNorm(Layer):
    """The last axes with mean 0 and variance 1, then scaled and shifted."""

    def __init__(self, normalized_shape, epsilon=1e-05, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._normalized_shape, self._epsilon = shape, epsilon
        size = 1
        for each in shape:
            size *= each
        self.weight = self.create_parameter([size], weight_attr, default_initializer=I.Constant(1.0))
        self.bias = self.create_parameter([size], bias_attr, is_bias=True)

    def forward(self, input):
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)


class _BatchNorm(Layer):
    """Each channel with mean 0 and variance 1 over the batch, then scaled and shifted."""

    def __init__(self, num_features, momentum, epsilon, weight_attr, bias_attr, channels_last, use_global_stats):
        super().__init__()
        self._momentum, self._epsilon = momentum, epsilon
        self._channels_last, self._use_global_stats = channels_last, use_global_stats
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=I.Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)
        self._mean = self._statistic(num_features, 0.0)
        self._variance = self._statistic(num_features, 1.0)

    def _statistic(self, size, start):
        attr = ParamAttr(initializer=I.Constant(start), trainable=False, do_model_average=True)
        statistic = self.create_parameter([size], attr)
        statistic.stop_gradient = True
        return statistic

    def _normalized(self, x, is_test):
        attrs = {
            "momentum": self._momentum, "epsilon": self._epsilon, "is_test": is_test,
            "data_layout": "NHWC" if self._channels_last else "NCHW",
            "use_global_stats": bool(self._use_global_stats),
        }
        helper = LayerHelper("batch_norm")
        saved = [helper.create_variable_for_type_inference(x.dtype, stop_gradient=True) for _ in range(2)]
        out = helper.create_variable_for_type_inference(x.dtype)
        inputs = {"X": x, "Scale": self.weight, "Bias": self.bias, "Mean": self._mean, "Variance": self._variance}
        outputs = {
            "Y": out, "MeanOut": self._mean, "VarianceOut": self._variance,
            "SavedMean": saved[0], "SavedVariance": saved[1],
        }
        helper.append_op(type="batch_norm", inputs=inputs, outputs=outputs, attrs=attrs)
        return out

    def forward(self, input):
        return self._normalized(input, not self.training)


class BatchNorm(_BatchNorm):
    """Batch normalization in the form of version 1: the activation is part of it."""

    def __init__(
        self, num_channels, act=None, is_test=False, momentum=0.9, epsilon=1e-05, param_attr=None, bias_attr=None,
        dtype="float32", data_layout="NCHW", in_place=False, moving_mean_name=None, moving_variance_name=None,
        do_model_average_for_mean_and_var=True, use_global_stats=False, trainable_statistics=False,
    ):
        if moving_mean_name or moving_variance_name or trainable_statistics:
            raise NotImplementedError("BatchNorm names its statistics itself, and they are not trained")
        super().__init__(num_channels, momentum, epsilon, param_attr, bias_attr, data_layout == "NHWC", use_global_stats)
        self._act, self._is_test = act, is_test

    def forward(self, input):
        out = self._normalized(input, self._is_test or not self.training)
        return out if self._act is None else make(self._act, {"X": out})


class BatchNorm1D(_BatchNorm):
    """Batch normalization of rows, or of channels with a length."""

    RANKS = (2, 3)

    def __init__(
        self, num_features, momentum=0.9, epsilon=1e-05, weight_attr=None, bias_attr=None, data_format="NCL",
        use_global_stats=None, name=None,
    ):
        last = data_format in ("NLC", "NHWC", "NC") and data_format != "NC"
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, last, use_global_stats)

    def forward(self, input):
        if len(input.shape) not in self.RANKS:
            raise ValueError("{} takes {} axes, but the input has {}".format(type(self).__name__, self.RANKS, len(input.shape)))
        return super().forward(input)


class BatchNorm2D(BatchNorm1D):
    """Batch normalization of images."""

    RANKS = (4,)

    def __init__(
        self, num_features, momentum=0.9, epsilon=1e-05, weight_attr=None, bias_attr=None, data_format="NCHW",
        use_global_stats=None, name=None,
    ):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class _Conv(Layer):
    def _filters(self, in_channels, out_channels, sizes, groups, weight_attr, bias_attr):
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        fan_in = in_channels
        for size in sizes:
            fan_in *= size
        start = I.Normal(0.0, (2.0 / fan_in) ** 0.5)
        shape = [out_channels, in_channels // groups] + sizes
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=start)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)


class Conv2D(_Conv):
    """Filters slid over images."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        padding_mode="zeros", weight_attr=None, bias_attr=None, data_format="NCHW",
    ):
        super().__init__()
        if padding_mode != "zeros":
            raise NotImplementedError("Conv2D pads with zeros alone")
        self._options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, data_format=data_format)
        sizes = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size] * 2
        self._filters(in_channels, out_channels, sizes, groups, weight_attr, bias_attr)

    def forward(self, x):
        return F.conv2d(x, self.weight, self.bias, **self._options)


class Conv1D(_Conv):
    """Filters slid over rows."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        padding_mode="zeros", weight_attr=None, bias_attr=None, data_format="NCL",
    ):
        super().__init__()
        if padding_mode != "zeros":
            raise NotImplementedError("Conv1D pads with zeros alone")
        self._options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, data_format=data_format)
        sizes = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size]
        self._filters(in_channels, out_channels, sizes, groups, weight_attr, bias_attr)

    def forward(self, x):
        return F.conv1d(x, self.weight, self.bias, **self._options)


class PReLU(Layer):
    """x above 0, else x times a learned number."""

    def __init__(self, num_parameters=1, init=0.25, weight_attr=None, data_format="NCHW", name=None):
        super().__init__()
        self._data_format = data_format
        self.weight = self.create_parameter([num_parameters], weight_attr, default_initializer=I.Constant(init))

    def forward(self, x):
        return F.prelu(x, self.weight, self._data_format)


def _of_function(name, function, *arguments):
    """A layer whose arguments are those of a function behind its input."""
    defaults = dict(arguments)

    def __init__(self, *given, **named):
        Layer.__init__(self)
        named.pop("name", None)
        if len(given) > len(defaults) or set(named) - set(defaults):
            raise TypeError("{} takes {}".format(name, ", ".join(defaults) or "no arguments"))
        self._options = {**defaults, **dict(zip(defaults, given)), **named}

    def forward(self, *inputs):
        return function(*inputs, **self._options)

    return type(name, (Layer,), {"__init__": __init__, "forward": forward, "__doc__": function.__doc__})


ReLU = _of_function("ReLU", F.relu)
ReLU6 = _of_function("ReLU6", F.relu6)
LeakyReLU = _of_function("LeakyReLU", F.leaky_relu, ("negative_slope", 0.01))
ELU = _of_function("ELU", F.elu, ("alpha", 1.0))
GELU = _of_function("GELU", F.gelu, ("approximate", False))
Sigmoid = _of_function("Sigmoid", F.sigmoid)
LogSigmoid = _of_function("LogSigmoid", F.log_sigmoid)
Tanh = _of_function("Tanh", F.tanh)
Softmax = _of_function("Softmax", F.softmax, ("axis", -1))
LogSoftmax = _of_function("LogSoftmax", F.log_softmax, ("axis", -1))
Softplus = _of_function("Softplus", F.softplus, ("beta", 1), ("threshold", 20))
Softsign = _of_function("Softsign", F.softsign)
Swish = _of_function("Swish", F.swish)
Silu = _of_function("Silu", F.silu)
Mish = _of_function("Mish", F.mish)
Hardswish = _of_function("Hardswish", F.hardswish)
Hardsigmoid = _of_function("Hardsigmoid", F.hardsigmoid)
CosineSimilarity = _of_function("CosineSimilarity", F.cosine_similarity, ("axis", 1), ("eps", 1e-8))
MaxPool1D = _of_function(
    "MaxPool1D", F.max_pool1d, ("kernel_size", None), ("stride", None), ("padding", 0), ("return_mask", False),
    ("ceil_mode", False),
)
MaxPool2D = _of_function(
    "MaxPool2D", F.max_pool2d, ("kernel_size", None), ("stride", None), ("padding", 0), ("return_mask", False),
    ("ceil_mode", False), ("data_format", "NCHW"),
)
AvgPool1D = _of_function(
    "AvgPool1D", F.avg_pool1d, ("kernel_size", None), ("stride", None), ("padding", 0), ("exclusive", True),
    ("ceil_mode", False),
)
AvgPool2D = _of_function(
    "AvgPool2D", F.avg_pool2d, ("kernel_size", None), ("stride", None), ("padding", 0), ("ceil_mode", False),
    ("exclusive", True), ("divisor_override", None), ("data_format", "NCHW"),
)
AdaptiveAvgPool2D = _of_function("AdaptiveAvgPool2D", F.adaptive_avg_pool2d, ("output_size", None))
BCELoss = _of_function("BCELoss", F.binary_cross_entropy, ("weight", None), ("reduction", "mean"))
BCEWithLogitsLoss = _of_function(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, ("weight", None), ("reduction", "mean"), ("pos_weight", None)
)
MSELoss = _of_function("MSELoss", F.mse_loss, ("reduction", "mean"))
L1Loss = _of_function("L1Loss", F.l1_loss, ("reduction", "mean"))
SmoothL1Loss = _of_function("SmoothL1Loss", F.smooth_l1_loss, ("reduction", "mean"), ("delta", 1.0))
KLDivLoss = _of_function("KLDivLoss", F.kl_div, ("reduction", "mean"))
NLLLoss = _of_function("NLLLoss", F.nll_loss, ("weight", None), ("ignore_index", -100), ("reduction", "mean"))
MarginRankingLoss = _of_function("MarginRankingLoss", F.margin_ranking_loss, ("margin", 0.0), ("reduction", "mean"))
CrossEntropyLoss = _of_function(
    "CrossEntropyLoss", F.cross_entropy, ("weight", None), ("ignore_index", -100), ("reduction", "mean"),
    ("soft_label", False), ("axis", -1), ("use_softmax", True), ("label_smoothing", 0.0),
)
