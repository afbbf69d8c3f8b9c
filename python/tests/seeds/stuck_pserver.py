import os

import numpy
import paddle.fluid as fluid

pserver_ips = os.getenv("PADDLE_PSERVER_IPS")
port = os.getenv("PADDLE_PSERVER_PORT")
current_endpoint = os.getenv("PADDLE_CURRENT_IP", "") + ":" + port
trainers = int(os.getenv("PADDLE_TRAINERS"))
trainer_id = int(os.getenv("PADDLE_TRAINER_ID"))
training_role = os.getenv("PADDLE_TRAINING_ROLE")
is_local = False

x = fluid.layers.data("x", [4])
y = fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(0.05).minimize(loss)


def train_loop(program):
    exe.run(fluid.default_startup_program())
    rng = numpy.random.RandomState(trainer_id)
    for step in range(60):
        a = rng.rand(8, 4).astype("float32")
        feed = {"x": a, "y": a.sum(1, keepdims=True)}
        value, = exe.run(program, feed=feed, fetch_list=[loss])
    print("last loss", float(value[0]))
    exe.close()


place = fluid.CPUPlace()
exe = fluid.Executor(place)
if is_local:
    train_loop(fluid.default_main_program())
else:
    eplist = []
    for ip in pserver_ips.split(","):
        eplist.append(':'.join([ip, port]))
    pserver_endpoints = ",".join(eplist)  # ip:port,ip:port...
    print(pserver_endpoints)
    print(trainers)
    print(trainer_id)
    t = fluid.DistributeTranspiler()
    t.transpile(
        trainer_id,
        pservers=pserver_endpoints,
        trainers=trainers)

    if training_role == "PSERVER":
        print("pserver")
        print("current_endpoint: %s" % current_endpoint)
        pserver_prog = t.get_pserver_program(current_endpoint)
        pserver_startup = t.get_startup_program(current_endpoint,
                                                pserver_prog)
        print("start pserver...")
        exe.run(pserver_startup)
        print("pserver start up ok: %s" % pserver_startup)
        exe.run(pserver_prog)
        print("pserver ended")
    elif training_role == "TRAINER":
        print("trainer")
        train_loop(t.get_trainer_program())
