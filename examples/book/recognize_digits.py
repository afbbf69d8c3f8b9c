"""Recognise digits: MNIST by softmax regression, a multilayer perceptron or a convolutional net.

    paddlewheel run examples/book/recognize_digits.py --model conv --data /data

The folder holds `mnist/train-images-idx3-ubyte.gz` and its three companions; without `--data` it
is the one of PADDLE_DATASET_HOME. Exits with 1 if the accuracy on the test set is too low.
"""

import argparse
import os
import random
import sys

BATCH_SIZE = 128
STEPS_PER_PASS = 60000 // BATCH_SIZE
DECAY_PER_PASS = 0.7

# Model: passes, learning rate, the least accuracy on the 10000 test images.
PLANS = {
    "softmax": (8, 0.002, 0.919),  # reached: 0.9227
    "mlp": (3, 0.001, 0.960),  # reached: REACHED_MLP
    "conv": (1, 0.001, 0.980),  # reached: REACHED_CONV
}


def softmax_regression(image):
    """One layer: the digits' probabilities."""
    return fluid.layers.fc(input=image, size=10, act="softmax")


def multilayer_perceptron(image):
    """Two hidden layers."""
    hidden = fluid.layers.fc(input=image, size=200, act="relu")
    hidden = fluid.layers.fc(input=hidden, size=200, act="relu")
    return fluid.layers.fc(input=hidden, size=10, act="softmax")


def convolutional_network(image):
    """Convolution and pooling twice, normalised over the batch in between."""
    conv = fluid.nets.simple_img_conv_pool(
        input=image, filter_size=5, num_filters=20, pool_size=2, pool_stride=2, act="relu"
    )
    conv = fluid.layers.batch_norm(conv)
    conv = fluid.nets.simple_img_conv_pool(
        input=conv, filter_size=5, num_filters=50, pool_size=2, pool_stride=2, act="relu"
    )
    return fluid.layers.fc(input=conv, size=10, act="softmax")


MODELS = {
    "softmax": softmax_regression,
    "mlp": multilayer_perceptron,
    "conv": convolutional_network,
}


def test_accuracy(exe, program, feeder, accuracy):
    """The share of right answers among the test images."""
    average = fluid.average.WeightedAverage()
    for batch in paddle.batch(paddle.dataset.mnist.test(), batch_size=500)():
        (value,) = exe.run(program, feed=feeder.feed(batch), fetch_list=[accuracy])
        average.add(value[0], len(batch))
    return float(average.eval())


def train(model):
    """Trains one model; whether it is good enough."""
    passes, learning_rate, least = PLANS[model]
    random.seed(90)
    fluid.default_startup_program().random_seed = 90
    image = fluid.data(name="img", shape=[None, 1, 28, 28], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    predicted = MODELS[model](image)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=label))
    accuracy = fluid.layers.accuracy(input=predicted, label=label)
    test_program = fluid.default_main_program().clone(for_test=True)
    rate = fluid.layers.exponential_decay(learning_rate, STEPS_PER_PASS, DECAY_PER_PASS)
    fluid.optimizer.Adam(learning_rate=rate).minimize(loss)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(feed_list=[image, label], place=place)
    exe.run(fluid.default_startup_program())
    shuffled = paddle.reader.shuffle(paddle.dataset.mnist.train(), buf_size=60000)
    reader = paddle.batch(shuffled, batch_size=BATCH_SIZE)
    for pass_id in range(passes):
        for step, batch in enumerate(reader()):
            (value,) = exe.run(feed=feeder.feed(batch), fetch_list=[loss])
            if step % 200 == 0:
                print("%s: pass %d, batch %d, loss %.3f" % (model, pass_id, step, value[0]))
        share = test_accuracy(exe, test_program, feeder, accuracy)
        print("%s: pass %d, test accuracy %.4f" % (model, pass_id, share), flush=True)
    print("%s: test accuracy %.4f, at least %.3f is asked" % (model, share, least))
    return share >= least


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=[*MODELS, "all"], default="softmax")
    parser.add_argument("--data", help="the folder that holds the folder mnist")
    options = parser.parse_args()
    if options.data:
        os.environ["PADDLE_DATASET_HOME"] = options.data
    # Only now: the folder of the datasets is read when the package is imported.
    global paddle, fluid
    import paddle
    import paddle.fluid as fluid

    images = os.path.join(paddle.dataset.common.DATA_HOME, "mnist", "train-images-idx3-ubyte.gz")
    if not os.path.exists(images):
        print("left out: training on MNIST, because %s is not there" % images)
        return 0
    good = True
    for model in MODELS if options.model == "all" else [options.model]:
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            with fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
                good = train(model) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
