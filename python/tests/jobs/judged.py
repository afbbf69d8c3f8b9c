"""A job that is slow for a reason that its variables choose; it ends when the file `enough` is there.

SECONDS: the script sleeps so long between two steps; SLOW: only that of this trainer does. SIZE: weights that servers apply.
MODE: sync, async. LINES_A_SECOND: data come from files, so many lines a second; then there are PASSES passes. (LINES is the
height of a terminal, and `readline` sets it.) AGAIN: a process that is started again takes so many seconds more.
"""

import glob
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

SIZE = int(os.environ.get("SIZE", "0"))
SECONDS = float(os.environ.get("SECONDS", "0"))
LINES_A_SECOND = float(os.environ.get("LINES_A_SECOND", "0"))
PACE = "import sys, time\nfor line in sys.stdin:\n    time.sleep(%g)\n    print(line, end='', flush=True)"


def main():
    """One process of the job."""
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fluid.default_startup_program().random_seed = 1
    x = fluid.data("x", [None, 4], "float32")
    loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    if SIZE:
        loss += fluid.layers.mean(fluid.layers.create_parameter([SIZE], "float32"))
    strategy = getattr(StrategyFactory, "create_%s_strategy" % os.environ.get("MODE", "sync"))()
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.001), strategy).minimize(loss)
    role = "server" if fleet.is_server() else "trainer"
    own = "%s.%d.pid" % (role, fleet.server_index() if role == "server" else fleet.worker_index())
    if os.path.exists(own):
        time.sleep(float(os.environ.get("AGAIN", "0")))
    with open(own, "w") as file:
        file.write(str(os.getpid()))
    if role == "server":
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    if LINES_A_SECOND:
        read(exe, x, loss)
    else:
        batch = numpy.ones((2, 4), "float32")
        seconds = SECONDS if os.environ.get("SLOW", str(fleet.worker_index())) == str(fleet.worker_index()) else 0.01
        for step in range(10**9):
            exe.run(fleet.main_program, feed={"x": batch}, fetch_list=[loss])
            time.sleep(seconds)
            if is_over(step):
                break
    fleet.stop_worker()


def is_over(step):
    """Whether it is enough. All trainers of a sync job make the same number of steps."""
    if os.environ.get("MODE") == "async":
        return os.path.exists("enough")
    if step % 10:
        return False
    total = [0.0]
    fleet.all_reduce_worker([float(os.path.exists("enough"))], total)
    return total[0] > 0


def read(exe, x, loss):
    """Passes over files that come slowly."""
    pace = "pace.%d.py" % fleet.worker_index()
    with open(pace, "w") as file:
        file.write(PACE % (1 / LINES_A_SECOND))
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([x])
    dataset.set_pipe_command("%s %s" % (sys.executable, pace))
    dataset.set_batch_size(2)
    dataset.set_filelist(fleet.split_files(sorted(glob.glob("data/*"))))
    for _ in range(int(os.environ.get("PASSES", "1"))):
        exe.train_from_dataset(fleet.main_program, dataset, fetch_list=[loss], fetch_info=["loss"], print_period=10**9)


if __name__ == "__main__":
    main()
