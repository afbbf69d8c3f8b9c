"""Predictions of a click-through model, ours beside `exe.run` and onnxruntime on the exported model.

    python predicting.py

The model of the training bench: 26 ids in one table of 1000001 x 10, 13 numbers, three layers of 400. All sides
get the same arrays and take turns, a round each, in one process; the figure of a side is the median of its rounds,
in microseconds. "one" is one sample from one thread, "1000" a sample of a batch of 1000, "8-threads" one sample from
each of 8 threads. All sides use as many cores as the name says. Prints a `BENCH` line for each figure; below 1 we are
faster.
"""

import statistics
import tempfile
import threading
import time

import numpy as np

import paddlewheel
from paddlewheel import fluid

N_ROWS = 1000001
ROUNDS = 9


def save(folder):
    dense = fluid.data("dense_input", [None, 13], "float32")
    slots = [fluid.data("C%d" % at, [None, 1], "int64", lod_level=1) for at in range(1, 27)]
    init = fluid.initializer.Uniform(-0.01, 0.01)
    table = fluid.ParamAttr(name="table", initializer=init)
    rows = [fluid.layers.embedding(slot, [N_ROWS, 10], is_sparse=True, param_attr=table) for slot in slots]
    hidden = fluid.layers.concat(rows + [dense], axis=1)
    for _ in range(3):
        hidden = fluid.layers.fc(hidden, 400, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    names = [slot.name for slot in slots] + ["dense_input"]
    fluid.io.save_inference_model(folder, names, [predict], exe)
    return exe


def batch(seed, n):
    random = np.random.RandomState(seed)
    feed = {"C%d" % at: random.randint(0, N_ROWS, (n, 1)) for at in range(1, 27)}
    return dict(feed, dense_input=random.rand(n, 13).astype("float32"))


def with_lengths(feed):
    """For `exe.run`, which wants to know the lengths of sequences."""
    ones = [[1] * len(feed["C1"])]
    make = lambda name, array: array if name == "dense_input" else fluid.create_lod_tensor(array, ones, fluid.CPUPlace())
    return {name: make(name, array) for name, array in feed.items()}


def timed(call, feeds, n_calls):
    """Microseconds of a call."""
    start = time.perf_counter()
    for k in range(n_calls):
        call(feeds[k % len(feeds)])
    return (time.perf_counter() - start) / n_calls * 1e6


def timed_in_threads(call, feeds, n_calls, n_threads=8):
    """Microseconds of a call, the median of the threads."""
    took = [0.0] * n_threads
    ready = threading.Barrier(n_threads)

    def run(at):
        ready.wait()
        took[at] = timed(call, feeds[at:] + feeds[:at], n_calls)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(n_threads)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return statistics.median(took)


def compare(name, sides, feeds, n_calls, scale=1.0, measure=timed):
    """`sides` is a list of (name, call, what is done to its feeds); the first one is ours."""
    given = {side: [change(feed) for feed in feeds] for side, _, change in sides}
    rounds = {side: [] for side, _, _ in sides}
    for side, call, _ in sides:
        measure(call, given[side], max(n_calls // 4, 1))
    for _ in range(ROUNDS):
        for side, call, _ in sides:
            rounds[side].append(measure(call, given[side], n_calls) / scale)
    ours = sides[0][0]
    for side, _, _ in sides[1:]:
        ratio = statistics.median(mine / other for mine, other in zip(rounds[ours], rounds[side]))
        mine, other = statistics.median(rounds[ours]), statistics.median(rounds[side])
        print("BENCH {}-vs-{} ratio={:.3f} us={:.2f} {}={:.2f}".format(name, side, ratio, mine, side, other), flush=True)


def main():
    try:
        import onnxruntime
    except ImportError:
        raise SystemExit("skipped: onnxruntime is not installed")
    with tempfile.TemporaryDirectory() as folder:
        exe = save(folder + "/model")
        path = paddlewheel.export(folder + "/model", to="onnx", one_id=True)
        program, _, fetches = fluid.io.load_inference_model(folder + "/model", exe)

        def session(n_threads):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = n_threads
            options.log_severity_level = 3
            return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        same = lambda feed: feed
        sides = {}
        for n in (1, 2):
            predictor, runtime = paddlewheel.Predictor(folder + "/model", threads=n), session(n)
            run = lambda feed, runtime=runtime: runtime.run(None, feed)
            sides[n] = [("ours", predictor.predict, same), ("onnxruntime", run, same)]
        run = lambda feed: exe.run(program, feed=feed, fetch_list=fetches, return_numpy=False)
        sides[1].append(("exe.run", run, with_lengths))
        for feed in (batch(1, 1), batch(2, 1000)):
            ours = sides[1][0][1](feed)
            for side, call, change in sides[1][1:] + sides[2]:
                other = np.array(call(change(feed))).reshape(ours.shape)
                np.testing.assert_allclose(other, ours, atol=1e-6, err_msg=side)
        few, many = [batch(seed, 1) for seed in range(64)], [batch(seed, 1000) for seed in range(4)]
        compare("predict-one-us", sides[1], few, 2000)
        compare("predict-1000-us-a-sample-1-core", sides[1], many, 20, 1000.0)
        compare("predict-1000-us-a-sample-2-cores", sides[2], many, 20, 1000.0)
        # A session of one thread for each request: more of them would disturb each other.
        eight = [sides[2][0], sides[1][1]]
        compare("predict-8-threads-us", eight, few, 500, measure=timed_in_threads)


main()
