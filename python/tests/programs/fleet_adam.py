"""Adam in sync mode with Fleet: the shortest program that runs on servers and trainers."""

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

fleet.init(role_maker.PaddleCloudRoleMaker())
parts = fluid.layers.data("parts", [4])
total = fluid.layers.data("total", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(parts, 1), total))
adam = fleet.distributed_optimizer(
    fluid.optimizer.Adam(0.1), StrategyFactory.create_sync_strategy()
)
adam.minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rng = numpy.random.RandomState(fleet.worker_index())
    for _ in range(100):
        some = rng.rand(8, 4).astype("float32")
        feed = {"parts": some, "total": some.sum(1, keepdims=True)}
        (cost,) = exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
    print("last loss", float(cost[0]))
    fleet.stop_worker()
