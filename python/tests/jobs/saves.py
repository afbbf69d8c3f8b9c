"""Worker 0 saves in every way that `fluid.io` has; the server looks at its table before it serves."""

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

fleet.init(role_maker.PaddleCloudRoleMaker())
ids = fluid.layers.data("ids", [1], dtype="int64")
y = fluid.layers.data("y", [1])
rows = fluid.layers.embedding(ids, [1000, 4], is_sparse=True, param_attr=fluid.ParamAttr("emb"))
guess = fluid.layers.fc(rows, 1, param_attr=fluid.ParamAttr("w"))
loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
rate = fluid.layers.exponential_decay(0.1, 1, 0.5)
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(rate), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server("")
    table = fluid.global_scope().find_var("emb")  # The other server has none of its rows.
    if table is not None:
        print("the table begins with", numpy.array(table.get_tensor()).shape)
    fleet.run_server()
    fleet.stop_worker()
    print("server ended")

if fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    feed = {"ids": numpy.array([[3], [7]]), "y": numpy.ones((2, 1), "float32")}
    for way in range(4):
        exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
        program = fleet.main_program
        if way == 0:
            fluid.io.save_inference_model("model", ["ids"], [guess], exe, program)
        elif way == 1:
            fluid.io.save_params(exe, "params", program)
        elif way == 2:
            fluid.io.save_persistables(exe, "all", program)
        else:
            fleet.save_inference_model(exe, "fleets", ["ids"], [guess])
    fleet.stop_worker()
    print("trainer ended")
