import os

import paddle.v2 as paddle
import paddle.fluid as fluid

port = os.getenv("PADDLE_PSERVER_PORT")
pserver_endpoints = ",".join(ip + ":" + port for ip in os.getenv("PADDLE_PSERVER_IPS").split(","))

x = fluid.layers.data(name='x', shape=[13], dtype='float32')
y_predict = fluid.layers.fc(input=x, size=1, act=None)
y = fluid.layers.data(name='y', shape=[1], dtype='float32')

cost = fluid.layers.square_error_cost(input=y_predict, label=y)
avg_cost = fluid.layers.mean(x=cost)

sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.001)

optimize_ops, params_grads = sgd_optimizer.minimize(avg_cost) #get optimize OPs and gradient parameters

t = fluid.DistributeTranspiler() # create the transpiler instance
# slice the program into 2 pieces with optimizer_ops and gradient parameters list, as well as pserver_endpoints, which is a comma separated list of [IP:PORT] and number of trainers
t.transpile(optimize_ops, params_grads, pservers=pserver_endpoints, trainers=2)

place = fluid.CPUPlace()
exe = fluid.Executor(place)

if os.getenv("PADDLE_TRAINING_ROLE") == "PSERVER":
    current_endpoint = os.getenv("PADDLE_CURRENT_IP") + ":" + port
    # in pserver, run this
    #current_endpoint here means current pserver IP:PORT you wish to run on
    pserver_prog = t.get_pserver_program(current_endpoint)
    pserver_startup = t.get_startup_program(current_endpoint, pserver_prog)
    exe.run(pserver_startup)
    exe.run(pserver_prog)
    exit(0)

# in trainer, run this
train_reader = paddle.batch(
    paddle.reader.shuffle(
        paddle.dataset.uci_housing.train(), buf_size=500),
    batch_size=20)
feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
exe.run(fluid.default_startup_program())
for pass_id in range(100):
    for data in train_reader():
        avg_loss_value, = exe.run(t.get_trainer_program(),
                                  feed=feeder.feed(data),
                                  fetch_list=[avg_cost])
        if avg_loss_value[0] < 10.0:
            exit(0)  # if avg cost less than 10.0, we think our code is good.
exit(1)
