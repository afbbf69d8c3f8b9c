"""Functions of Paddle 2.x with inputs: the real one recorded what they give, and ours must give the same.

`REAL_PYTHON two_cases.py > fixtures/paddle2.json` records with the real Paddle 2.6.2.
"""

import json
import sys

import numpy

X = numpy.linspace(-1.3, 1.9, 24).astype("float32").reshape(2, 3, 4)
Y = numpy.cos(numpy.arange(24)).astype("float32").reshape(2, 3, 4)
IDS = numpy.array([[1, 3, 0], [2, 2, 4]], "int64")
LABEL = numpy.array([[0], [2]], "int64")

#: An expression for each case: x and y are of shape (2, 3, 4), v (4), m (4, 5), ids (2, 3), label (2, 1).
TENSORS = """
x + y; x - y; x * y; x / 2; 1 - x; 2 ** x; -x; x[:, 1]; x[0, 1:3]; x @ m; x == y; x > y
paddle.add(x, v); paddle.subtract(v, x); paddle.multiply(x, y[:, :1]); paddle.divide(x, y)
paddle.maximum(x, y); paddle.minimum(x, v); paddle.pow(x, 2); paddle.pow(paddle.abs(x), paddle.abs(y))
paddle.scale(x, 2.0, bias=1.0, bias_after_scale=False); paddle.add_n([x, y, x]); paddle.clip(x, -0.5, 0.5); paddle.clip(x, min=0.1)
paddle.sum(x); paddle.sum(x, axis=1); paddle.sum(x, axis=[0, 2], keepdim=True); paddle.sum(x > 0); paddle.mean(x); paddle.mean(x, axis=-1)
paddle.mean(x, [0, 1], True); paddle.max(x, axis=1); paddle.min(x); paddle.prod(x, axis=2); paddle.var(x, axis=1); paddle.std(x)
paddle.logsumexp(x, axis=-1); paddle.logsumexp(x, axis=1, keepdim=True); paddle.cumsum(x, axis=1); paddle.cumsum(x)
paddle.exp(x); paddle.log(paddle.abs(x) + 1); paddle.log1p(paddle.abs(x)); paddle.sqrt(paddle.abs(x)); paddle.rsqrt(paddle.abs(x)); paddle.square(x); paddle.tanh(x); paddle.reciprocal(x); paddle.sign(x); paddle.floor(x); paddle.sin(x)
paddle.reshape(x, [2, -1]); paddle.reshape(x, [0, 0, 2, 2]); paddle.flatten(x); paddle.flatten(x, 1, 2); paddle.flatten(x, start_axis=1)
paddle.squeeze(x[:, :1], axis=1); paddle.squeeze(paddle.unsqueeze(x, 0)); paddle.unsqueeze(x, [0, 2]); paddle.unsqueeze(x, -1); paddle.transpose(x, [2, 0, 1]); x.reshape([6, 4]).T
paddle.concat([x, y], axis=1); paddle.concat([x, y], -1); paddle.stack([x, y], axis=1); paddle.split(x, 2, axis=2)[1]; paddle.split(x, [1, -1], axis=1)[1]; paddle.chunk(x, 3, axis=1)[2]; paddle.unstack(x, axis=1)[2]
paddle.slice(x, axes=[1, 2], starts=[1, -2], ends=[3, 4]); paddle.gather(x, label.reshape([-1]) // 2); paddle.index_select(x, ids[1] // 2, axis=1)
paddle.tile(x, [2, 1, 1]); paddle.tile(v, [2, 2]); paddle.expand(v, [2, 3, 4]); paddle.expand(x[:, :1], [-1, 3, 4]); paddle.expand_as(v, x); paddle.broadcast_to(v, [3, 4]); paddle.flip(x, axis=[1])
paddle.cast(x, 'int64'); x.astype('float64'); paddle.shape(x); paddle.masked_select(x, x > 0.5); paddle.zeros([2, 3]); paddle.ones([2], dtype='int64'); paddle.full([2, 2], 3); paddle.full([2], 1.5)
paddle.full_like(x, 2); paddle.zeros_like(ids); paddle.ones_like(x, dtype='int32'); paddle.arange(5); paddle.arange(1, 4, 0.5); paddle.eye(3); paddle.linspace(0, 1, 5); paddle.assign(x)
paddle.where(x > 0, x, y); paddle.argmax(x, axis=1); paddle.argmax(x); paddle.argmin(x, axis=-1, keepdim=True); paddle.argsort(y, axis=1); paddle.sort(y, axis=-1, descending=True)
paddle.topk(y, 2)[0]; paddle.topk(y, 2)[1]; paddle.topk(y, k=2, largest=False)[0]; paddle.equal(x, y); paddle.not_equal(ids, label); paddle.less_than(x, v); paddle.logical_not(x > 0); paddle.logical_and(x > 0, y > 0)
paddle.matmul(x, m); paddle.matmul(x, y, transpose_y=True); paddle.matmul(x, v); paddle.matmul(x.reshape([2, 1, 3, 4]), y.reshape([1, 2, 3, 4]), transpose_x=True); paddle.bmm(x, y.transpose([0, 2, 1])); paddle.dot(x[0], y[0]); paddle.norm(x, axis=1); paddle.norm(x, p=1, axis=-1, keepdim=True)
paddle.einsum('bij,jk->bik', x, m); paddle.einsum('bij,bkj->bik', x, y); paddle.einsum('bij,bij->bj', x, y); ids.bitwise_and(ids + 1); x.mean(axis=0); x.unsqueeze(1); x.ndim * x
"""
FUNCTIONS = """
F.relu(x); F.leaky_relu(x); F.elu(x); F.gelu(x); F.sigmoid(x); F.softplus(x); F.softsign(x); F.swish(x); F.mish(x); F.hardsigmoid(x); F.log_sigmoid(x); F.softmax(x); F.softmax(x, axis=1); F.log_softmax(x); F.relu6(x)
F.linear(x, m); F.embedding(ids, m.transpose([1, 0])); F.embedding(ids, m.transpose([1, 0]), padding_idx=2); F.one_hot(ids, 5); F.cosine_similarity(x, y, axis=-1); F.normalize(x, axis=1); F.layer_norm(x, 4); F.layer_norm(x, [3, 4])
F.log_loss(F.sigmoid(x[:, 0, :1]), paddle.cast(label > 1, 'float32')); F.square_error_cost(x, y); F.mse_loss(x, y); F.mse_loss(x, y, reduction='sum'); F.l1_loss(x, y); F.smooth_l1_loss(x, y * 3, delta=0.5)
F.binary_cross_entropy(F.sigmoid(x), F.sigmoid(y)); F.binary_cross_entropy_with_logits(x, F.sigmoid(y)); F.binary_cross_entropy_with_logits(x, F.sigmoid(y), reduction='none')
F.cross_entropy(x[:, 0], label); F.cross_entropy(x[:, 0], label.reshape([-1])); F.cross_entropy(x, F.softmax(y), soft_label=True); F.cross_entropy(x, ids // 2, reduction='none'); F.cross_entropy(x, ids // 2, ignore_index=1); F.softmax_with_cross_entropy(x[:, 0], label); F.cross_entropy(F.softmax(x[:, 0]), label, use_softmax=False)
F.kl_div(F.log_softmax(x), F.softmax(y)); F.margin_ranking_loss(x, y, paddle.sign(x), margin=0.1); F.max_pool1d(x, 2); F.avg_pool1d(x, 2, stride=1); F.max_pool2d(x.unsqueeze(1), 2, stride=1); F.avg_pool2d(x.unsqueeze(1), kernel_size=2, padding=1)
F.conv2d(x.unsqueeze(1), y[:, :1, :2].unsqueeze(1), padding=1); F.conv1d(x, y[:, :, :2]); F.conv1d(x, y.transpose([0, 2, 1])[:, :, :1], data_format='NLC'); F.prelu(x, v[:1]); F.prelu(x, y[0, :, 0]); F.dropout(x, 0.0); F.dropout(x, 0.5, training=False)
"""
LAYERS = """
nn.Linear(4, 3, weight_attr=c(0.3), bias_attr=c(0.1))(x); nn.Linear(4, 3, weight_attr=c(0.3), bias_attr=False)(x); nn.Embedding(5, 2, weight_attr=a(m.shape))(ids); nn.LayerNorm(4)(x); nn.LayerNorm([3, 4], epsilon=0.001)(x)
nn.BatchNorm1D(3)(x); nn.BatchNorm1D(4)(x[0]); nn.BatchNorm2D(2)(x.unsqueeze(0)); nn.BatchNorm(3, momentum=0.99, act='relu')(x); nn.PReLU()(x); nn.PReLU(3, 0.1)(x); nn.Conv1D(3, 2, 2, weight_attr=c(0.2))(x); nn.Conv2D(1, 2, 2, weight_attr=c(0.2), padding=1)(x.unsqueeze(1))
nn.GRU(4, 3, weight_ih_attr=c(0.3), weight_hh_attr=c(-0.2), bias_ih_attr=c(0.1), bias_hh_attr=c(0.2))(x)[0]; nn.GRU(4, 3, 2, weight_ih_attr=c(0.3), weight_hh_attr=c(-0.2), bias_ih_attr=c(0.1), bias_hh_attr=c(0.2))(x)[1]
nn.LSTM(4, 3, weight_ih_attr=c(0.3), weight_hh_attr=c(-0.2), bias_ih_attr=c(0.1), bias_hh_attr=c(0.2))(x)[0]; nn.LSTM(4, 3, 2, 'bidirect', weight_ih_attr=c(0.3), weight_hh_attr=c(-0.2), bias_ih_attr=c(0.1), bias_hh_attr=c(0.2))(x)[0]; nn.LSTM(4, 3, 2, 'bidirect', weight_ih_attr=c(0.3), weight_hh_attr=c(-0.2), bias_ih_attr=c(0.1), bias_hh_attr=c(0.2))(x)[1][1]
nn.SimpleRNN(4, 3, weight_ih_attr=c(0.3), weight_hh_attr=c(-0.2), bias_ih_attr=c(0.1), bias_hh_attr=c(0.2))(x)[0]; nn.RNN(nn.GRUCell(4, 3, c(0.3), c(-0.2), c(0.1), c(0.2)))(x)[0]; nn.RNN(nn.GRUCell(4, 3, c(0.3), c(-0.2), c(0.1), c(0.2)), time_major=True)(x)[1]; nn.GRUCell(4, 3, c(0.3), c(-0.2), c(0.1), c(0.2))(x[0])[0]
nn.Sequential(nn.Linear(4, 3, weight_attr=c(0.3)), nn.Tanh(), nn.Linear(3, 1, weight_attr=c(0.3)))(x); nn.MultiHeadAttention(4, 2, weight_attr=c(0.3))(x); nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, weight_attr=c(0.3))(x); nn.TransformerEncoderLayer(4, 2, 8, 0.0, 'gelu', normalize_before=True, weight_attr=c(0.3))(x)
nn.Softmax()(x); nn.LeakyReLU(0.2)(x); nn.Sigmoid()(x); nn.Flatten()(x); nn.Dropout(0.0)(x); nn.MaxPool2D(kernel_size=2)(x.unsqueeze(1)); nn.BCELoss()(F.sigmoid(x), F.sigmoid(y)); nn.BCEWithLogitsLoss(reduction='sum')(x, F.sigmoid(y)); nn.CrossEntropyLoss()(x, ids // 2); nn.MSELoss()(x, y); nn.CosineSimilarity(axis=1)(x, y)
"""
CASES = [case.strip() for text in (TENSORS, FUNCTIONS, LAYERS) for case in text.replace("\n", ";").split(";") if case.strip()]


