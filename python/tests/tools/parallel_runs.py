"""Trains small nets on several places and writes what comes out as JSON.

    python parallel_runs.py > ../fixtures/parallel.json

With a Python that has the real Fluid 1.8.5 it makes the fixture; the tests import it and compare.
"""

import json
import os
import sys

import numpy as np

STEPS = 4


def mlp(fluid):
    """Two layers, clipped by global norm, L2, a learning rate that decays, Momentum."""
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    hidden = fluid.layers.fc(x, 3, act="tanh")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.5))
    rate = fluid.layers.exponential_decay(0.1, 2, 0.5)
    decay = fluid.regularizer.L2Decay(0.01)
    fluid.optimizer.Momentum(rate, 0.9, regularization=decay).minimize(loss)
    return loss, ["fc_0.w_0", "fc_1.b_0"]


def norm(fluid):
    """Batch normalisation: each place has statistics of its own."""
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 3))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.SGD(0.05).minimize(loss)
    return loss, ["batch_norm_0.w_0", "batch_norm_0.b_0", "batch_norm_0.w_1", "fc_0.w_0"]


def words(fluid):
    """Sequences of words, a sparse table, Adam, AUC."""
    w, label = fluid.data("w", [None, 1], "int64", 1), fluid.data("label", [None, 1], "int64")
    rows = fluid.layers.embedding(w, [11, 3], is_sparse=True)
    predict = fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    auc = fluid.layers.auc(predict, label, num_thresholds=50)
    fluid.optimizer.Adam(0.05).minimize(loss)
    return loss, ["embedding_0.w_0", "fc_0.w_0", auc[2][2].name]


def dense_feed(fluid, rng, n):
    return {"x": rng.rand(n, 4).astype("float32"), "y": rng.rand(n, 1).astype("float32")}


def words_feed(fluid, rng, n):
    lengths = [int(k) for k in rng.randint(1, 4, n)]
    ids = rng.randint(0, 11, (sum(lengths), 1)).astype("int64")
    tensor = fluid.create_lod_tensor(ids, [lengths], fluid.CPUPlace())
    return {"w": tensor, "label": rng.randint(0, 2, (n, 1)).astype("int64")}


NETS = {"mlp": (mlp, dense_feed), "norm": (norm, dense_feed), "words": (words, words_feed)}
SIZES = {2: [7, 6, 2, 5], 3: [7, 9, 5, 6]}
LISTS = {2: [[5, 2]] * STEPS, 3: [[1, 4, 2]] * STEPS}


def train(fluid, name, n_places, as_lists):
    """The losses of each step on each place, and variables afterwards."""
    os.environ["CPU_NUM"] = str(n_places)
    build, feed = NETS[name]
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, keep = build(fluid)
    rng = np.random.RandomState(5)
    exe = fluid.Executor(fluid.CPUPlace())
    losses = []
    with fluid.scope_guard(scope):
        exe.run(startup)
        compiled = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name)
        for step in range(STEPS):
            if as_lists:
                batch = [feed(fluid, rng, n) for n in LISTS[n_places][step]]
            else:
                batch = feed(fluid, rng, SIZES[n_places][step])
            (value,) = exe.run(compiled, feed=batch, fetch_list=[loss])
            losses.append([float(x) for x in np.ravel(value)])
        state = {key: np.array(scope.find_var(key).get_tensor()).ravel().tolist() for key in keep}
    return {"losses": losses, "state": state}


def cases():
    """(name of the case, net, places, whether feeds are lists)."""
    for net in sorted(NETS):
        for n_places in (2, 3):
            for as_lists in (False, True):
                kind = "lists" if as_lists else "dicts"
                yield "{}-{}-{}".format(net, n_places, kind), net, n_places, as_lists


def text(runs):
    """JSON with a line for each case."""
    lines = ['"{}": {}'.format(case, json.dumps(runs[case], sort_keys=True)) for case in sorted(runs)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    import paddle.fluid

    sys.stdout.write(text({case: train(paddle.fluid, *how) for case, *how in cases()}))
