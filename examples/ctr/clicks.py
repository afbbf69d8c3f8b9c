"""What the click-through programs share: the data that is fed, the model, the files."""

import argparse
import os

import paddle.fluid as fluid

N_NUMBERS = 13
N_SLOTS = 26
HIDDEN = (400, 400, 400)


def options(description, batch_size):
    """A parser with the options that all programs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--n_ids", type=int, default=1000001, help="rows of the table")
    parser.add_argument("--width", type=int, default=10, help="numbers of a row")
    parser.add_argument("--batch_size", type=int, default=batch_size)
    return parser


def inputs():
    """The variables of a sample: numbers, slots of ids, the label."""
    numbers = fluid.layers.data("dense_input", [N_NUMBERS])
    slots = [
        fluid.layers.data("C%d" % (at + 1), [1], dtype="int64", lod_level=1)
        for at in range(N_SLOTS)
    ]
    label = fluid.layers.data("label", [1], dtype="int64")
    return [numbers, *slots, label]


def model(sample, n_ids, width):
    """CTR-DNN: all slots look up one table; three hidden layers.

    Returns the loss, summed over the batch, the AUC so far, and the counters of the AUC.
    """
    numbers, slots, label = sample[0], sample[1:-1], sample[-1]
    table = fluid.ParamAttr("table", initializer=fluid.initializer.Uniform())
    found = [
        fluid.layers.embedding(ids, [n_ids, width], is_sparse=True, param_attr=table)
        for ids in slots
    ]
    hidden = fluid.layers.concat(found + [numbers], axis=1)
    for size in HIDDEN:
        hidden = fluid.layers.fc(hidden, size, act="relu", param_attr=steady(hidden))
    guess = fluid.layers.fc(hidden, 2, act="softmax", param_attr=steady(hidden))
    loss = fluid.layers.reduce_sum(fluid.layers.cross_entropy(guess, label))
    auc, _, counters = fluid.layers.auc(guess, label, num_thresholds=2**12, slide_steps=20)
    return loss, auc, counters


def steady(layer):
    """Weights that keep the size of what comes in."""
    scale = layer.shape[1] ** -0.5
    return fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=scale))


def files(folder):
    """The files of a folder, in an order that all trainers agree on."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def stream(sample, paths, settings):
    """A dataset that reads click logs batch by batch, through the reader beside this file."""
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var(sample)
    dataset.set_pipe_command("python criteo_reader.py %d" % settings.n_ids)
    dataset.set_batch_size(settings.batch_size)
    dataset.set_thread(settings.threads)
    dataset.set_filelist(paths)
    return dataset
