"""Trains a click-through model with SGD: in one process, or on servers in async mode.

    paddlewheel run train.py --local
    paddlewheel launch_ps --worker_num 2 --server_num 2 train.py

The launcher tells each process by variables whether it is a server or a trainer.
"""

import clicks
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet


def get_settings():
    """What this process was told."""
    parser = clicks.options("Trains a click-through model.", batch_size=100)
    parser.set_defaults(n_ids=10000001)
    parser.add_argument("--local", action="store_true", help="one process, no servers")
    parser.add_argument("--data", default="raw_data", help="a folder of click logs")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=10)
    return parser.parse_args()


def train(sample, auc, paths, settings):
    """Runs the current programs over the files, epoch by epoch."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    dataset = clicks.stream(sample, paths, settings)
    for _ in range(settings.epochs):
        exe.train_from_dataset(
            fluid.default_main_program(), dataset, fetch_list=[auc], fetch_info=["auc"]
        )


def main():
    settings = get_settings()
    sample = clicks.inputs()
    loss, auc, _ = clicks.model(sample, settings.n_ids, settings.width)
    sgd = fluid.optimizer.SGD(settings.learning_rate)
    paths = clicks.files(settings.data)
    if settings.local:
        sgd.minimize(loss)
        train(sample, auc, paths, settings)
        return
    fleet.init(role_maker.PaddleCloudRoleMaker())
    mode = fluid.DistributeTranspilerConfig()
    mode.sync_mode = False
    fleet.distributed_optimizer(sgd, mode).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        # Nobody says that the work is done: the launcher ends the servers after the last trainer.
        fleet.init_worker()
        train(sample, auc, fleet.split_files(paths), settings)


if __name__ == "__main__":
    main()
