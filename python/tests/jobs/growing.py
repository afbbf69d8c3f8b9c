"""A job whose table grows with every step, until its servers have no memory: each may have `ROOM` MiB more than at its start."""

import os
import resource

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

ROWS, STEPS = 20000, 400
fleet.init(role_maker.PaddleCloudRoleMaker())
ids = fluid.data("ids", [None, 1], dtype="int64")
table = fluid.ParamAttr("grows", fluid.initializer.Constant(0.5))
found = fluid.layers.embedding(ids, [ROWS * STEPS, 32], is_sparse=True, is_distributed=True, param_attr=table)
loss = fluid.layers.mean(found)
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    limit = held + (int(os.environ["ROOM"]) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    for step in range(STEPS):
        feed = {"ids": numpy.arange(step * ROWS, (step + 1) * ROWS).reshape(-1, 1)}
        exe.run(fleet.main_program, feed=feed, fetch_list=[])
    fleet.stop_worker()
