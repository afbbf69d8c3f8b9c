"""Two servers and two trainers learn made-up clicks; the launcher prints the work of each process.

    paddlewheel run demo.py                      # makes 200,000 clicks up, trains, sums up
    paddlewheel run demo.py --mode async --rows 1000000

Every process runs this script: the first makes the clicks and starts the others.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import clicks
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)
from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil

BATCH = 200
N_IDS = 1000001
WIDTH = 10
#: Before what trainer 0 has to say in the end.
RESULT = "result     "


def get_params():
    """The settings of this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", default="sync", choices=["sync", "async", "half_async", "geo"])
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser.parse_args()


def train(params):
    """One process of the job."""
    fleet.init(role_maker.PaddleCloudRoleMaker())
    # In sync mode every run learns the same, to the bit.
    fluid.default_startup_program().random_seed = 1
    sample = clicks.inputs()
    loss, auc, _ = clicks.model(sample, N_IDS, WIDTH)
    strategy = getattr(StrategyFactory, "create_%s_strategy" % params.mode)()
    optimizer = fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.01), strategy)
    optimizer.minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var(sample)
    dataset.set_pipe_command("paddlewheel criteo-reader %d" % N_IDS)
    dataset.set_batch_size(BATCH)
    dataset.set_filelist(fleet.split_files(clicks.files(os.path.join(params.job, "raw_data"))))
    fleet.barrier_worker()
    exe.train_from_dataset(
        fleet.main_program, dataset, fetch_list=[auc], fetch_info=["AUC so far"]
    )
    fleet.barrier_worker()
    sum_up(exe.last_pass)
    fleet.stop_worker()


def sum_up(own):
    """Trainer 0 prints what came of it. What each process did, the launcher says."""
    auc = FleetUtil("transpiler").get_global_auc()
    n_batches, n_samples, seconds, waited = own
    table = [0.0] * 2 * fleet.worker_num()
    at = 2 * fleet.worker_index()
    table[at : at + 2] = [n_samples, seconds]
    fleet.all_reduce_worker(list(table), table)
    if fleet.is_first_worker():
        n_samples, seconds = sum(table[0::2]), max(table[1::2])
        print(RESULT + "%d samples, %.0f samples/s; " % (n_samples, n_samples / seconds), end="")
        print("AUC %.4f, each sample judged before it was learnt" % auc, flush=True)


def start(params):
    """Makes the clicks, starts the job, shows the result from trainer 0's log."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "paddlewheel"]
        data, logs = os.path.join(folder, "raw_data"), os.path.join(folder, "logs")
        options = ["--rows", str(params.rows), "--files", str(2 * params.trainers)]
        subprocess.check_call(run + ["make-criteo", data] + options)
        job = ["--worker_num", str(params.trainers), "--server_num", str(params.servers)]
        job += ["--log_dir", logs, os.path.abspath(__file__)]
        job += ["--mode", params.mode, "--job", folder]
        began = time.time()
        code = subprocess.call(run + ["launch_ps"] + job)
        if code == 0:
            with open(os.path.join(logs, "workerlog.0")) as file:
                print("".join(line for line in file if line.startswith(RESULT)), end="")
            print("mode       %s; %.1f s from start to end" % (params.mode, time.time() - began))
    return code


if __name__ == "__main__":
    settings = get_params()
    sys.exit(train(settings) if settings.job else start(settings))
