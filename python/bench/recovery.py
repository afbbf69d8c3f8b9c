"""What recovery costs, and how long it takes.

    python recovery.py [--rounds 3] [--only sync-100,async-1000,...,kill,pause]

The click-through net of the other benches on two servers and two trainers. For each mode and batch size, a job with snapshots at
the default interval turns with one without; the figure is the ratio of their speeds. `kill` fills a table of 1 GB, kills a server
and a trainer in turn, and takes the time until the script has finished its next step. `pause` takes what snapshots add to the longest
step of such a job. Prints a `BENCH` line for each figure.
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BIN = os.path.dirname(sys.executable)
MODES = ("sync", "async", "half_async", "geo")
#: Samples of one pass of a trainer; the first pass is warm-up.
PASS_ROWS, PASSES = 40000, 4
#: A table of 1 GB: so many rows of so many numbers.
BIG_ROWS, BIG_WIDTH, BIG_BATCH = 4_000_000, 64, 100_000
KILL_LIMIT_S = 3.0
#: Seconds in which the longest step is looked for, and what snapshots may add to it.
PAUSE_S, PAUSE_LIMIT_MS = 10, 50.0


def fleet_of(mode):
    import paddlewheel.fluid as fluid
    from paddlewheel.fluid.incubate.fleet.base import role_maker
    from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
    from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
        distributed_strategy,
    )

    fleet.init(role_maker.PaddleCloudRoleMaker())
    strategy = getattr(distributed_strategy.StrategyFactory, "create_%s_strategy" % mode)()
    return fluid, fleet, strategy


def minimize(fluid, fleet, strategy, loss):
    """Splits the program; a server serves here. Returns an executor of a trainer."""
    fleet.distributed_optimizer(fluid.optimizer.SGD(1e-4), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        sys.exit(0)
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    return exe


def train(mode, batch, data, passes=PASSES, period=0):
    """Either role: passes over click logs; a trainer prints how fast each was, and with a period a record each so many batches."""
    fluid, fleet, strategy = fleet_of(mode)
    dense = fluid.data("dense_input", [None, 13], "float32")
    slots = [fluid.data("C%d" % at, [None, 1], "int64", lod_level=1) for at in range(1, 27)]
    label = fluid.data("label", [None, 1], "int64")
    table = fluid.ParamAttr(name="table")
    size = [1000001, 10]
    rows = [fluid.layers.embedding(slot, size, is_sparse=True, param_attr=table) for slot in slots]
    hidden = fluid.layers.concat(rows + [dense], axis=1)
    for _ in range(3):
        hidden = fluid.layers.fc(hidden, 400, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    fluid.layers.auc(predict, label)
    exe = minimize(fluid, fleet, strategy, loss)
    fetches = {"fetch_list": [loss], "fetch_info": ["loss"], "print_period": period} if period else {}
    for _ in range(passes):
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([dense] + slots + [label])
        dataset.set_pipe_command("paddlewheel criteo-reader 1000001")
        dataset.set_batch_size(batch)
        dataset.set_filelist([os.path.join(data, "part-%d" % fleet.worker_index())])
        began = time.monotonic()
        exe.train_from_dataset(fleet.main_program, dataset, **fetches)
        print("PASS", PASS_ROWS / (time.monotonic() - began), flush=True)
    fleet.stop_worker()


def fill(n_rows):
    """Either role: fills a table of so many rows, then takes small steps."""
    import numpy

    fluid, fleet, strategy = fleet_of("sync")
    ids = fluid.data("ids", [None, 1], "int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.5))
    rows = fluid.layers.embedding(ids, [n_rows, BIG_WIDTH], is_sparse=True, param_attr=table)
    loss = fluid.layers.reduce_mean(fluid.layers.fc(rows, 1))
    exe = minimize(fluid, fleet, strategy, loss)
    n_trainers, rank = fleet.worker_num(), fleet.worker_index()
    batch = min(BIG_BATCH, n_rows // n_trainers)
    for first in range(rank * batch, n_rows, n_trainers * batch):
        feed = {"ids": numpy.arange(first, first + batch).reshape(-1, 1)}
        exe.run(fleet.main_program, feed=feed)
    print("FILLED", flush=True)
    rng = numpy.random.RandomState(rank)
    # Whoever measures ends the job.
    while True:
        feed = {"ids": rng.randint(0, n_rows, (2600, 1))}
        began = time.monotonic()
        exe.run(fleet.main_program, feed=feed)
        print("STEP %.4f %.2f" % (time.time(), 1000 * (time.monotonic() - began)), flush=True)


class Job:
    """A job of this script in a folder of its own."""

    def __init__(self, folder, arguments, options):
        self.folder = folder
        command = [os.path.join(BIN, "paddlewheel"), "launch_ps", "--worker_num", "2", "--server_num", "2"]
        command += [*options, os.path.abspath(__file__), *arguments]
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
        self.output = open(os.path.join(folder, "launcher.log"), "wb")
        self.launcher = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=self.output, stderr=subprocess.STDOUT
        )

    def said(self):
        """What the launcher has said."""
        with open(os.path.join(self.folder, "launcher.log")) as log:
            return log.read()

    def wait(self):
        if self.launcher.wait(600) != 0:
            raise SystemExit("launch_ps failed:\n" + self.said())

    def log(self, name):
        try:
            with open(os.path.join(self.folder, "logs", name)) as log:
                return log.read()
        except OSError:
            return ""

    def pid(self, role, number):
        """A process of the job, by what its environment says."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % name) as file:
                    variables = dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
                cwd = os.readlink("/proc/%s/cwd" % name)
            except OSError:
                continue
            is_one = variables.get("TRAINING_ROLE") == role and cwd == os.path.realpath(self.folder)
            key = "PADDLE_TRAINER_ID" if role == "TRAINER" else "PADDLE_PSERVER_ID"
            if is_one and variables.get(key, str(number)) == str(number):
                return int(name)
        raise SystemExit("there is no %s %d" % (role, number))

    def end(self):
        self.launcher.terminate()
        try:
            self.launcher.wait(60)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait()
        self.output.close()


