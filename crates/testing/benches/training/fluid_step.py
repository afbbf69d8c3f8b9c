"""The bench's CTR-DNN on the real Fluid 1.8.5: trains as many samples as each input line says.

usage: fluid_step.py BATCH; prints "ready", then one line of samples per second per line read.
"""
import sys
import time

import numpy as np
import paddle.fluid as fluid

L = fluid.layers
ROWS, WIDTH, SLOTS, DENSE, N = 1000001, 10, 26, 13, 20000


def build():
    ids = [L.data("C%d" % (i + 1), [1], dtype="int64", lod_level=1) for i in range(SLOTS)]
    dense = L.data("dense_input", [DENSE])
    label = L.data("label", [1], dtype="int64")
    table = fluid.ParamAttr(name="SparseFeatFactors", initializer=fluid.initializer.Uniform(-0.01, 0.01))
    x = L.concat([L.embedding(i, [ROWS, WIDTH], is_sparse=True, param_attr=table) for i in ids] + [dense], axis=1)
    for size, act in ((400, "relu"), (400, "relu"), (400, "relu"), (2, "softmax")):
        scale = 1 / np.sqrt(x.shape[1])
        x = L.fc(x, size, act=act, param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=scale)))
    loss = L.reduce_sum(L.cross_entropy(x, label))
    fluid.optimizer.SGD(1e-4).minimize(loss)


def batches(batch):
    rs = np.random.RandomState(1)
    ids = rs.randint(0, ROWS, (N, SLOTS)).astype("int64")
    dense = rs.rand(N, DENSE).astype("float32")
    label = rs.randint(0, 2, (N, 1)).astype("int64")
    place, lod = fluid.CPUPlace(), [[1] * batch]
    for at in range(0, N, batch):
        rows = slice(at, at + batch)
        feed = {"C%d" % (s + 1): fluid.create_lod_tensor(ids[rows, s:s + 1], lod, place) for s in range(SLOTS)}
        feed["dense_input"] = dense[rows]
        feed["label"] = label[rows]
        yield feed


def main():
    batch = int(sys.argv[1])
    build()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeds = list(batches(batch))
    program = fluid.default_main_program()
    step = lambda k: exe.run(program, feed=feeds[k % len(feeds)], fetch_list=[], use_program_cache=True)
    for k in range(3):
        step(k)
    print("ready", flush=True)
    for line in sys.stdin:
        n = int(line) // batch
        start = time.time()
        for k in range(n):
            step(k)
        print(n * batch / (time.time() - start), flush=True)


main()
