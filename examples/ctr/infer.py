"""Judges the models that `train_fleet.py --test 1` saved by clicks it has not seen.

    paddlewheel run infer.py --model_path model --test_files_path test_data
"""

import os
import subprocess
import sys

import numpy as np
import paddle
import paddle.fluid as fluid
from ctr import CTR, get_params, list_files

place = fluid.CPUPlace()


def set_zero(var_name):
    param = fluid.global_scope().var(var_name).get_tensor()
    param_array = np.zeros(param._get_dims()).astype("int64")
    param.set(param_array, place)


def samples(params):
    """The samples of the test files, one by one, by the reader that the model was trained with.

    It makes ids with `hash`, which differs between processes unless they are told otherwise; pipe
    commands of a dataset are told this.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    for path in list_files(params.test_files_path):
        with open(path) as file:
            lines = subprocess.check_output(
                [sys.executable, "dataset_generator.py"], stdin=file, env=environment, text=True)
        for line in lines.splitlines():
            words = line.split()
            numbers = [float(word) for word in words[1:14]]
            yield [numbers] + [[int(word)] for word in words[15::2]]


def infer(model_path, params):
    """The mean loss and the AUC of a model."""
    ctr_model = CTR()
    startup_program = fluid.framework.Program()
    test_program = fluid.framework.Program()
    with fluid.framework.program_guard(test_program, startup_program):
        with fluid.unique_name.guard():
            inputs = ctr_model.input_data(params)
            loss, auc_var, batch_auc_var = ctr_model.net(inputs, params)

            exe = fluid.Executor(place)
            feeder = fluid.DataFeeder(feed_list=inputs, place=place)

            fluid.io.load_persistables(
                executor=exe,
                dirname=model_path,
                main_program=fluid.default_main_program())

    # 这些名字就是对应的4元祖里面的东西.
    auc_states_names = [
        '_generated_var_0', '_generated_var_1', '_generated_var_2',
        '_generated_var_3'
    ]
    for name in auc_states_names:
        set_zero(name)

    total, n_rows, auc = 0.0, 0, [0.0]
    for rows in paddle.batch(lambda: samples(params), params.batch_size)():
        cost, auc = exe.run(test_program, feed=feeder.feed(rows), fetch_list=[loss, auc_var])
        total, n_rows = total + float(cost[0]), n_rows + len(rows)
    return total / n_rows, float(auc[0])


def main():
    """Judges what each epoch left, or one model."""
    params = get_params()
    for model_path in list_files(params.model_path):
        print("%s: loss %.4f, auc %.4f" % ((model_path,) + infer(model_path, params)))


if __name__ == "__main__":
    main()