def run(paddle, case):
    """What a case gives, and the gradient of its sum for x if it has one."""
    nn, F = paddle.nn, paddle.nn.functional
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        feeds = {"x": X, "y": Y, "v": Y[0, 0], "m": Y.reshape(-1)[:20].reshape(4, 5), "ids": IDS, "label": LABEL}
        names = {
            "paddle": paddle, "nn": nn, "F": F,
            "c": lambda value: paddle.ParamAttr(initializer=nn.initializer.Constant(value)),
            "a": lambda shape: paddle.ParamAttr(initializer=nn.initializer.Assign(Y.reshape(-1)[:10].reshape(5, 2))),
        }
        for name, value in feeds.items():
            names[name] = paddle.static.data(name, list(value.shape), str(value.dtype))
            names[name].stop_gradient = False
        out = eval(case, names)
        fetched = [out]
        is_float = "FP" in str(out.dtype) or "float" in str(out.dtype)
        if is_float and any(word in case for word in ("x", "y")):
            grads = paddle.static.gradients([paddle.sum(out * out)], [names["x"]])
            fetched += [grad for grad in grads if grad is not None]
    exe = paddle.static.Executor()
    with paddle.static.scope_guard(paddle.static.Scope()):
        if startup.global_block().ops:
            exe.run(startup)
        return [numpy.asarray(each) for each in exe.run(main, feed=feeds, fetch_list=fetched)]


