"""Learns house prices on one machine; exits with 0 as soon as a batch costs less than 10.

Every epoch begins with a save and a load, so both work in the middle of training.
"""

import sys

import paddle.v2 as paddle
import paddle.fluid as fluid

EPOCHS = 100

house = fluid.layers.data(name="house", shape=[13], dtype="float32")
price = fluid.layers.data(name="price", shape=[1], dtype="float32")
guess = fluid.layers.fc(input=house, size=1, act=None)
loss = fluid.layers.mean(x=fluid.layers.square_error_cost(input=guess, label=price))
fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)

place = fluid.CPUPlace()
exe = fluid.Executor(place)
feeder = fluid.DataFeeder(feed_list=[house, price], place=place)
shuffled = paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=500)
batches = paddle.batch(shuffled, batch_size=20)

exe.run(fluid.default_startup_program())
for epoch in range(EPOCHS):
    fluid.io.save_persistables(exe, "housing.model")
    fluid.io.load_persistables(exe, "housing.model")
    for houses in batches():
        (cost,) = exe.run(
            fluid.default_main_program(), feed=feeder.feed(houses), fetch_list=[loss]
        )
        if cost[0] < 10.0:
            sys.exit(0)
sys.exit("after %d epochs a batch still costs %.1f" % (EPOCHS, cost[0]))
