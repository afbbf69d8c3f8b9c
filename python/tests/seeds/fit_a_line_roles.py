import os
import sys

import paddle.v2 as paddle
import paddle.fluid as fluid

port = os.getenv("PADDLE_PSERVER_PORT", "6174")
pserver = ",".join(ip + ":" + port for ip in os.getenv("PADDLE_PSERVER_IPS").split(","))
trainers = int(os.getenv("PADDLE_TRAINERS"))
trainer_id = int(os.getenv("PADDLE_TRAINER_ID"))
training_role = os.getenv("PADDLE_TRAINING_ROLE")

x = fluid.layers.data(name='x', shape=[13], dtype='float32')
y_predict = fluid.layers.fc(input=x, size=1, act=None)
y = fluid.layers.data(name='y', shape=[1], dtype='float32')

cost = fluid.layers.square_error_cost(input=y_predict, label=y)
avg_cost = fluid.layers.mean(x=cost)

sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.001)
optimize_ops, params_grads = sgd_optimizer.minimize(avg_cost)
place = fluid.CPUPlace()
exe = fluid.Executor(place)

t = fluid.DistributeTranspiler()
t.transpile(
    optimize_ops,
    params_grads,
    trainer_id,
    pservers=pserver,
    trainers=trainers)
if training_role == "PSERVER":
    server_endpoint = os.getenv("PADDLE_CURRENT_IP") + ":" + port
    pserver_prog = t.get_pserver_program(server_endpoint)
    pserver_startup = t.get_startup_program(server_endpoint, pserver_prog)
    exe.run(pserver_startup)
    exe.run(pserver_prog)
    print("served")
    exit(0)

if "unfed" in sys.argv:
    exe.run(fluid.default_startup_program())
    exe.run(t.get_trainer_program())

train_reader = paddle.batch(paddle.dataset.uci_housing.train(), batch_size=20)
feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
exe.run(fluid.default_startup_program())
for pass_id in range(100):
    for data in train_reader():
        avg_loss_value, = exe.run(t.get_trainer_program(),
                                  feed=feeder.feed(data),
                                  fetch_list=[avg_cost])
        if avg_loss_value[0] < 10.0:
            exe.close()
            exit(0)
exit(1)
