"""Groups of layers that often stand together."""

from . import layers


def simple_img_conv_pool(
    input,
    num_filters,
    filter_size,
    pool_size,
    pool_stride,
    pool_padding=0,
    pool_type="max",
    global_pooling=False,
    conv_stride=1,
    conv_padding=0,
    conv_dilation=1,
    conv_groups=1,
    param_attr=None,
    bias_attr=None,
    act=None,
    use_cudnn=True,
):
    """A convolution and a pooling."""
    conv = layers.conv2d(
        input=input,
        num_filters=num_filters,
        filter_size=filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
    )
    return layers.pool2d(
        input=conv,
        pool_size=pool_size,
        pool_type=pool_type,
        pool_stride=pool_stride,
        pool_padding=pool_padding,
        global_pooling=global_pooling,
    )


def img_conv_group(
    input,
    conv_num_filter,
    pool_size,
    conv_padding=1,
    conv_filter_size=3,
    conv_act=None,
    param_attr=None,
    conv_with_batchnorm=False,
    conv_batchnorm_drop_rate=0.0,
    pool_stride=1,
    pool_type="max",
    use_cudnn=True,
):
    """Several convolutions, each with normalisation and dropout if asked for, and a pooling."""
    assert isinstance(conv_num_filter, (list, tuple))
    n_convs = len(conv_num_filter)

    def each(value):
        values = value if hasattr(value, "__len__") and not isinstance(value, str) else None
        assert values is None or len(values) == n_convs
        return [value] * n_convs if values is None else list(values)

    tmp = input
    rows = zip(
        conv_num_filter,
        each(conv_filter_size),
        each(conv_padding),
        each(param_attr),
        each(conv_with_batchnorm),
        each(conv_batchnorm_drop_rate),
    )
    for filters, size, padding, attr, normed, drop_rate in rows:
        tmp = layers.conv2d(
            input=tmp,
            num_filters=filters,
            filter_size=size,
            padding=padding,
            param_attr=attr,
            act=None if normed else conv_act,
        )
        if normed:
            tmp = layers.batch_norm(input=tmp, act=conv_act)
            if abs(drop_rate) > 1e-5:
                tmp = layers.dropout(x=tmp, dropout_prob=drop_rate)
    return layers.pool2d(
        input=tmp, pool_size=pool_size, pool_type=pool_type, pool_stride=pool_stride
    )


def sequence_conv_pool(
    input,
    num_filters,
    filter_size,
    param_attr=None,
    act="sigmoid",
    pool_type="max",
    bias_attr=None,
):
    """A convolution over sequences and a pooling of each."""
    conv = layers.sequence_conv(
        input=input,
        num_filters=num_filters,
        filter_size=filter_size,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
    )
    return layers.sequence_pool(input=conv, pool_type=pool_type)


def glu(input, dim=-1):
    """The first half of a dimension times the sigmoid of the second half."""
    a, b = layers.split(input, num_or_sections=2, dim=dim)
    return layers.elementwise_mul(x=a, y=layers.sigmoid(x=b))


def scaled_dot_product_attention(queries, keys, values, num_heads=1, dropout_rate=0.0):
    """Attention of queries to keys, as a weighted sum of values."""
    if not len(queries.shape) == len(keys.shape) == len(values.shape) == 3:
        raise ValueError("Inputs queries, keys and values should all be 3-D tensors.")
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError("The hidden size of queries and keys should be the same.")
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError("The max sequence length in value batch and in key batch differ.")
    if keys.shape[-1] % num_heads != 0 or values.shape[-1] % num_heads != 0:
        raise ValueError("The hidden size must be divisible by the number of attention heads.")
    q, k, v = (split_heads(x, num_heads) for x in (queries, keys, values))
    scaled = layers.scale(x=q, scale=(keys.shape[-1] // num_heads) ** -0.5)
    product = layers.matmul(x=scaled, y=k, transpose_y=True)
    weights = layers.softmax(product)
    if dropout_rate:
        weights = layers.dropout(weights, dropout_prob=dropout_rate, is_test=False)
    context = layers.matmul(weights, v)
    if num_heads == 1:
        return context
    joined = layers.transpose(context, perm=[0, 2, 1, 3])
    size = joined.shape[2] * joined.shape[3]
    return layers.reshape(x=joined, shape=[0, 0, size])


def split_heads(x, num_heads):
    """The hidden size split in heads, the heads before the sequence."""
    if num_heads == 1:
        return x
    split = layers.reshape(x=x, shape=[0, 0, num_heads, x.shape[-1] // num_heads])
    return layers.transpose(split, perm=[0, 2, 1, 3])
