"""Trains a table of 2**40 rows with an entry rule; prints losses and what the servers hold.

Arguments: the mode, the rule, how many steps, and a folder that servers load, if any.
"""

import sys

import numpy
import paddle.fluid as fluid
from paddle.distributed import CountFilterEntry, ProbabilityEntry
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

mode, rule, steps = sys.argv[1], eval(sys.argv[2]), int(sys.argv[3])
fleet.init(role_maker.PaddleCloudRoleMaker())
fluid.default_startup_program().random_seed = 7
fluid.default_main_program().random_seed = 7
ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.contrib.layers.sparse_embedding(
    ids,
    [2**40, 8],
    entry=rule,
    param_attr=fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.5)),
)
loss = fluid.layers.mean(rows)
strategy = getattr(StrategyFactory, "create_{}_strategy".format(mode))()
fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.25), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server(*sys.argv[4:])
    fleet.run_server()

if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    # Four rows, one on the second server; the last comes in the first step only.
    wanted = numpy.array([[3], [2**20], [2**40 - 1], [99]], "int64")
    for step in range(steps):
        feed = {"ids": wanted if step == 0 else wanted[:3]}
        (value,) = exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
        print("loss", float(value[0]))
        fleet.barrier_worker()
    held = fleet.server_stats()
    for name in ("rows", "waiting", "dropped"):
        print(name, int(sum(stats[name] for stats in held)))
    fleet.save_persistables(exe, "model")
    fleet.stop_worker()
