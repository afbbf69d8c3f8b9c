"""Trains a table and nothing else until there is a file `enough`; all rows that it uses are on the first server.

Argument: the mode.
"""

import os
import sys

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

fleet.init(role_maker.PaddleCloudRoleMaker())
ids = fluid.layers.data("ids", [1], dtype="int64")
loss = fluid.layers.reduce_sum(fluid.layers.embedding(ids, [10000, 4], is_sparse=True))
strategy = getattr(StrategyFactory, "create_{}_strategy".format(sys.argv[1]))()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    print("server ended")

if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    steps = 0
    while not os.path.exists("enough"):
        exe.run(fleet.main_program, feed={"ids": numpy.array([[7], [70]])}, fetch_list=[loss])
        steps += 1
        if steps == 5 or steps % 50 == 0:
            print("step", steps)
    fleet.stop_worker()
    print("trainer ended after", steps)
