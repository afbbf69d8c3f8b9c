"""The two models, written once: they must run unchanged on Fluid 1.8.5 and on ours (Python 3.7)."""

import numpy as np

SLOTS = 3
KEYS = 1000
WIDTH = 8


def fit_a_line(fluid):
    """Linear regression with Momentum."""
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    predict = fluid.layers.fc(input=x, size=1, act=None)
    cost = fluid.layers.square_error_cost(input=predict, label=y)
    loss = fluid.layers.mean(cost)
    fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9).minimize(loss)
    return ["x"], predict, [loss]


def ctr(fluid):
    """Click-through rate with one sparse table shared by all slots, and Adam."""
    dense = fluid.layers.data(name="dense", shape=[4], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    slots = [
        fluid.layers.data(name="C%d" % slot, shape=[1], dtype="int64", lod_level=1)
        for slot in range(SLOTS)
    ]
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.1, 0.1))
    vectors = [
        fluid.layers.sequence_pool(
            fluid.layers.embedding(
                input=slot, size=[KEYS, WIDTH], dtype="float32", is_sparse=True, param_attr=table
            ),
            "sum",
        )
        for slot in slots
    ]
    joined = fluid.layers.concat(vectors + [dense], axis=1)
    hidden = fluid.layers.fc(input=joined, size=16, act="relu")
    predict = fluid.layers.fc(input=hidden, size=2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=label))
    auc, window_auc, _ = fluid.layers.auc(predict, label, num_thresholds=63, slide_steps=3)
    fluid.optimizer.Adam(learning_rate=1e-2).minimize(loss)
    return [slot.name for slot in slots] + ["dense"], predict, [loss, auc, window_auc]


MODELS = {"fit_a_line": fit_a_line, "ctr": ctr}


def batch(fluid, model, step, rows=16):
    """The same numbers for the same step, for every caller."""
    random = np.random.RandomState(1000 + step)
    if model == "fit_a_line":
        x = random.uniform(-1, 1, (rows, 13)).astype("float32")
        return {"x": x, "y": x.sum(1, keepdims=True).astype("float32")}
    feed = {
        "dense": random.uniform(0, 1, (rows, 4)).astype("float32"),
        "label": random.randint(0, 2, (rows, 1)).astype("int64"),
    }
    for slot in range(SLOTS):
        lengths = random.randint(1, 4, rows).tolist()
        keys = random.randint(0, KEYS, (sum(lengths), 1)).astype("int64")
        feed["C%d" % slot] = fluid.create_lod_tensor(keys, [lengths], fluid.CPUPlace())
    return feed