def make_data(folder):
    """Click logs for two trainers."""
    make = [os.path.join(BIN, "paddlewheel"), "make-criteo", folder]
    rows = str(2 * PASS_ROWS)
    subprocess.run(make + ["--rows", rows, "--files", "2"], check=True, capture_output=True)


def speed(mode, batch, data, options):
    """Samples a second of a job: both trainers, the median of the passes after the first."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder, ["--train", mode, str(batch), data], options)
        job.wait()
        job.output.close()
        sides = [re.findall(r"^PASS (\S+)$", job.log("workerlog.%d" % at), re.M) for at in range(2)]
        return sum(statistics.median(map(float, side[1:])) for side in sides)


def cost(case, rounds, data):
    mode, batch = case.rsplit("-", 1)
    plain, kept = [], []
    for at in range(rounds):
        for side in [plain, kept] if at % 2 else [kept, plain]:
            options = ["--snapshot_dir", "snapshots"] if side is kept else []
            side.append(speed(mode, int(batch), data, options))
    ours, against = statistics.median(kept), statistics.median(plain)
    print(
        f"BENCH snapshots_{mode}_b{batch} ratio={ours / against:.3f} ours={ours:.0f} "
        f"against=without_snapshots={against:.0f}",
        flush=True,
    )


def wait_until(what, so, limit=300):
    deadline = time.monotonic() + limit
    while not so():
        if time.monotonic() > deadline:
            raise SystemExit("not within %d s: %s" % (limit, what))
        time.sleep(0.01)


def steps(job, name):
    return [float(at) for at in re.findall(r"^STEP (\S+) \S+$", job.log(name), re.M)]


def longest_step(snapshots):
    """Milliseconds of the longest step of a job with a table of 1 GB."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--snapshot_dir", os.path.join(folder, "snapshots")] if snapshots else []
        job = Job(folder, ["--fill", str(BIG_ROWS)], options)
        try:
            wait_until("the table is filled", lambda: len(steps(job, "workerlog.1")) > 300)
            time.sleep(PAUSE_S)
            took = re.findall(r"^STEP \S+ (\S+)$", job.log("workerlog.1"), re.M)
            return max(map(float, took[300:]))
        finally:
            job.end()


def pause(rounds):
    """What snapshots add to the longest step."""
    plain, kept = [], []
    for at in range(rounds):
        for side in [plain, kept] if at % 2 else [kept, plain]:
            side.append(longest_step(side is kept))
    ours, against = statistics.median(kept), statistics.median(plain)
    print(
        f"BENCH pause_1gb ratio={(ours - against) / PAUSE_LIMIT_MS:.3f} ours={ours:.1f} "
        f"against=without_snapshots={against:.1f} limit_ms={PAUSE_LIMIT_MS}",
        flush=True,
    )


def kill():
    """From `kill -9` to the next step that the script finishes, with a table of 1 GB."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--snapshot_dir", os.path.join(folder, "snapshots"), "--max_restarts", "100"]
        job = Job(folder, ["--fill", str(BIG_ROWS)], options)
        try:
            wait_until("the table is filled", lambda: len(steps(job, "workerlog.1")) > 300)
            for kind, role in (("server", "PSERVER"), ("trainer", "TRAINER")):
                took = []
                for _ in range(3):
                    os.kill(job.pid(role, 0), signal.SIGKILL)
                    killed = time.time()
                    after = lambda: [at for at in steps(job, "workerlog.1") if at > killed + 0.2]  # noqa: E731, B023
                    wait_until("a step after the kill of a " + kind, after, 60)
                    took.append(after()[0] - killed)
                    n_before = len(steps(job, "workerlog.1"))
                    wait_until("more steps", lambda: len(steps(job, "workerlog.1")) > n_before + 100)  # noqa: B023
                ours = statistics.median(took)
                print(
                    f"BENCH recovery_of_{kind}_1gb ratio={ours / KILL_LIMIT_S:.3f} ours={ours:.3f} "
                    f"against=limit_s={KILL_LIMIT_S}",
                    flush=True,
                )
        finally:
            job.end()


def main():
    if sys.argv[1:2] == ["--train"]:
        return train(sys.argv[2], int(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
    if sys.argv[1:2] == ["--fill"]:
        return fill(int(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    cases = ["%s-%d" % (mode, batch) for mode in MODES for batch in (100, 1000)] + ["kill", "pause"]
    parser.add_argument("--only", type=lambda text: text.split(","), default=cases)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        make_data(data)
        for case in options.only:
            if case == "kill":
                kill()
            elif case == "pause":
                pause(options.rounds)
            else:
                cost(case, options.rounds, data)


if __name__ == "__main__":
    main()
