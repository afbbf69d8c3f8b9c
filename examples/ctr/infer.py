"""Judges the models that `train_fleet.py --save model` left, by clicks that they have not seen.

    paddlewheel run infer.py --models model --data test_data
"""

import os
import subprocess
import sys

import clicks
import numpy
import paddle
import paddle.fluid as fluid

PLACE = fluid.CPUPlace()


def get_settings():
    """What this process was told."""
    parser = clicks.options("Judges click-through models.", batch_size=1000)
    parser.add_argument("--models", default="model", help="a folder with a folder for each model")
    parser.add_argument("--data", default="test_data", help="a folder of click logs")
    return parser.parse_args()


def samples(settings):
    """The samples of the files, one by one, by the reader that the models were trained with.

    The reader makes ids with `hash`, which differs between processes unless this variable fixes it.
    Datasets set it for their pipe commands.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "criteo_reader.py", str(settings.n_ids)]
    for path in clicks.files(settings.data):
        with open(path) as log:
            text = subprocess.check_output(command, stdin=log, env=environment, text=True)
        for line in text.splitlines():
            words = line.split()
            numbers = [float(word) for word in words[1 : 1 + clicks.N_NUMBERS]]
            # Every slot and the label: a count, which is 1, and a value.
            values = words[1 + clicks.N_NUMBERS :][1::2]
            yield [numbers] + [[int(value)] for value in values]


def clear(variables):
    """Fills counters with zeros: training has left its own counts in them."""
    for variable in variables:
        tensor = fluid.global_scope().find_var(variable.name).get_tensor()
        tensor.set(numpy.zeros(tensor.shape(), "int64"), PLACE)


def judge(folder, settings):
    """The mean loss and the AUC of a saved model."""
    program = fluid.Program()
    # The same names as in training: parameters are found by them.
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        sample = clicks.inputs()
        loss, auc, counters = clicks.model(sample, settings.n_ids, settings.width)
    exe = fluid.Executor(PLACE)
    fluid.io.load_persistables(exe, folder, program)
    clear(counters)
    feeder = fluid.DataFeeder(sample, PLACE)
    total, n_rows, area = 0.0, 0, [0.0]
    for rows in paddle.batch(lambda: samples(settings), settings.batch_size)():
        cost, area = exe.run(program, feed=feeder.feed(rows), fetch_list=[loss, auc])
        total, n_rows = total + float(cost[0]), n_rows + len(rows)
    return total / n_rows, float(area[0])


def main():
    settings = get_settings()
    for folder in clicks.files(settings.models):
        print("%s: loss %.4f, AUC %.4f" % (folder, *judge(folder, settings)))


if __name__ == "__main__":
    main()
