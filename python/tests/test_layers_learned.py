"""Layers with parameters, metrics, and `fluid.nets`: names, shapes and values of Fluid 1.8.5."""

import numpy as np
import pytest

from building import L, f32, net, whole  # noqa: F401
from paddlewheel import _core

# Layers with parameters.


def test_batch_norm(net):
    out = L.batch_norm(whole(2, 3, 1, 1), act="relu")
    assert (out.name, net.ops) == ("batch_norm_0.tmp_3", ["batch_norm", "relu"])
    assert net.params == [
        "batch_norm_0.w_0",
        "batch_norm_0.b_0",
        "batch_norm_0.w_1",
        "batch_norm_0.w_2",
    ]
    x = f32([1, 2, 3], [3, 2, 7]).reshape(2, 3, 1, 1)
    got = net.run([out], x=x)[0]
    np.testing.assert_allclose(got.reshape(2, 3), [[0, 0, 0], [1, 0, 1]], atol=1e-4)


def test_batch_norm_takes_its_momentum_from_a_variable(net):
    x = whole(2, 1)
    L.batch_norm(x, momentum=L.reduce_min(x), moving_mean_name="mean")
    net.run([], x=f32([0.25], [1.25]))
    np.testing.assert_allclose(np.array(net.scope.find_var("mean").get_tensor()), [0.75 * 0.75])


def test_layer_norm(net):
    out = L.layer_norm(whole(2, 3), name="norm")
    assert (out.name, net.params) == ("norm.tmp_2", ["norm.w_0", "norm.b_0"])
    plain = L.layer_norm(whole_of("x"), scale=False, shift=0, param_attr=False, bias_attr=False)
    assert len(net.params) == 2
    x = f32([1, 2, 3], [4, 4, 4])
    for got in net.run([out, plain], x=x):
        np.testing.assert_allclose(got, [[-1.22474, 0, 1.22474], [0, 0, 0]], atol=1e-4)


def whole_of(name):
    return _core.default_main_program().global_block().var(name)


def test_data_norm(net):
    out = L.data_norm(
        whole(1, 2), name="d", param_attr={"batch_size": 4, "batch_sum": 8.0, "batch_square": 16}
    )
    assert net.params == ["d.batch_size", "d.batch_sum", "d.batch_square_sum"]
    assert out.name == "_generated_var_2"
    np.testing.assert_allclose(net.run([out], x=f32([2, 4]))[0], [[0.0, 1.0]])


def test_continuous_value_model(net):
    x, cvm = whole(1, 4), L.data("cvm", [1, 2], append_batch_size=False)
    with_counts, without = L.continuous_value_model(x, cvm), L.continuous_value_model(x, cvm, False)
    assert (with_counts.shape, without.shape) == ((1, 4), (1, 2))
    got, less = net.run([with_counts, without], x=f32([3, 1, 5, 6]), cvm=f32([3, 1]))
    np.testing.assert_allclose(got, [[np.log(4), np.log(2) - np.log(4), 5, 6]], rtol=1e-6)
    assert less.tolist() == [[5, 6]]


@pytest.mark.parametrize(
    "options, shape",
    [
        (dict(filter_size=3), (-1, 6, 6, 6)),
        (dict(filter_size=(3, 5), stride=[2, 1], padding=[1, 2]), (-1, 6, 4, 8)),
        (dict(filter_size=3, padding="same"), (-1, 6, 8, 8)),
        (dict(filter_size=3, padding="VALID"), (-1, 6, 6, 6)),
        (dict(filter_size=3, padding=[1, 2, 3, 4]), (-1, 6, 9, 13)),
        (dict(filter_size=3, padding=[[0, 0], [0, 0], [1, 2], [3, 4]]), (-1, 6, 9, 13)),
        (dict(filter_size=np.int32(3), dilation=2, groups=3), (-1, 6, 4, 4)),
    ],
)
def test_conv2d_sizes(net, options, shape):
    out = L.conv2d(L.data("img", [3, 8, 8]), num_filters=6, **options)
    assert (out.name, out.shape) == ("conv2d_0.tmp_1", shape)


