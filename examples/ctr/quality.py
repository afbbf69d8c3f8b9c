"""How good a click-through model gets in one pass over real clicks, in every mode.

    paddlewheel run quality.py --data ../shared/data/criteo      # all modes, three seeds each
    paddlewheel run quality.py --modes local sync --seeds 1      # some of it

The first 90 % of the rows are trained on, once, in their order; the AUC is that of the last 10 %.
With two trainers each gets every other row, so that the servers see what one process would see at
about the time it would. What was trained is saved by trainer 0, and judged by this process.
docs/quality.md has what came of it.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

N_IDS = 2**20
EMBEDDING_SIZE = 9
HIDDEN = (128, 64, 32)
LEARNING_RATE = 0.02
#: Samples of a batch. In sync mode the two batches of a round are one step.
BATCH = 256
MODES = ["local", "sync", "async", "half_async", "geo"]
#: GEO trainers exchange what they learnt after so many steps.
GEO_STEPS = 10
N_TRAINERS = 2
#: What the mean AUC must reach, or how far from the local one it may be.
GOAL = {"local": 0.758, "sync": 0.001, "async": 0.002, "half_async": 0.002, "geo": 0.004}


def network():
    """CTR-DNN; returns what is fed, the loss and the AUC."""
    dense = fluid.layers.data("dense_input", [13], dtype="float32")
    slots = [
        fluid.layers.data("C%d" % slot, [1], dtype="int64", lod_level=1) for slot in range(1, 27)
    ]
    label = fluid.layers.data("label", [1], dtype="int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.03, 0.03))
    size = [N_IDS, EMBEDDING_SIZE]
    parts = [
        fluid.layers.embedding(ids, size, is_sparse=True, param_attr=table) for ids in slots
    ]
    hidden = fluid.layers.concat(parts + [dense], axis=1)
    for width in HIDDEN:
        hidden = fluid.layers.fc(hidden, width, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    auc, _, _ = fluid.layers.auc(predict, label, num_thresholds=2**16)
    return [dense] + slots + [label], loss, auc


def dataset(inputs, path, batch):
    """The clicks of a file, in their order."""
    clicks = fluid.DatasetFactory().create_dataset("QueueDataset")
    clicks.set_use_var(inputs)
    clicks.set_pipe_command("paddlewheel criteo-reader %d --hash crc32 --dense log1p" % N_IDS)
    clicks.set_batch_size(batch)
    clicks.set_thread(1)
    clicks.set_filelist([path])
    return clicks


def strategy(mode):
    """How trainers and servers work together."""
    if mode == "geo":
        return StrategyFactory.create_geo_strategy(GEO_STEPS)
    return getattr(StrategyFactory, "create_%s_strategy" % mode)()


def train(mode, seed, folder):
    """One process of a job, or the only one."""
    fluid.default_startup_program().random_seed = seed
    inputs, loss, _ = network()
    optimizer = fluid.optimizer.Adagrad(LEARNING_RATE)
    exe = fluid.Executor(fluid.CPUPlace())
    model = os.path.join(folder, "model")
    if mode == "local":
        optimizer.minimize(loss)
        exe.run(fluid.default_startup_program())
        clicks = dataset(inputs, os.path.join(folder, "train"), BATCH)
        exe.train_from_dataset(fluid.default_main_program(), clicks)
        fluid.io.save_persistables(exe, model)
        return
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(optimizer, strategy(mode)).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe.run(fleet.startup_program)
    path = os.path.join(folder, "train-%d" % fleet.worker_index())
    exe.train_from_dataset(fleet.main_program, dataset(inputs, path, BATCH))
    fleet.barrier_worker()
    if fleet.is_first_worker():
        fleet.save_persistables(exe, model)
        print("staleness", [round(one["staleness_mean"], 2) for one in fleet.server_stats()])
    fleet.stop_worker()


def judge(folder):
    """The AUC of the held-out rows."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        inputs, _, auc = network()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        parameters = [var for var in main.list_vars() if isinstance(var, fluid.framework.Parameter)]
        fluid.io.load_vars(exe, os.path.join(folder, "model"), main, vars=parameters)
        for feed in dataset(inputs, os.path.join(folder, "valid"), 1000).batches():
            (value,) = exe.run(main, feed=feed, fetch_list=[auc])
    return float(value[0])


def prepare(path, folder):
    """Splits the rows: to train on, for one process and for two, and to judge by."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        rows = file.readlines()
    n_train = len(rows) * 9 // 10
    parts = {"train": rows[:n_train], "valid": rows[n_train:]}
    for at in range(N_TRAINERS):
        parts["train-%d" % at] = rows[:n_train][at::N_TRAINERS]
    for name, part in parts.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.writelines(part)
    return n_train, len(rows) - n_train


def run(mode, seed, folder):
    """Trains in processes of their own; returns the AUC."""
    command = [sys.executable, "-m", "paddlewheel"]
    if mode == "local":
        command += ["run"]
    else:
        logs = os.path.join(folder, "logs")
        command += ["launch_ps", "--worker_num", str(N_TRAINERS), "--server_num", "2"]
        command += ["--log_dir", logs]
    command += [os.path.abspath(__file__), "--train", mode, str(seed), folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit("%s, seed %d failed:\n%s" % (mode, seed, done.stdout))
    return judge(folder)


def report(mode, values, local):
    """A line of the table; whether the goal is reached."""
    mean = sum(values) / len(values)
    if mode == "local":
        goal, is_reached = "at least %.3f" % GOAL[mode], mean >= GOAL[mode]
    else:
        goal = "%.3f from local" % GOAL[mode]
        is_reached = None if local is None else abs(mean - local) <= GOAL[mode]
    each = ", ".join("%.5f" % value for value in values)
    word = {True: "yes", False: "NO", None: "?"}[is_reached]
    print("| %s | %s | %.5f | %s | %s |" % (mode, each, mean, goal, word), flush=True)
    return mean, is_reached


def main():
    """Runs all modes, or is one process of a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    default = os.path.join(here, *[".."] * 3, "shared", "data", "criteo")
    parser.add_argument("--data", default=default, help="a log, or a folder with train.txt.gz")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        mode, seed, folder = arguments.train
        return train(mode, int(seed), folder)
    path = arguments.data
    path = os.path.join(path, "train.txt.gz") if os.path.isdir(path) else path
    if not os.path.exists(path):
        sys.exit("%s is not there: say where the log is with --data" % path)
    with tempfile.TemporaryDirectory() as folder:
        print("%d rows to train on, %d to judge by\n" % prepare(path, folder))
        print("| mode | AUC by seed | mean | goal | reached |")
        print("|---|---|--:|---|---|", flush=True)
        local, all_reached = None, True
        for mode in arguments.modes:
            values = [run(mode, seed, folder) for seed in arguments.seeds]
            mean, is_reached = report(mode, values, local)
            local = mean if mode == "local" else local
            all_reached = all_reached and is_reached is not False
    return 0 if all_reached else 1


if __name__ == "__main__":
    sys.exit(main())
