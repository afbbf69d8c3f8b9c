"""How soon a cluster of two servers and two trainers has trained its first batch.

    python first_batch.py

From the start of `paddlewheel launch_ps` until the slower trainer has trained its first batch of
click logs, read by the native reader: programs built, servers found, parameters fetched. Turns with
four Pythons that only import NumPy, started in the same way. Prints a `BENCH` line for each figure.
"""

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_S = 1.0
ROUNDS = 9
STARTED = "FIRST_BATCH_STARTED"
BIN = os.path.dirname(sys.executable)


def train(folder):
    """Either role; a trainer's file is one batch."""
    import paddlewheel.fluid as fluid
    from paddlewheel.fluid.incubate.fleet.base import role_maker
    from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
    from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
        StrategyFactory,
    )

    fleet.init(role_maker.PaddleCloudRoleMaker())
    dense = fluid.data("dense_input", [None, 13], "float32")
    slots = [fluid.data("C%d" % at, [None, 1], "int64", lod_level=1) for at in range(1, 27)]
    label = fluid.data("label", [None, 1], "int64")
    table = fluid.ParamAttr(name="table")
    rows = [
        fluid.layers.embedding(slot, [1000001, 10], is_sparse=True, param_attr=table)
        for slot in slots
    ]
    hidden = fluid.layers.concat(rows + [dense], axis=1)
    for _ in range(3):
        hidden = fluid.layers.fc(hidden, 400, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    optimizer = fluid.optimizer.SGD(1e-4)
    fleet.distributed_optimizer(optimizer, StrategyFactory.create_sync_strategy()).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([dense] + slots + [label])
    dataset.set_pipe_command("paddlewheel criteo-reader 1000001")
    dataset.set_batch_size(100)
    dataset.set_filelist([os.path.join(folder, "part-%d" % fleet.worker_index())])
    exe.train_from_dataset(fleet.main_program, dataset)
    say_time()
    fleet.stop_worker()


def say_time():
    print("first batch after", time.time() - float(os.environ[STARTED]), flush=True)


def launch(folder, *arguments):
    """Seconds until the last of the processes was through."""
    command = [os.path.join(BIN, "paddlewheel"), "launch_ps", "--worker_num", "2"]
    command += ["--server_num", "2", "--log_dir", folder, os.path.abspath(__file__), *arguments]
    path = BIN + os.pathsep + os.environ["PATH"]
    environment = dict(os.environ, PATH=path, **{STARTED: repr(time.time())})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit("launch_ps failed:\n" + done.stdout + done.stderr)
    said = []
    for name in os.listdir(folder):
        if name.startswith("workerlog") or name.startswith("serverlog"):
            with open(os.path.join(folder, name)) as log:
                said += [line for line in log if line.startswith("first batch after")]
    return max(float(line.split()[-1]) for line in said)


def compare():
    rounds = {"--train": [], "--bare": []}
    with tempfile.TemporaryDirectory() as data:
        make = [os.path.join(BIN, "paddlewheel"), "make-criteo", data]
        subprocess.run(make + ["--rows", "200", "--files", "2"], check=True, capture_output=True)
        for _ in range(ROUNDS):
            for side, seconds in rounds.items():
                with tempfile.TemporaryDirectory() as logs:
                    seconds.append(launch(logs, side, data))
    ours, bare = (statistics.median(seconds) for seconds in rounds.values())
    print(f"BENCH first_batch ratio={bare / ours:.3f} ours={ours:.3f} against=bare_python_s={bare:.3f}")
    print(f"BENCH first_batch_limit ratio={ours / LIMIT_S:.3f} ours={ours:.3f} against=limit_s={LIMIT_S}")


def main():
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
    elif sys.argv[1:2] == ["--bare"]:
        importlib.import_module("numpy")
        say_time()
    else:
        compare()


if __name__ == "__main__":
    main()
