import numpy
import paddle.fluid as fluid
import paddle.fluid.incubate.fleet.base.role_maker as role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

role = role_maker.PaddleCloudRoleMaker()
fleet.init(role)

# Define your network, choose your optimizer(SGD/Adam/Adagrad etc.)
x = fluid.layers.data("x", [4])
y = fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
optimizer = fluid.optimizer.Adam(0.1)
strategy = StrategyFactory.create_sync_strategy()
optimizer = fleet.distributed_optimizer(optimizer, strategy)
optimizer.minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
if fleet.is_worker():
    fleet.init_worker()
    # run training
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rng = numpy.random.RandomState(fleet.worker_index())
    for step in range(100):
        a = rng.rand(8, 4).astype("float32")
        feed = {"x": a, "y": a.sum(1, keepdims=True)}
        (value,) = exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
    print("last loss", float(value[0]))
    fleet.stop_worker()
