"""A job that counts: each sample has a row of a table for itself, and each time that a trainer trains it takes one from the row.

Arguments: the files of all trainers, which divide them, the number of passes, the folder to save to. A pipe command reads as slowly
as `PACE` says (seconds a sample), until there is a file `hurry`.
"""

import os
import sys

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

files, n_passes, folder = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
fleet.init(role_maker.PaddleCloudRoleMaker())
ids = fluid.layers.data("ids", [1], dtype="int64")
table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(100.0))
rows = fluid.layers.embedding(ids, [2000, 1], is_sparse=True, param_attr=table)
loss = fluid.layers.reduce_sum(rows)
fleet.distributed_optimizer(fluid.optimizer.SGD(1.0), StrategyFactory.create_async_strategy()).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    pace = "while read line; do echo \"$line\"; [ -e hurry ] || sleep %s; done" % os.environ.get("PACE", "0.01")
    for number in range(n_passes):
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([ids])
        dataset.set_pipe_command(pace)
        dataset.set_batch_size(3)
        dataset.set_filelist(fleet.split_files(files))
        exe.train_from_dataset(fleet.main_program, dataset)
        print("pass", number, flush=True)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        fleet.save_persistables(exe, folder, fleet.main_program)
    fleet.stop_worker()
