"""What `train_fleet.py` and `infer.py` share: settings, the model, the files."""

import argparse
import os

import paddle.fluid as fluid
from network_conf import ctr_dnn_model_dataset
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet


def get_params():
    """The settings of this process."""
    parser = argparse.ArgumentParser(description="A click-through model.")
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--batch_size", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--embedding_size", type=int, default=10)
    parser.add_argument("--sparse_feature_dim", type=int, default=1000001)
    parser.add_argument("--dense_feature_dim", type=int, default=13)
    parser.add_argument("--is_sparse", type=int, default=1, help="gradients of rows, not of tables")
    parser.add_argument("--cpu_num", type=int, default=2, help="threads of a trainer")
    parser.add_argument("--test", type=int, default=0, help="1: save a model after each epoch")
    parser.add_argument("--cloud", type=int, default=0, help="1: files are this trainer's own")
    parser.add_argument("--model_path", default="model")
    parser.add_argument("--train_files_path", default="raw_data")
    parser.add_argument("--test_files_path", default="test_data")
    return parser.parse_args()


class CTR(object):
    """CTR-DNN."""

    def input_data(self, params):
        """What is fed: 13 numbers, 26 slots of ids, the label."""
        dense_input = fluid.layers.data(
            name="dense_input", shape=[params.dense_feature_dim], dtype="float32")
        sparse_input_ids = [
            fluid.layers.data(name="C" + str(i), shape=[1], lod_level=1, dtype="int64")
            for i in range(1, 27)]
        label = fluid.layers.data(name="label", shape=[1], dtype="int64")
        return [dense_input] + sparse_input_ids + [label]

    def net(self, inputs, params):
        """The loss, the AUC so far and the AUC of late."""
        return ctr_dnn_model_dataset(
            inputs[0], inputs[1:-1], inputs[-1], params.embedding_size,
            params.sparse_feature_dim, params.is_sparse)


def list_files(folder):
    """The files of a folder, in an order on which all trainers agree."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def get_dataset(inputs, params):
    """The clicks of this trainer."""
    dataset = fluid.DatasetFactory().create_dataset()
    dataset.set_use_var(inputs)
    dataset.set_pipe_command("python dataset_generator.py")
    dataset.set_batch_size(params.batch_size)
    dataset.set_thread(int(params.cpu_num))
    file_list = list_files(params.train_files_path)
    if not params.cloud:
        file_list = fleet.split_files(file_list)
    dataset.set_filelist(file_list)
    return dataset
