"""Trainers without servers, each with several threads or devices; every trainer saves its parameters.

    python summed.py KIND PARTS STEPS FOLDER

KIND is "threads" (of train_from_dataset), "devices" (of ParallelExecutor), or "alone": one process with the samples of
all trainers in every batch. PARTS is how many threads or devices a trainer has.
"""

import os
import sys

import numpy

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet

KIND, PARTS, STEPS, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
SIZE = 4
trainer, n_trainers = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])


def batch(part, step):
    random = numpy.random.RandomState(1000 * part + step)
    x = random.rand(SIZE, 6).astype("float32")
    ids = random.randint(0, 30, (SIZE, 1)).astype("int64")
    return {"x": x, "ids": ids, "y": x.sum(1, keepdims=True)}


def joined(parts, step):
    batches = [batch(part, step) for part in parts]
    return {name: numpy.concatenate([one[name] for one in batches]) for name in batches[0]}


def file_of(part):
    path = os.path.join(FOLDER, "part%d" % part)
    with open(path, "w") as out:
        for step in range(STEPS):
            rows = batch(part, step)
            for x, key, y in zip(rows["x"], rows["ids"], rows["y"]):
                numbers = " ".join("%.9g" % value for value in x)
                out.write("6 %s 1 %d 1 %.9g\n" % (numbers, key[0], y[0]))
    return path


fluid.default_startup_program().random_seed = 7
slots = [fluid.layers.data("x", [6]), fluid.layers.data("ids", [1], dtype="int64"), fluid.layers.data("y", [1])]
rows = fluid.layers.embedding(slots[1], [30, 5], is_sparse=True)
hidden = fluid.layers.fc([slots[0], rows], 40, act="tanh")
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), slots[2]))
optimizer = fluid.optimizer.Adam(0.01)
exe = fluid.Executor(fluid.CPUPlace())
own = range(trainer * PARTS, (trainer + 1) * PARTS)
if KIND == "alone":
    optimizer.minimize(loss)
    exe.run(fluid.default_startup_program())
    for step in range(STEPS):
        exe.run(feed=joined(range(n_trainers * PARTS), step), fetch_list=[loss])
else:
    fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    strategy = DistributedStrategy()
    if KIND == "threads":
        strategy.mode, strategy.collective_mode = "collective", "grad_allreduce"
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    exe.run(fleet.startup_program)
    if KIND == "threads":
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var(slots)
        dataset.set_pipe_command("cat")
        dataset.set_batch_size(SIZE)
        dataset.set_thread(PARTS)
        dataset.set_filelist([file_of(part) for part in own])
        exe.train_from_dataset(fleet.main_program, dataset, thread=PARTS)
    else:
        for step in range(STEPS):
            exe.run(fleet.main_program, feed=joined(own, step), fetch_list=[loss])
values = {
    parameter.name: numpy.array(fluid.global_scope().find_var(parameter.name).get_tensor())
    for parameter in fluid.default_main_program().all_parameters()
}
numpy.savez(os.path.join(FOLDER, "%s%d.npz" % (KIND, trainer)), **values)
