"""Trains until there is a file `enough`: something to disturb.

Arguments: the mode, `other` for a net that does not belong to the job of the rest, and `own` for one
that does, although its script has layers, names and an optimizer of its own.
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

mode = sys.argv[1]
fleet.init(role_maker.PaddleCloudRoleMaker())
print("pid", os.getpid())
x = fluid.layers.data("x", [4])
y = fluid.layers.data("y", [1])
guess = fluid.layers.fc(x, 3 if "other" in sys.argv else 1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.reduce_sum(guess, 1), y))
strategy = getattr(StrategyFactory, "create_{}_strategy".format(mode))()
if "tolerant" in sys.argv:
    strategy.set_server_runtime_config({"tolerate_lost_trainers": True})
optimizer = fluid.optimizer.SGD(0.05)
if "own" in sys.argv:
    fluid.layers.Print(fluid.layers.reduce_mean(guess), summarize=1, first_n=1)
    optimizer = fluid.optimizer.Adam(0.001)
fleet.distributed_optimizer(optimizer, strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    print("server ended")

if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rng = numpy.random.RandomState(fleet.worker_index())
    steps = 0
    print("training starts")
    while not os.path.exists("enough"):
        a = rng.rand(8, 4).astype("float32")
        feed = {"x": a, "y": a.sum(1, keepdims=True)}
        exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
        steps += 1
        if steps == 5 or steps % 200 == 0:
            print("step", steps)
    fleet.stop_worker()
    print("trainer ended after", steps)
