"""A job to be killed: passes over the files of `data`, those of each trainer its own.

Arguments: the mode, the number of threads, the folder to save to. `KIND` in the environment: `queue`, `memory` (shuffled before each
pass), `shuffled` (among all trainers before each pass) or `plain` (as `queue`, without a command). `DATA`: where the files are, if that is
not `data`. `SIGNS`: ids have 64 bits, and servers keep rows of all of them. `FROM`: the folder that servers load. `N_PASSES`: how
many passes, if not 2.

In sync every bit of every step counts. In other modes `w` says how often each batch was counted: its gradients do not depend on it.
"""

import os
import sys

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

mode, n_threads, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
kind, is_exact = os.environ["KIND"], mode == "sync"
N_FILES, N_PASSES, BATCH = 4, int(os.environ.get("N_PASSES", "2")), 4
fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
fleet.init(role_maker.PaddleCloudRoleMaker())
x = fluid.layers.data("x", [4])
if is_exact:
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    label = fluid.layers.data("label", [1], dtype="int64")
    if "SIGNS" in os.environ:
        half = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.5))
        rows = fluid.contrib.layers.sparse_embedding(ids, [2**63 - 1, 4], param_attr=half)
    else:
        rows = fluid.layers.embedding(ids, [100, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
    sums = fluid.layers.sequence_pool(rows, "sum")
    guess = fluid.layers.fc(fluid.layers.concat([sums, x], axis=1), 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    used, optimizer = [x, ids, label], fluid.optimizer.Adam(0.01, lazy_mode=True)
else:
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0))
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, bias_attr=False, param_attr=weight))
    used, optimizer = [x], fluid.optimizer.SGD(0.25)
strategy = getattr(StrategyFactory, "create_%s_strategy" % mode)()
fleet.distributed_optimizer(optimizer, strategy).minimize(loss)

role = "server.%d" % fleet.server_index() if fleet.is_server() else "trainer.%d" % fleet.worker_index()
with open(role + ".pid.new", "w") as file:
    file.write(str(os.getpid()))
os.rename(role + ".pid.new", role + ".pid")

if fleet.is_server():
    fleet.init_server(*filter(None, [os.environ.get("FROM")]))
    fleet.run_server()

if fleet.is_worker():
    rank = fleet.worker_index()
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    name = "QueueDataset" if kind in ("queue", "plain") else "InMemoryDataset"
    dataset = fluid.DatasetFactory().create_dataset(name)
    dataset.set_batch_size(BATCH)
    dataset.set_thread(n_threads)
    dataset.set_use_var(used)
    data = os.environ.get("DATA", "data")
    names = ["%s/%d-%d" % (data, rank, at) for at in range(N_FILES)]
    # Stores that list their files are asked for them.
    dataset.set_filelist(names if data.startswith("http") else ["%s/%d-*" % (data, rank)])
    assert dataset.filelist == names
    # A process of its own, which is killed with the trainer.
    paced = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paced.py")
    commands = {"queue": "python -S %s" % paced, "plain": "cat"}
    dataset.set_pipe_command(commands.get(kind, "sed 's/ *$//' | cat"))
    if name == "InMemoryDataset":
        dataset.load_into_memory()
    seen = []
    for at in range(N_PASSES):
        if kind == "memory":
            dataset.local_shuffle()
        if kind == "shuffled":
            dataset.global_shuffle(fleet)
            seen.append(dataset.get_shuffle_data_size(fleet))
        print("pass", at, flush=True)
        exe.train_from_dataset(
            fleet.main_program, dataset, fetch_list=[loss], fetch_info=["now"], print_period=10
        )
        seen.append(exe.last_pass[:2])
    seen.append(exe.infer_from_dataset(fleet.main_program, dataset, fetch_list=[loss])[0].tolist())
    fleet.barrier_worker()
    if rank == 0:
        fleet.save_persistables(exe, folder, fleet.main_program)
    fleet.stop_worker()
    with open("seen.%d" % rank, "w") as file:
        file.write(repr(seen))
    print("trainer ended", flush=True)
