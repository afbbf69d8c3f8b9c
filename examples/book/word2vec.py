"""Word2vec: the next word from the four before it, which share one table of embeddings.

    paddlewheel run examples/book/word2vec.py --data /data

Reads the Penn Treebank from `imikolov/simple-examples.tgz` in the folder (without `--data`, the
one of PADDLE_DATASET_HOME). If it is not there, sentences from a small grammar are made up
instead. Exits with 1 if the loss on held-out text does not fall far enough.
"""

import argparse
import math
import os
import random
import sys

EMBED_SIZE = 32
HIDDEN_SIZE = 128
N = 5
BATCH_SIZE = 100

# Where the loss on held-out text must end, as a share of that of guessing all words alike.
SHARE_MAX_MADE_UP = 0.12  # reached: 0.111; what the grammar leaves open is 0.109
SHARE_MAX_TREEBANK = 0.75  # not measured here: the Treebank must not be passed on
PASSES_MADE_UP = 6
PASSES_TREEBANK = 1

ADJECTIVES = "big small old young red blue quick slow".split()
ANIMALS = "dog cat horse bird fish mouse".split()
FOODS = "bread cheese corn grass rice fruit".split()
PLACES = "garden house river forest field".split()
# Who eats what: the last word of a sentence follows from an earlier one.
TASTES = dict(zip(ANIMALS, FOODS))


def sentence(source):
    """A sentence of the grammar; its object depends on its subject."""
    animal = source.choice(ANIMALS)
    words = ["the", source.choice(ADJECTIVES), animal]
    if source.random() < 0.5:
        return words + ["eats", TASTES[animal]]
    return words + ["runs", "to", "the", source.choice(PLACES)]


def made_up_text(n_sentences, seed):
    """A dictionary and a reader of n-grams, always the same for the same seed."""
    words = ["<s>", "<e>", "the", "eats", "runs", "to", *ADJECTIVES, *ANIMALS, *FOODS, *PLACES]
    numbers = {word: at for at, word in enumerate(words)}

    def reader():
        source = random.Random(seed)
        for _ in range(n_sentences):
            ids = [numbers[word] for word in ["<s>", *sentence(source), "<e>"]]
            for end in range(N, len(ids) + 1):
                yield tuple(ids[end - N:end])

    return numbers, reader


def text(paddle):
    """The dictionary, readers for training and test, number of passes, and the share to reach."""
    imikolov, common = paddle.dataset.imikolov, paddle.dataset.common
    path = common.path_of(imikolov.URL, "imikolov")
    if any(map(os.path.exists, common.names_of(path))):
        numbers = imikolov.build_dict()
        train, test = imikolov.train(numbers, N), imikolov.test(numbers, N)
        return numbers, train, test, PASSES_TREEBANK, SHARE_MAX_TREEBANK
    print("left out: the Penn Treebank, because %s is not there; made-up text instead" % path)
    numbers, train = made_up_text(3000, seed=1)
    _, test = made_up_text(300, seed=2)
    return numbers, train, test, PASSES_MADE_UP, SHARE_MAX_MADE_UP


def network(fluid, words, dict_size):
    """The probabilities of the next word."""
    embedded = [
        fluid.embedding(
            input=word,
            size=[dict_size, EMBED_SIZE],
            dtype="float32",
            is_sparse=True,
            param_attr=fluid.ParamAttr(name="shared_w"),
        )
        for word in words[:-1]
    ]
    flat = [fluid.layers.reshape(one, shape=[-1, EMBED_SIZE]) for one in embedded]
    joined = fluid.layers.concat(input=flat, axis=1)
    hidden = fluid.layers.fc(input=joined, size=HIDDEN_SIZE, act="sigmoid")
    return fluid.layers.fc(input=hidden, size=dict_size, act="softmax")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="the folder that holds the folder imikolov")
    options = parser.parse_args()
    if options.data:
        os.environ["PADDLE_DATASET_HOME"] = options.data
    # Only now: the folder of the datasets is read when the package is imported.
    import paddle
    import paddle.fluid as fluid

    random.seed(90)
    fluid.default_startup_program().random_seed = 90
    numbers, train, test, passes, share_max = text(paddle)
    names = ["firstw", "secondw", "thirdw", "fourthw", "nextw"]
    words = [fluid.data(name=name, shape=[None, 1], dtype="int64") for name in names]
    predicted = network(fluid, words, len(numbers))
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=words[-1]))
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.003).minimize(loss)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(feed_list=words, place=place)
    exe.run(fluid.default_startup_program())

    uniform = math.log(len(numbers))
    train_reader = paddle.batch(paddle.reader.shuffle(train, buf_size=5000), BATCH_SIZE)
    for pass_id in range(passes):
        for batch in train_reader():
            exe.run(feed=feeder.feed(batch), fetch_list=[loss])
        average = fluid.average.WeightedAverage()
        for batch in paddle.batch(test, BATCH_SIZE)():
            (value,) = exe.run(test_program, feed=feeder.feed(batch), fetch_list=[loss])
            average.add(value, len(batch))
        held_out = average.eval().item()
        print("pass %d: loss on held-out text %.3f" % (pass_id, held_out), flush=True)
    share = held_out / uniform
    print("%d words: guessing costs %.3f, the model %.3f" % (len(numbers), uniform, held_out))
    print("a share of %.3f, at most %.2f is asked" % (share, share_max))
    return 0 if share <= share_max else 1


if __name__ == "__main__":
    sys.exit(main())