#: Optimizers, each with dense and with sparse gradients; some gradients are as small as epsilon.
OPTIMIZERS = [
    "{} {}".format(made, kind)
    for made in (
        "SGD(0.5)", "SGD(0.5, weight_decay=0.1)", "Momentum(0.5, 0.9)", "Momentum(0.5, 0.9, use_nesterov=True)",
        "Adagrad(0.1)", "Adam(0.1)", "Adam(0.1, lazy_mode=True)", "Adam(0.1, weight_decay=0.1)",
    )
    for kind in ("dense", "sparse")
    # Of Adam with sparse gradients, the real one corrects epsilon for the rows of the gradient alone.
    if not (kind == "sparse" and ("Momentum" in made or "weight_decay" in made or made == "Adam(0.1)"))
]


def steps(paddle, case):
    """The table after each of three steps."""
    made, _, kind = case.rpartition(" ")
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        ids = paddle.static.data("ids", [None, 1], "int64")
        attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.5))
        table = paddle.nn.Embedding(5, 2, sparse=kind == "sparse", weight_attr=attr)
        number = paddle.cast(ids, "float32")
        factor = number * number * number * 1e-7
        loss = paddle.mean(paddle.multiply(paddle.sum(table(ids), axis=1), factor))
        eval("paddle.optimizer." + made, {"paddle": paddle}).minimize(loss)
    exe = paddle.static.Executor()
    with paddle.static.scope_guard(paddle.static.Scope()):
        exe.run(startup)
        batches = [[[1], [3], [1]], [[4], [1]], [[1], [2], [3]]]
        return [
            exe.run(main, feed={"ids": numpy.array(batch, "int64")}, fetch_list=[table.weight])[0].tolist()
            for batch in batches
        ]


def main():
    import paddle

    paddle.enable_static()
    found = {}
    for case in CASES:
        try:
            found[case] = [[list(each.shape), each.astype("float64").round(7).reshape(-1).tolist()] for each in run(paddle, case)]
        except Exception as error:
            print(case, type(error).__name__, str(error)[-300:], file=sys.stderr)
    found.update({case: steps(paddle, case) for case in OPTIMIZERS})
    json.dump(found, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
