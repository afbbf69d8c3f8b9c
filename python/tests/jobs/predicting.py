"""Trains tables that servers keep by rows; worker 0 predicts, and saves in every way there is.

Arguments: the folder for everything, and the mode.
"""

import sys
import time

import numpy
from paddlewheel import fluid
from paddlewheel.distributed import CountFilterEntry, ProbabilityEntry
from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

HIGH = 2**40
SLOTS = ["user", "item", "rare", "drawn", "word", "small"]


def net():
    """A click model: its slots, dense input, prediction and loss."""
    slots = [fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in SLOTS]
    user, item, rare, drawn, word, small = slots
    dense = fluid.layers.data("dense", [3])
    label = fluid.layers.data("label", [1], dtype="int64")
    named = fluid.ParamAttr
    tables = [
        fluid.contrib.layers.sparse_embedding(user, [HIGH, 8], param_attr=named("users")),
        fluid.contrib.layers.sparse_embedding(item, [HIGH, 8], param_attr=named("users")),
        fluid.contrib.layers.sparse_embedding(
            rare, [HIGH, 4], entry=CountFilterEntry(3), param_attr=named("rares")
        ),
        fluid.contrib.layers.sparse_embedding(
            drawn, [HIGH, 4], entry=ProbabilityEntry(0.5), param_attr=named("drawns")
        ),
        fluid.layers.embedding(
            word, [1 << 20, 4], is_sparse=True, is_distributed=True, param_attr=named("words")
        ),
        fluid.layers.embedding(small, [50, 4], is_sparse=True, param_attr=named("smalls")),
    ]
    pooled = [fluid.layers.sequence_pool(rows, "sum") for rows in tables]
    hidden = fluid.layers.fc(fluid.layers.concat(pooled + [dense], axis=1), 16, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    return slots, dense, label, predict, loss


def batch(seed, n=32, unknown=False):
    """One id for each sample and slot; ids of later batches are not seen in training."""
    random = numpy.random.RandomState(seed)
    feed = {}
    for at, name in enumerate(SLOTS):
        high = 50 if name == "small" else 200
        ids = random.randint(0, high, (n, 1)).astype("int64")
        if name not in ("small", "word"):
            ids = (ids * 5_000_000_029 + at) % HIGH
        if unknown and name != "small":
            ids[::2] += 1000
        feed[name] = fluid.create_lod_tensor(ids, [[1] * n], fluid.CPUPlace())
    feed["dense"] = random.rand(n, 3).astype("float32")
    feed["label"] = random.randint(0, 2, (n, 1)).astype("int64")
    return feed


def predicted(exe, test, feed, predict, saved):
    """The predictions of the job with the dense parameters that were saved and the rows of its servers.

    In async mode this trainer may not have heard of the last steps of the other when it saves, and what it hears goes
    into its scope when a run begins: then it predicts again.
    """
    until = time.monotonic() + 60
    dense = {name: fluid.global_scope().find_var(name).get_tensor() for name in saved}
    while time.monotonic() < until:
        for name, tensor in dense.items():
            tensor.set(saved[name], fluid.CPUPlace())
        (values,) = exe.run(test, feed=feed, fetch_list=[predict])
        if all(numpy.array_equal(numpy.array(tensor), saved[name]) for name, tensor in dense.items()):
            return values
    raise RuntimeError("the dense parameters do not come to rest")


def main(folder, mode):
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fluid.default_startup_program().random_seed = 7
    fluid.default_main_program().random_seed = 7
    _, _, _, predict, loss = net()
    strategy = getattr(StrategyFactory, "create_{}_strategy".format(mode))()
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    for step in range(8):
        exe.run(fleet.main_program, feed=batch(10 * step + fleet.worker_index()), fetch_list=[loss])
    fleet.barrier_worker()
    if fleet.worker_index() == 0:
        # Before the job's own prediction, which may make rows.
        feeds = SLOTS + ["dense"]
        fluid.io.save_persistables(exe, folder + "/persistables")
        fluid.io.save_persistables(exe, folder + "/combined", filename="all")
        fluid.io.save_inference_model(folder + "/model", feeds, [predict], exe)
        fluid.io.save_inference_model(folder + "/one", feeds, [predict], exe, params_filename="all")
        fleet.save_inference_model(exe, folder + "/fleet", feeds, [predict])
        test = fluid.default_main_program().clone(for_test=True)._prune([predict])
        saved = fluid.io.load_program_state(folder + "/persistables")
        saved = {name: saved[name] for name in saved if name.startswith("fc_") and "_0_" not in name}
        own = {}
        for name, feed in (("known", batch(0)), ("unknown", batch(1, unknown=True))):
            del feed["label"]
            own[name] = predicted(exe, test, feed, predict, saved)
        numpy.savez(folder + "/own.npz", **own)
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
