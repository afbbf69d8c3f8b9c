"""Two places, the first of which has twice the samples; each gives a loss of its own."""

import numpy
import paddle.fluid as fluid


def samples(n):
    some = numpy.random.RandomState(n).rand(n, 3, 8, 8).astype("float32")
    return {"pixels": some, "bright": some.mean((1, 2, 3)).reshape(n, 1)}


# A program without operators may be fed, too: nothing happens.
fluid.ParallelExecutor().run(feed=[samples(4), samples(2)], fetch_list=[])

fluid.default_startup_program().random_seed = 3
pixels = fluid.layers.data("pixels", [3, 8, 8])
bright = fluid.layers.data("bright", [1])
guess = fluid.layers.fc(pixels, 1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, bright))
fluid.optimizer.SGD(0.01).minimize(loss)
fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
places = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
(losses,) = places.run(feed=[samples(32), samples(16)], fetch_list=[loss.name])
print("losses", *losses)
