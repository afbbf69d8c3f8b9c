"""Trainers without servers: prints its parameters after every step, as one number.

    python collective.py MODE [--steps N] [--hidden N] [--pause S] [--devices N] [--save DIR]

MODE is "nccl2", "grad_allreduce" or "local_sgd" (with the fleet), or "transpiler" (without it).
"""

import argparse
import os
import time
import zlib

import numpy

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, TrainStatus, fleet

parser = argparse.ArgumentParser()
parser.add_argument("mode")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--hidden", type=int, default=16)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--save")
arguments = parser.parse_args()


def net():
    x = fluid.layers.data("x", [13])
    ids = fluid.layers.data("ids", [1], dtype="int64")
    y = fluid.layers.data("y", [1])
    rows = fluid.layers.embedding(ids, [100, 8], is_sparse=True)
    hidden = fluid.layers.fc([x, rows], arguments.hidden, act="relu")
    cost = fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y)
    return fluid.layers.mean(cost)


def batch(trainer, step, size=8):
    random = numpy.random.RandomState(1000 * trainer + step)
    x = random.rand(size, 13).astype("float32")
    ids = random.randint(0, 100, (size, 1)).astype("int64")
    return {"x": x, "ids": ids, "y": x.sum(1, keepdims=True)}


def digest(program):
    total = 0
    for parameter in sorted(program.all_parameters(), key=lambda one: one.name):
        value = numpy.array(fluid.global_scope().find_var(parameter.name).get_tensor())
        total = zlib.crc32(value.tobytes(), total)
    return total


def with_fleet():
    fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    strategy = DistributedStrategy()
    if arguments.mode != "nccl2":
        strategy.mode, strategy.collective_mode = "collective", arguments.mode
    loss = net()
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.01), strategy).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    return lambda feed: exe.run(fleet.main_program, feed=feed, fetch_list=[loss]), exe


def with_transpiler():
    trainers, trainer = os.environ["PADDLE_TRAINER_ENDPOINTS"], int(os.environ["PADDLE_TRAINER_ID"])
    loss = net()
    fluid.optimizer.Adam(0.01).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    t = fluid.DistributeTranspiler(config)
    own = os.environ["PADDLE_CURRENT_ENDPOINT"]
    t.transpile(trainer, trainers=trainers, current_endpoint=own)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    parallel = fluid.ParallelExecutor(
        False, loss.name, num_trainers=len(trainers.split(",")), trainer_id=trainer
    )
    return lambda feed: parallel.run([loss.name], feed=feed), exe


fluid.default_startup_program().random_seed = 7
step_of, executor = with_transpiler() if arguments.mode == "transpiler" else with_fleet()
trainer_id = int(os.environ["PADDLE_TRAINER_ID"])
main = fluid.default_main_program()
first = 0
if arguments.save:
    status = fleet.load_check_point(executor, arguments.save, trainer_id)
    first = 0 if status is None else status.next()
    # One text: the trainers of a launcher share its output, and parts of a line would mix.
    print("begins with step %d" % first)
print("process %d of trainer %d" % (os.getpid(), trainer_id))
print("parameters 0: %08x" % digest(main))
for step in range(first, arguments.steps):
    loss = step_of(batch(trainer_id, step, 8 * arguments.devices))[0]
    print("step %d loss %.6f parameters %08x" % (step, numpy.mean(loss), digest(main)))
    if arguments.save and trainer_id == 0:
        fleet.save_check_point(executor, arguments.save, TrainStatus(step))
    time.sleep(arguments.pause)
print("done")