def test_conv2d_and_pool2d_compute(net):
    ones = _core.Initializer.constant(1.0)
    img = whole(1, 1, 3, 3)
    conv = L.conv2d(img, 1, 2, param_attr=ones, bias_attr=False, act="square")
    assert (conv.name, net.params) == ("conv2d_0.tmp_1", ["conv2d_0.w_0"])
    outs = [
        conv,
        L.pool2d(img, 2),
        L.pool2d(img, pool_size=[2, 2], pool_type="avg", pool_padding=1, pool_stride=2),
        L.pool2d(img, global_pooling=True),
        L.adaptive_pool2d(img, [1, 3], "avg"),
    ]
    x = np.arange(9, dtype="float32").reshape(1, 1, 3, 3)
    got = [out[0, 0].tolist() for out in net.run(outs, x=x)]
    assert got[0] == [[64, 144], [400, 576]]
    assert got[1] == [[4, 5], [7, 8]]
    assert got[2] == [[0, 1.5], [4.5, 6]]
    assert got[3:] == [[[8]], [[3, 4, 5]]]


def test_prelu(net):
    x = whole(1, 2, 1, 1)
    outs = [L.prelu(x, "channel"), L.prelu(x, mode="all"), L.prelu(x, "element")]
    assert [net.main.global_block().var(name).shape for name in net.params] == [
        (1, 2, 1, 1),
        (1,),
        (1, 2, 1, 1),
    ]
    for got in net.run(outs, x=f32([-4, 2]).reshape(1, 2, 1, 1)):
        assert got.ravel().tolist() == [-1, 2]


def test_embedding(net):
    ids = L.data("ids", [1], dtype="int64", lod_level=1)
    table = _core.Initializer.array(np.arange(8, dtype="float32").reshape(4, 2))
    rows = L.embedding(ids, (4, 2), is_sparse=1, param_attr=table, padding_idx=-1)
    any_shape = L.embedding_v2(
        L.data_checked("pairs", [None, 2], "int64"), size=[4, np.int64(2)], param_attr=table
    )
    assert (rows.name, rows.shape, rows.lod_level) == ("embedding_0.tmp_0", (-1, 2), 1)
    assert (any_shape.name, any_shape.shape) == ("embedding_1.tmp_0", (-1, 2, 2))
    assert net.ops == ["lookup_table", "lookup_table_v2"]
    assert net.main.global_block().ops[0].attr("padding_idx") == 3
    got, pairs = net.run([rows, any_shape], ids=np.array([[1], [3]]), pairs=np.array([[3, 0]]))
    assert (got.tolist(), pairs.tolist()) == ([[2, 3], [0, 0]], [[[6, 7], [0, 1]]])


def test_one_hot_and_smooth_labels(net):
    label = L.data("label", [1], dtype="int64")
    row = L.one_hot(label, depth=4)
    smooth = L.label_smooth(row, epsilon=0.2)
    flat = L.one_hot_v2(L.data_checked("flat", [-1], "int64"), np.int64(2))
    assert [var.shape for var in (row, smooth, flat)] == [(-1, 4), (-1, 4), (-1, 2)]
    got = net.run([row, smooth, flat], label=np.array([[2]]), flat=np.array([1, 0]))
    assert got[0].tolist() == [[0, 0, 1, 0]]
    np.testing.assert_allclose(got[1], [[0.05, 0.05, 0.85, 0.05]], rtol=1e-5)
    assert got[2].tolist() == [[0, 1], [1, 0]]


def test_dropout(net):
    x = whole(1, 1000)
    trained = L.dropout(x, 0.5, seed=7, dropout_implementation="upscale_in_train")
    tested = L.dropout(x, dropout_prob=0.25, is_test=True)
    got, infer = net.run([trained, tested], x=np.ones((1, 1000), "float32"))
    assert set(got.ravel().tolist()) == {0.0, 2.0} and 400 < (got == 0).sum() < 600
    np.testing.assert_allclose(infer, 0.75)


def test_data_checked_checks(net):
    x = L.data_checked("x", [None, 3])
    assert (x.name, x.shape, x.is_data) == ("x", (-1, 3), True)
    out = L.relu(x)
    assert net.run([out], x=f32([1, -1, 0]))[0].tolist() == [[1, 0, 0]]
    with pytest.raises(ValueError, match="x"):
        net.run([out], x=f32([1, 2]))
    with pytest.raises(ValueError, match="x"):
        net.run([out], x=np.array([[1, 2, 3]]))


# Metrics and order.


