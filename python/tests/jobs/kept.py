"""A job that trains until there is a file `enough`: no arguments. Its layer is as wide as `OUTPUTS` says, so the same
command may be another model."""

import os
import time

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

fleet.init(role_maker.PaddleCloudRoleMaker())
x = fluid.layers.data("x", [1000])
wide = fluid.layers.fc(x, int(os.environ.get("OUTPUTS", "4")), param_attr=fluid.ParamAttr("w"))
loss = fluid.layers.mean(wide)
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    feed = {"x": numpy.ones((2, 1000), "float32")}
    while not os.path.exists("enough"):
        exe.run(fleet.main_program, feed=feed, fetch_list=[])
        time.sleep(0.01)
    fleet.stop_worker()
