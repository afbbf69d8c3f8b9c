"""A small regression with Fleet. Arguments: the mode, and a folder that servers load, if any."""

import sys

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

mode = sys.argv[1]
x = fluid.layers.data("x", [4])
y = fluid.layers.data("y", [1])
guess = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(0.1))
loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))

role = role_maker.PaddleCloudRoleMaker()
fleet.init(role)
if mode == "config":
    strategy = fluid.DistributeTranspilerConfig()
    strategy.sync_mode = False
elif mode == "none":
    strategy = None
elif mode == "geo":
    strategy = StrategyFactory.create_geo_strategy(update_frequency=5)
else:
    strategy = getattr(StrategyFactory, "create_{}_strategy".format(mode))()
optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.05), strategy)
optimizer.minimize(loss)

if fleet.is_server():
    fleet.init_server(*sys.argv[2:])
    fleet.run_server()
    print("server ended")

if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rng = numpy.random.RandomState(fleet.worker_index())
    for step in range(60):
        a = rng.rand(8, 4).astype("float32")
        feed = {"x": a, "y": a.sum(1, keepdims=True)}
        (value,) = exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
        if step == 0:
            print("first", float(value[0]))
    print("last", float(value[0]))
    fleet.barrier_worker()
    total = [0.0]
    fleet.all_reduce_worker([fleet.worker_index() + 1], total)
    print("total", total)
    print("pushes", min(stats["pushes"] for stats in fleet.server_stats()))
    if fleet.is_first_worker():
        fleet.save_persistables(exe, "model")
        fleet.save_inference_model(exe, "infer", "x", guess)
    fleet.stop_worker()
