"""How good a click-through model gets in one pass over real clicks, in every mode.

    paddlewheel run quality.py --data ../shared/data/criteo      # all modes, three seeds each
    paddlewheel run quality.py --modes local sync --seeds 1      # some of it
    paddlewheel run quality.py --compare                         # async with two settings, five seeds each
    paddlewheel run quality.py --compare --fluid PYTHON          # the same beside the real Fluid 1.8.5

The first 90 % of the rows are trained on, once, in their order; the AUC is that of the last 10 %.
With two trainers each gets every other row, so that the servers see what one process would see at
about the time it would. What was trained is saved by trainer 0, and judged by this process.
docs/measured/quality.md has what came of it.
"""

import argparse
import gzip
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

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
#: What makes samples of the lines of the log.
READER = ["criteo-reader", str(N_IDS), "--hash", "crc32", "--dense", "log1p"]
#: Samples of a batch. In sync mode the two batches of a round are one step.
BATCH = 256
MODES = ["local", "sync", "async", "half_async", "geo"]
#: GEO trainers exchange what they learnt after so many steps.
GEO_STEPS = 10
N_TRAINERS = 2
#: What the mean AUC must reach, or how far from the local one it may be.
GOAL = {"local": 0.758, "sync": 0.001, "async": 0.002, "half_async": 0.002, "geo": 0.004}
#: What async is compared with: as it comes, and with long queues whose gradients may be merged.
SETTINGS = {
    "default": {},
    "queue 20, merge 20": {
        "FLAGS_communicator_send_queue_size": "20",
        "FLAGS_communicator_max_merge_var_num": "20",
    },
}
#: How long the real Fluid, which cannot say when all is sent, is given to send it.
SECONDS_TO_SEND = 1.5


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
    is_parsed = path.endswith(".slots")
    clicks.set_pipe_command("cat" if is_parsed else "paddlewheel " + " ".join(READER))
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
    path = path + ".slots" if os.path.exists(path + ".slots") else path
    meet(folder, "start")
    exe.train_from_dataset(fleet.main_program, dataset(inputs, path, BATCH))
    is_ours = hasattr(fleet, "server_stats")
    if is_ours:
        fleet.barrier_worker()
    else:
        time.sleep(SECONDS_TO_SEND)
    meet(folder, "end")
    if fleet.is_first_worker():
        fleet.save_persistables(exe, model)
        if is_ours:
            note_staleness(folder, fleet.server_stats())
    fleet.stop_worker()


def meet(folder, place):
    """Waits for the other trainers; Fluid's barrier_worker does not."""
    os.makedirs(os.path.join(folder, place, str(fleet.worker_index())))
    while len(os.listdir(os.path.join(folder, place))) < N_TRAINERS:
        time.sleep(0.01)


def note_staleness(folder, stats):
    """Leaves what servers counted where the process that judges finds it."""
    mean = sum(one["staleness_mean"] for one in stats) / len(stats)
    largest = max(one["staleness_max"] for one in stats)
    with open(os.path.join(folder, "staleness"), "w") as file:
        file.write("%.2f, at most %d" % (mean, largest))


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


def parse(folder):
    """The trainers' rows as samples, which the real Fluid reads too."""
    for at in range(N_TRAINERS):
        path = os.path.join(folder, "train-%d" % at)
        with open(path, "rb") as rows, open(path + ".slots", "wb") as samples:
            command = [sys.executable, "-m", "paddlewheel"] + READER
            subprocess.run(command, stdin=rows, stdout=samples, check=True)


def run(mode, seed, folder, python=None, flags=()):
    """Trains in processes of their own, ours or those of another Python; returns the AUC."""
    for left in ("model", "start", "end"):
        shutil.rmtree(os.path.join(folder, left), ignore_errors=True)
    logs = os.path.join(folder, "logs")
    cluster = ["--worker_num", str(N_TRAINERS), "--server_num", "2", "--log_dir", logs]
    if python:
        port = str(random.randrange(20000, 30000))
        command = [os.path.abspath(python), "-m", "paddle.distributed.launch_ps"]
        command += ["--start_port", port] + cluster
    elif mode == "local":
        command = [sys.executable, "-m", "paddlewheel", "run"]
    else:
        command = [sys.executable, "-m", "paddlewheel", "launch_ps"] + cluster
    command += [os.path.abspath(__file__), "--train", mode, str(seed), folder]
    env = dict(os.environ, **dict(flags))
    if python:
        # There our `paddle` is.
        env.pop("PYTHONPATH", None)
    # The real Fluid leaves files where it is started.
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    done = subprocess.run(command, env=env, **pipes)
    if done.returncode != 0 or not os.path.exists(os.path.join(folder, "model")):
        sys.exit("%s, seed %d failed:\n%s" % (mode, seed, done.stdout))
    return judge(folder)


def compare(folder, seeds, python):
    """Async with each of the settings, beside the real Fluid if there is one; whether ours is at
    least as good."""
    parse(folder)
    print("| settings | who | AUC by seed | mean | staleness |")
    print("|---|---|---|--:|---|", flush=True)
    is_as_good = True
    for settings, flags in SETTINGS.items():
        means = {}
        for who in ["ours", "Fluid 1.8.5"] if python else ["ours"]:
            values, stale = [], ""
            for seed in seeds:
                values.append(run("async", seed, folder, python if who != "ours" else None, flags))
            if who == "ours":
                with open(os.path.join(folder, "staleness")) as file:
                    stale = file.read()
            each = ", ".join("%.5f" % value for value in values)
            means[who] = sum(values) / len(values)
            cells = (settings, who, each, means[who], stale)
            print("| %s | %s | %s | %.5f | %s |" % cells, flush=True)
        is_as_good = is_as_good and means["ours"] >= max(means.values())
    return is_as_good


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
    parser.add_argument("--seeds", nargs="+", type=int, help="three, or five with --compare")
    parser.add_argument("--compare", action="store_true", help="async only, with two settings")
    parser.add_argument("--fluid", metavar="PYTHON", help="a Python with Fluid 1.8.5, to compare")
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
        if arguments.compare:
            seeds = arguments.seeds or [1, 2, 3, 4, 5]
            return 0 if compare(folder, seeds, arguments.fluid) else 1
        print("| mode | AUC by seed | mean | goal | reached |")
        print("|---|---|--:|---|---|", flush=True)
        local, all_reached = None, True
        for mode in arguments.modes:
            values = [run(mode, seed, folder) for seed in arguments.seeds or [1, 2, 3]]
            mean, is_reached = report(mode, values, local)
            local = mean if mode == "local" else local
            all_reached = all_reached and is_reached is not False
    return 0 if all_reached else 1


if __name__ == "__main__":
    sys.exit(main())
