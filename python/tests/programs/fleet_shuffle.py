"""A trainer of two or more loads its own file, shuffles with the others and trains on its share.

Arguments: the mode; `out of step` makes the last trainer count instead of shuffling.
"""

import sys

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)
from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil

ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
label = fluid.layers.data("label", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [6000, 4])
guess = fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
area, _, states = fluid.layers.auc(guess, label, num_thresholds=4096)
sums = fluid.contrib.layers.ctr_metric_bundle(
    fluid.layers.slice(guess, [1], [1], [2]), fluid.layers.cast(label, "float32")
)
local = fluid.default_main_program().clone(for_test=True)

fleet.init(role_maker.PaddleCloudRoleMaker())
strategy = getattr(StrategyFactory, "create_{}_strategy".format(sys.argv[1]))()
fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.1), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()


def make(rank):
    """The samples of a trainer: the first has few of them. An id is clicked if it is odd, mostly."""
    name = "part-%d" % rank
    first, last = (0, 300) if rank == 0 else (900 * rank - 600, 900 * rank + 300)
    with open(name, "w") as file:
        for at in range(first, last):
            file.write("1 %d 1 %d\n" % (at, at % 2 if at % 5 else (at // 5) % 2))
    return name


def held(dataset):
    """The ids that a dataset gives, in its order."""
    return numpy.concatenate([numpy.array(batch["ids"])[:, 0] for batch in dataset.batches()])


def quality(exe, held):
    """Predictions for ids; with them the states of metrics grow."""
    found = []
    for at in range(0, len(held), 100):
        some = held[at : at + 100].reshape(-1, 1)
        feed = {"ids": fluid.create_lod_tensor(some, [[1] * len(some)], fluid.CPUPlace())}
        feed["label"] = (some % 2).astype("int64")
        (values,) = exe.run(local, feed=feed, fetch_list=[guess])
        found.append(values)
    return numpy.concatenate(found)


if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rank, last = fleet.worker_index(), fleet.worker_num() - 1
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var([ids, label])
    dataset.set_filelist([make(rank)])
    dataset.set_batch_size(50)
    dataset.set_fleet_send_batch_size(128)
    dataset.load_into_memory()
    print("own", dataset.get_memory_data_size())
    if sys.argv[2:] == ["out of step"] and rank == last:
        dataset.get_memory_data_size(fleet)
    dataset.global_shuffle(fleet)
    print("all", dataset.get_memory_data_size(fleet), dataset.get_shuffle_data_size(fleet))
    mine = held(dataset)
    numpy.save("held-%d.npy" % rank, mine)
    for _ in range(5):
        exe.train_from_dataset(fleet.main_program, dataset)
    fleet.barrier_worker()

    util = FleetUtil()
    zeroed = [state.name for state in states]
    for name in zeroed:
        util.set_zero(name)
    for var in sums:
        util.set_zero(var.name, param_type="float32")
    predicted = quality(exe, mine)
    numpy.save("predicted-%d.npy" % rank, predicted)
    names = [state.name for state in states[2:]]
    print("auc", repr(util.get_global_auc(stat_pos=names[0], stat_neg=names[1])))
    util.print_global_auc(stat_pos=names[0], stat_neg=names[1], print_prefix="test")
    figures = util.get_global_metrics(None, *names, *[var.name for var in sums])
    print("figures", figures)
    util.print_global_metrics(None, *names, *[var.name for var in sums])
    util.print_global_auc(stat_pos="nowhere")
    for name in zeroed:
        util.set_zero(name)
    print("fresh", repr(util.get_global_auc(stat_pos=names[0], stat_neg=names[1])))
    fleet.stop_worker()
