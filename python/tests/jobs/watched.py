"""A job to watch: passes over made-up clicks until a file says that it is enough."""

import argparse
import os
import sys

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)


def main():
    """One process of the job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", required=True, help="the folder of clicks.py")
    parser.add_argument("--mode", default="async")
    parser.add_argument("--until", required=True, help="the job ends when this file is there")
    params = parser.parse_args()
    sys.path.insert(0, params.examples)
    import clicks

    fleet.init(role_maker.PaddleCloudRoleMaker())
    fluid.default_startup_program().random_seed = 1
    sample = clicks.inputs()
    loss, auc, _ = clicks.model(sample, 100001, 8)
    strategy = getattr(StrategyFactory, "create_%s_strategy" % params.mode)()
    fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var(sample)
    dataset.set_pipe_command("paddlewheel criteo-reader 100001")
    dataset.set_batch_size(100)
    folder = os.path.join(os.path.dirname(params.until), "clicks")
    dataset.set_filelist(fleet.split_files(clicks.files(folder)))
    fleet.barrier_worker()
    while not os.path.exists(params.until):
        exe.train_from_dataset(
            fleet.main_program, dataset, fetch_list=[loss, auc], fetch_info=["loss", "AUC"], print_period=10**9
        )
    fleet.stop_worker()


if __name__ == "__main__":
    main()
