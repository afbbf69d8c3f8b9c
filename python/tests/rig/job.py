"""A small job to disturb: the model that it saves does not depend on deaths on the way.

Arguments: the mode, where the data comes from (`run`, `dataset`, `pipe` or `shuffle`), and the folder to save to. With `RIG_PACE` in the
environment, a step of `run` takes at least so many seconds, until there is a file `hurry`.

Two kinds of numbers are saved. The net is trained by Adam with an AUC beside it, so every bit of every step counts: in
sync, the folder of a disturbed job has the bytes of an undisturbed one. The `ledger` is a table with one row for each sample
of the job; a sample's gradient is 1 for its own row, so in any mode a row says how often its sample was counted.
"""

import os
import sys
import time

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

from job_data import BATCH, EPOCHS, FILES, SAMPLES, VOCABULARY, feed_of, rows_of

mode, source, folder = sys.argv[1:4]
is_exact = mode == "sync"
# Layers take the seed when they are built.
fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
fleet.init(role_maker.PaddleCloudRoleMaker())
ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
dense = fluid.layers.data("dense", [4])
number = fluid.layers.data("number", [1], dtype="int64")
label = fluid.layers.data("label", [1], dtype="int64")


def constant(name, value):
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(value))


if is_exact:
    rows = fluid.layers.embedding(
        ids,
        [VOCABULARY, 4],
        is_sparse=True,
        param_attr=fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.1, 0.1, seed=3)),
    )
    hidden = fluid.layers.concat([fluid.layers.sequence_pool(rows, "sum"), dense], axis=1)
    hidden = fluid.layers.dropout(fluid.layers.fc(hidden, 8, act="relu"), 0.2, seed=5)
    guess = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    area, _, _ = fluid.layers.auc(guess, label)
    shown, optimizer = [loss, area], fluid.optimizer.Adam(0.01)
else:
    count = fluid.layers.embedding(number, [SAMPLES, 1], is_sparse=True, param_attr=constant("ledger", 0.0))
    loss = fluid.layers.reduce_sum(count)
    shown, optimizer = [loss], fluid.optimizer.SGD(1.0)

options = {"ssp": {"staleness": 2}, "geo": {"update_frequency": 5}}.get(mode, {})
strategy = getattr(StrategyFactory, "create_{}_strategy".format(mode))(**options)
fleet.distributed_optimizer(optimizer, strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()


def pace(n_steps=1):
    """Gives the rig time to disturb this job. The model does not depend on it."""
    seconds = float(os.environ.get("RIG_PACE", "0")) * n_steps
    until = time.monotonic() + seconds
    while time.monotonic() < until and not os.path.exists("hurry"):
        time.sleep(min(0.02, seconds))


def train_by_run(exe, rank):
    """The script's own loop."""
    for epoch in range(EPOCHS):
        for at in range(FILES):
            if at % fleet.worker_num() == rank:
                samples = list(rows_of(epoch, at))
                for first in range(0, len(samples), BATCH):
                    feed = feed_of(samples[first : first + BATCH])
                    exe.run(fleet.main_program, feed=feed, fetch_list=shown)
                    pace()


def train_by_dataset(exe, rank, command):
    """One pass for each epoch."""
    for epoch in range(EPOCHS):
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([ids, dense, number, label] if is_exact else [number])
        dataset.set_batch_size(BATCH)
        dataset.set_pipe_command(command)
        names = ["data/%d/part-%d" % (epoch, at) for at in range(FILES)]
        dataset.set_filelist([name for at, name in enumerate(names) if at % fleet.worker_num() == rank])
        exe.train_from_dataset(fleet.main_program, dataset, fetch_list=shown, print_period=1000)


def train_by_shuffle(exe, rank):
    """One pass for each epoch, over samples that all trainers have shuffled among each other."""
    for epoch in range(EPOCHS):
        dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
        dataset.set_use_var([ids, dense, number, label] if is_exact else [number])
        dataset.set_batch_size(BATCH)
        names = ["data/%d/part-%d" % (epoch, at) for at in range(FILES)]
        dataset.set_filelist([name for at, name in enumerate(names) if at % fleet.worker_num() == rank])
        dataset.load_into_memory()
        dataset.global_shuffle(fleet)
        exe.train_from_dataset(fleet.main_program, dataset, fetch_list=shown, print_period=1000)
        pace(100)


if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    if source == "run":
        train_by_run(exe, fleet.worker_index())
    elif source == "shuffle":
        train_by_shuffle(exe, fleet.worker_index())
    else:
        train_by_dataset(exe, fleet.worker_index(), "python -S filter.py" if source == "pipe" else "cat")
    fleet.barrier_worker()
    if fleet.worker_index() == 0:
        fleet.save_persistables(exe, folder, fleet.main_program)
    fleet.stop_worker()
    print("trainer ended")
