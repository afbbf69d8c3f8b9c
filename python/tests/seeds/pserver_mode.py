import os

import numpy
import paddle.fluid as fluid

x = fluid.layers.data("x", [4])
y = fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(0.05).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())

#pserver模式下
pserver_endpoints = "192.168.0.1:6174,192.168.0.2:6174"
trainer_endpoints = "192.168.0.1:6174,192.168.0.2:6174"
current_endpoint = "192.168.0.1:6174"
trainer_id = 0
trainers = 4
role = os.getenv("PADDLE_TRAINING_ROLE")

t = fluid.DistributeTranspiler()
t.transpile(
     trainer_id, pservers=pserver_endpoints, trainers=trainers)
if role == "PSERVER":
     pserver_program = t.get_pserver_program(current_endpoint)
     pserver_startup_program = t.get_startup_program(current_endpoint,
                                             pserver_program)
     exe.run(pserver_startup_program)
     exe.run(pserver_program)
elif role == "TRAINER":
     trainer_program = t.get_trainer_program()
     exe.run(fluid.default_startup_program())
     rng = numpy.random.RandomState(trainer_id)
     for step in range(60):
         a = rng.rand(8, 4).astype("float32")
         feed = {"x": a, "y": a.sum(1, keepdims=True)}
         value, = exe.run(trainer_program, feed=feed, fetch_list=[loss])
     print("last loss", float(value[0]))
     exe.close()
