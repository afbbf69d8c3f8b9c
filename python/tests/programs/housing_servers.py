"""Learns house prices on servers and trainers, by the oldest form of `transpile`.

The variables are those of Fluid before Fleet. A trainer exits with 0 as soon as a batch costs less
than 10. Arguments:

    nameless    does not tell `transpile` which trainer this is, and leaves without a word
    unfed       forgets to feed
"""

import os
import sys

import paddle.v2 as paddle
import paddle.fluid as fluid

PORT = os.environ["PADDLE_PSERVER_PORT"]
SERVERS = ",".join("%s:%s" % (ip, PORT) for ip in os.environ["PADDLE_PSERVER_IPS"].split(","))
TRAINERS = int(os.environ["PADDLE_TRAINERS"])

house = fluid.layers.data(name="house", shape=[13], dtype="float32")
price = fluid.layers.data(name="price", shape=[1], dtype="float32")
guess = fluid.layers.fc(input=house, size=1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(input=guess, label=price))
ops, pairs = fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)

transpiler = fluid.DistributeTranspiler()
if "nameless" in sys.argv:
    transpiler.transpile(ops, pairs, pservers=SERVERS, trainers=TRAINERS)
else:
    me = int(os.environ["PADDLE_TRAINER_ID"])
    transpiler.transpile(ops, pairs, me, pservers=SERVERS, trainers=TRAINERS)
place = fluid.CPUPlace()
exe = fluid.Executor(place)


def serve(endpoint):
    """Returns when the trainers have left."""
    program = transpiler.get_pserver_program(endpoint)
    exe.run(transpiler.get_startup_program(endpoint, program))
    exe.run(program)
    print("served")


def train():
    """Whether a batch came to cost less than 10."""
    feeder = fluid.DataFeeder(feed_list=[house, price], place=place)
    batches = paddle.batch(paddle.dataset.uci_housing.train(), batch_size=20)
    exe.run(fluid.default_startup_program())
    program = transpiler.get_trainer_program()
    if "unfed" in sys.argv:
        exe.run(program)
    for _ in range(100):
        for houses in batches():
            (cost,) = exe.run(program, feed=feeder.feed(houses), fetch_list=[loss])
            if cost[0] < 10.0:
                return True
    return False


if os.environ["PADDLE_TRAINING_ROLE"] == "PSERVER":
    serve("%s:%s" % (os.environ["PADDLE_CURRENT_IP"], PORT))
    sys.exit(0)
learnt = train()
if learnt and "nameless" not in sys.argv:
    exe.close()
sys.exit(0 if learnt else 1)
