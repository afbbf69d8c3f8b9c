"""A small regression on servers and trainers; says how far it has come, line by line.

The variables are those of Fluid before Fleet.
"""

import os

import numpy
import paddle.fluid as fluid

port = os.environ["PADDLE_PSERVER_PORT"]
servers = ["%s:%s" % (ip, port) for ip in os.environ["PADDLE_PSERVER_IPS"].split(",")]
trainer, n_trainers = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS"])

parts = fluid.layers.data("parts", [4])
total = fluid.layers.data("total", [1])
guess = fluid.layers.fc(parts, 1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, total))
fluid.optimizer.SGD(0.05).minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
transpiler = fluid.DistributeTranspiler()
transpiler.transpile(trainer, pservers=",".join(servers), trainers=n_trainers)


def serve(endpoint):
    program = transpiler.get_pserver_program(endpoint)
    startup = transpiler.get_startup_program(endpoint, program)
    print("startup program begins")
    exe.run(startup)
    print("startup program done: %s" % startup)
    exe.run(program)
    print("server ended")


def train(program):
    exe.run(fluid.default_startup_program())
    rng = numpy.random.RandomState(trainer)
    for _ in range(60):
        some = rng.rand(8, 4).astype("float32")
        feed = {"parts": some, "total": some.sum(1, keepdims=True)}
        (cost,) = exe.run(program, feed=feed, fetch_list=[loss])
    print("last loss", float(cost[0]))
    exe.close()


if os.environ["PADDLE_TRAINING_ROLE"] == "PSERVER":
    serve("%s:%s" % (os.environ["PADDLE_CURRENT_IP"], port))
else:
    print("trainer %d of %d, servers %s" % (trainer, n_trainers, ",".join(servers)))
    train(transpiler.get_trainer_program())
