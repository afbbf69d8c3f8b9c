"""One weight, two places: the gradient of each is the number it is fed. `w` is what the servers have in the end.

    launch_ps --worker_num 1 --server_num 1 places.py async
"""

import sys

import numpy

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    StrategyFactory,
    fleet,
)

STRATEGIES = {
    "async": StrategyFactory.create_async_strategy,
    "half_async": StrategyFactory.create_half_async_strategy,
    "sync": StrategyFactory.create_sync_strategy,
}


def main(mode):
    fleet.init(role_maker.PaddleCloudRoleMaker())
    x = fluid.layers.data("x", [1])
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=weight, bias_attr=False))
    strategy = STRATEGIES[mode]()
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    train = fluid.CompiledProgram(fleet.main_program).with_data_parallel(
        loss_name=loss.name,
        build_strategy=strategy.get_build_strategy(),
        places=fluid.cpu_places(2),
    )
    for _ in range(4):
        exe.run(train, feed={"x": numpy.array([[1.0], [3.0]], "float32")}, fetch_list=[loss])
    fleet.save_persistables(exe, "model")
    with open("model/w", "rb") as file:
        print("w %.6f" % numpy.frombuffer(file.read()[-4:], "float32")[0], flush=True)
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
