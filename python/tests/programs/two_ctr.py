"""A click-through model in the names of Paddle 2.x: `python two_ctr.py sync|async|geo|alone FOLDER`."""

import os
import sys

import numpy
import paddle
import paddle.distributed.fleet as fleet
import paddle.nn.functional as F
from paddle import nn

MODE, FOLDER = sys.argv[1:]
paddle.enable_static()


class Net(nn.Layer):
    """An embedding of ids, summed, and two products."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 4, sparse=True, weight_attr=paddle.ParamAttr(name="table"))
        self.layers = nn.LayerList([nn.Linear(4 + 2, 8), nn.ReLU(), nn.Linear(8, 1)])

    def forward(self, ids, dense):
        x = paddle.concat([paddle.sum(self.embedding(ids), axis=1), dense], axis=-1)
        for layer in self.layers:
            x = layer(x)
        return F.sigmoid(x)


def lines(seed):
    """Samples whose label is whether the first id is even."""
    random = numpy.random.RandomState(seed)
    for _ in range(400):
        first, second = random.randint(0, 50, 2)
        yield "2 {} {} 2 {:.3f} {:.3f} 1 {}\n".format(first, second, *random.rand(2), int(first % 2 == 0))


def strategy():
    """The mode of the job."""
    made = fleet.DistributedStrategy()
    made.a_sync = MODE != "sync"
    if MODE == "geo":
        configs = made.a_sync_configs
        configs["k_steps"] = 4
        made.a_sync_configs = configs
    return made


def train(exe, feeds, loss, auc):
    """Passes over a file of this trainer's own."""
    path = os.path.join(FOLDER, "part-{}".format(fleet.worker_index()))
    with open(path, "w") as out:
        out.writelines(lines(fleet.worker_index()))
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=20, thread_num=1, use_var=feeds, pipe_command="cat")
    dataset.set_filelist([path])
    for _ in range(8):
        exe.train_from_dataset(paddle.static.default_main_program(), dataset)
    print("files", len(fleet.util.get_file_shard(["a", "b"])))
    print("together", fleet.util.all_reduce(numpy.array([1, fleet.worker_index()]))[0])
    print("auc", exe.last_pass.auc)


def main():
    fleet.init(None if MODE == "alone" else fleet.PaddleCloudRoleMaker())
    ids = paddle.static.data("ids", [None, 2], "int64")
    dense = paddle.static.data("dense", [None, 2], "float32")
    label = paddle.static.data("label", [None, 1], "int64")
    predicted = Net()(ids, dense)
    loss = paddle.mean(F.log_loss(predicted, paddle.cast(label, "float32")))
    auc, _, _ = paddle.static.auc(paddle.concat([1 - predicted, predicted], axis=1), label)
    optimizer = paddle.optimizer.SGD(0.1) if MODE == "geo" else paddle.optimizer.Adam(0.01, lazy_mode=True)
    fleet.distributed_optimizer(optimizer, strategy()).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    train(exe, [ids, dense, label], loss, auc)
    if fleet.is_first_worker():
        fleet.save_inference_model(exe, os.path.join(FOLDER, "model"), ["ids", "dense"], predicted)
    fleet.stop_worker()


main()
