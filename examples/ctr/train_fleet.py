"""Trains a click-through model with Adam on servers; trainer 0 saves it after each epoch.

    paddlewheel launch_ps --worker_num 2 --server_num 2 train_fleet.py --save model
"""

import os
import time

import clicks
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet


def get_settings():
    """What this process was told."""
    parser = clicks.options("Trains a click-through model on servers.", batch_size=1000)
    parser.add_argument("--data", default="raw_data", help="a folder of click logs")
    parser.add_argument("--save", help="a folder for the model of each epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def train(sample, auc, settings):
    """What a trainer does."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    paths = fleet.split_files(clicks.files(settings.data))
    dataset = clicks.stream(sample, paths, settings)
    for epoch in range(settings.epochs):
        began = time.time()
        exe.train_from_dataset(
            fleet.main_program,
            dataset,
            fetch_list=[auc],
            fetch_info=["epoch %d, AUC" % epoch],
            print_period=10,
        )
        print("epoch %d took %.1f s" % (epoch, time.time() - began))
        if settings.save and fleet.is_first_worker():
            # Parameters come from the servers, whole; the counters of the AUC are this trainer's.
            fluid.io.save_persistables(exe, os.path.join(settings.save, "epoch_%d" % epoch))


def main():
    settings = get_settings()
    fleet.init(role_maker.PaddleCloudRoleMaker())
    sample = clicks.inputs()
    loss, auc, _ = clicks.model(sample, settings.n_ids, settings.width)
    mode = fluid.DistributeTranspilerConfig()
    mode.sync_mode = False
    mode.runtime_split_send_recv = True
    adam = fleet.distributed_optimizer(fluid.optimizer.Adam(settings.learning_rate), mode)
    adam.minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    train(sample, auc, settings)
    fleet.stop_worker()
    print("all epochs are done")


if __name__ == "__main__":
    main()
