"""A trainer without servers that may be started again: its output comes from its job.

    python let_back_in.py KIND --steps N [--pause S] [--model DIR] [--files FILE,...] [--threads N]

KIND is "nccl2", "grad_allreduce" or "local_sgd" (a loop of steps), or "dataset" (two passes over files).
Trainer 0 saves the model at the end, with the state of the optimizer.
"""

import argparse
import os
import time

import numpy

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet

parser = argparse.ArgumentParser()
parser.add_argument("kind")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--model")
parser.add_argument("--files", default="")
parser.add_argument("--threads", type=int, default=1)
arguments = parser.parse_args()

fluid.default_startup_program().random_seed = 7
fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
trainer = fleet.worker_index()
x = fluid.layers.data("x", [13])
ids = fluid.layers.data("ids", [1], dtype="int64")
y = fluid.layers.data("y", [1])
rows = fluid.layers.embedding(ids, [100, 8], is_sparse=True)
hidden = fluid.layers.fc([x, rows], 64, act="relu")
# Each trainer has its own running statistics. Threads of a trainer share them and take turns as they come.
if arguments.threads == 1:
    hidden = fluid.layers.batch_norm(hidden)
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
strategy = DistributedStrategy()
if arguments.kind != "nccl2":
    mode = "grad_allreduce" if arguments.kind == "dataset" else arguments.kind
    strategy.mode, strategy.collective_mode = "collective", mode
fleet.distributed_optimizer(fluid.optimizer.Adam(0.01), strategy).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
print("process %d of trainer %d" % (os.getpid(), trainer), flush=True)
exe.run(fleet.startup_program)


def batch(step, size=8):
    random = numpy.random.RandomState(1000 * trainer + step)
    values = random.rand(size, 13).astype("float32")
    keys = random.randint(0, 100, (size, 1)).astype("int64")
    return {"x": values, "ids": keys, "y": values.sum(1, keepdims=True)}


def steps():
    for step in range(arguments.steps):
        (value,) = exe.run(fleet.main_program, feed=batch(step), fetch_list=[loss])
        print("step %d loss %r" % (step, float(numpy.mean(value))), flush=True)
        time.sleep(arguments.pause)


def passes():
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([x, ids, y])
    dataset.set_pipe_command("cat")
    dataset.set_batch_size(4)
    dataset.set_thread(arguments.threads)
    files = arguments.files.split(",")
    dataset.set_filelist(files[trainer :: fleet.worker_num()])
    for number in range(2):
        print("pass", number, flush=True)
        exe.train_from_dataset(fleet.main_program, dataset, thread=arguments.threads)


passes() if arguments.kind == "dataset" else steps()
if trainer == 0 and arguments.model:
    fluid.io.save_persistables(exe, arguments.model, fluid.default_main_program())
print("done", flush=True)