def test_accuracy_and_order(net):
    x, y = whole(2, 3), L.data("y", [2, 1], append_batch_size=False, dtype="int64")
    best, second = L.accuracy(x, y), L.accuracy(input=x, label=y, k=np.int64(2))
    values, places = L.topk(x, k=2)
    by_var = L.topk(x, k=L.cast(L.reduce_max(y), "int32"))[1]
    sorted_values, order = L.argsort(x, axis=0, descending=True)
    outs = [
        best,
        second,
        values,
        places,
        by_var,
        sorted_values,
        order,
        L.argmax(x, axis=1),
        L.argmin(x),
    ]
    names = [outs[0].name, outs[2].name, outs[3].name, outs[5].name, outs[7].name, outs[8].name]
    assert names == [
        "accuracy_0.tmp_0",
        "top_k_2.tmp_0",
        "top_k_2.tmp_1",
        "argsort_0.tmp_0",
        "arg_max_0.tmp_0",
        "arg_min_0.tmp_0",
    ]
    got = [
        out.tolist() for out in net.run(outs, x=f32([1, 5, 3], [4, 2, 6]), y=np.array([[1], [0]]))
    ]
    assert got[:4] == [[0.5], [1.0], [[5, 3], [6, 4]], [[1, 2], [2, 0]]]
    assert got[4:7] == [[[1], [2]], [[4, 5, 6], [1, 2, 3]], [[1, 0, 1], [0, 1, 0]]]
    assert got[7:] == [[1, 2], [0, 1, 0]]


def test_auc(net):
    predict = L.data("predict", [2])
    label = L.data("label", [1], dtype="int64")
    auc, batch_auc, states = L.auc(predict, label, num_thresholds=100)
    assert (auc.name, batch_auc.name) == ("auc_0.tmp_0", "auc_0.tmp_1")
    assert type(states) is list
    assert [state.name for state in states] == [f"_generated_var_{k}" for k in range(4)]
    p = f32([0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.4, 0.6])
    got = net.run([auc, batch_auc], predict=p, label=np.array([[0], [1], [1], [0]]))
    assert got == [[0.75], [0.75]]


# Composites.


def test_simple_img_conv_pool(net):
    img = L.data("img", [3, 8, 8])
    out = _core.nets.simple_img_conv_pool(
        img, 4, (3, 3), pool_size=2, pool_stride=[2, 2], act="relu"
    )
    assert (out.name, out.shape) == ("pool2d_0.tmp_0", (-1, 4, 3, 3))
    assert net.ops == ["conv2d", "elementwise_add", "relu", "pool2d"]


def test_img_conv_group(net):
    out = _core.nets.img_conv_group(
        L.data("img", [3, 8, 8]),
        conv_num_filter=[4, 4],
        pool_size=2,
        conv_act="relu",
        conv_with_batchnorm=True,
        conv_batchnorm_drop_rate=[0.3, 0.0],
        pool_stride=2,
    )
    assert (out.name, out.shape) == ("pool2d_0.tmp_0", (-1, 4, 4, 4))
    conv = ["conv2d", "elementwise_add", "batch_norm", "relu"]
    assert net.ops == [*conv, "dropout", *conv, "pool2d"]
    with pytest.raises(ValueError, match="conv_padding"):
        _core.nets.img_conv_group(L.data("i", [3, 8, 8]), [4, 4], 2, conv_padding=[1, 1, 1])


def test_glu_and_attention(net):
    gated = _core.nets.glu(whole(1, 4))
    assert (gated.name, gated.shape) == ("elementwise_mul_0.tmp_0", (1, 2))
    np.testing.assert_allclose(net.run([gated], x=f32([1, 2, 0, 0]))[0], [[0.5, 1.0]])
    q = L.data("q", [3, 4])
    assert _core.nets.scaled_dot_product_attention(q, q, q, num_heads=2).shape == (-1, 3, 4)


def test_sequence_conv_pool(net):
    words = L.data("words", [2], lod_level=1)
    pooled = _core.nets.sequence_conv_pool(
        words, num_filters=5, filter_size=3, act="tanh", pool_type="sum"
    )
    assert (pooled.shape, net.ops[-1]) == ((-1, 5), "sequence_pool")
    tensor = _core.LoDTensor()
    tensor.set(np.ones((3, 2), "float32"), _core.CPUPlace())
    tensor.set_lod([[0, 2, 3]])
    assert net.run([pooled], words=tensor)[0].shape == (2, 5)
