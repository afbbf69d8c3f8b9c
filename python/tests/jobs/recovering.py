"""A job to be killed: its own loop of steps, counters that it sets back, figures that all trainers have together.

Arguments: the mode, the number of steps, the folder to save to. With `READER` in the environment, a reader of the program has
the batches. With `CHANGES`, a trainer that was started again feeds other numbers. With `PLAIN`, the program itself cuts gradients for
servers, and there is a parameter that every server has a part of. With `SIGNS`, ids have 64 bits, and the table all of them. While there is a file `no_servers`, no server starts; while
there is one `no_turn.N`, server N waits before it does, for a minute at most; so does trainer N before it begins, if there is one
`no_start.N`. `N_ROWS` says how many equal
samples a step of a mode other than sync has.

The steps of an undisturbed start take two seconds together, and the last steps are not made, until there is a file `hurry`: a
test that kills a process in the middle has its time, on a quick machine too. With `PACE`, each step of every start takes so many
seconds until then.

The net of `w` is trained with gradients that do not depend on it: in any mode `w` says how often each step was counted. The rest is
trained by Adam, with an AUC beside it: every bit of every step counts.
"""

import os
import sys
import time

import numpy
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

mode, n_steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
is_exact = mode == "sync"
fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
fleet.init(role_maker.PaddleCloudRoleMaker())
if fleet.is_worker():
    until = time.monotonic() + 60
    while os.path.exists("no_start.%d" % fleet.worker_index()) and time.monotonic() < until:
        with open("held.%d" % fleet.worker_index(), "w"):
            time.sleep(0.01)
x = fluid.layers.data("x", [4])
constant = fluid.initializer.Constant(1.0)
product = fluid.layers.fc(x, 1, bias_attr=False, param_attr=fluid.ParamAttr(name="w", initializer=constant))
loss = fluid.layers.mean(product)
shown = [loss]
if is_exact:
    ids = fluid.layers.data("ids", [1], dtype="int64")
    label = fluid.layers.data("label", [1], dtype="int64")
    if "SIGNS" in os.environ:
        drawn = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5))
        rows = fluid.contrib.layers.sparse_embedding(ids, [2**63 - 1, 4], param_attr=drawn)
    else:
        rows = fluid.layers.embedding(ids, [100, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
    wide = fluid.layers.concat([rows, x], axis=1)
    if "PLAIN" in os.environ:
        wide = fluid.layers.fc(wide, 5000, act="relu")
    guess = fluid.layers.fc(wide, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    area, _, states = fluid.layers.auc(guess, label)
    shown = [loss, area]
optimizer = fluid.optimizer.Adam(0.01) if is_exact else fluid.optimizer.SGD(0.25)
strategy = getattr(StrategyFactory, "create_%s_strategy" % mode)()
if "PLAIN" in os.environ:
    strategy = fluid.DistributeTranspilerConfig()
fleet.distributed_optimizer(optimizer, strategy).minimize(loss)

role = "server.%d" % fleet.server_index() if fleet.is_server() else "trainer.%d" % fleet.worker_index()
with open(role + ".pid.new", "w") as file:
    file.write(str(os.getpid()))
os.rename(role + ".pid.new", role + ".pid")

if fleet.is_server():
    if os.path.exists("no_servers"):
        sys.exit("there is a file no_servers")
    begun = time.monotonic()
    while os.path.exists("no_turn.%d" % fleet.server_index()) and time.monotonic() < begun + 60:
        time.sleep(0.01)
    fleet.init_server()
    fleet.run_server()


def feed_of(rank, step):
    rng = numpy.random.RandomState(rank * 100000 + step)
    if not is_exact:
        return {"x": numpy.full((int(os.environ.get("N_ROWS", 2)), 4), step % 8 + 1, "float32")}
    if "CHANGES" in os.environ and os.environ.get("PADDLE_RESTARTS", "0") != "0":
        rng.rand()
    numbers, ids = rng.rand(8, 4).astype("float32"), rng.randint(0, 100, (8, 1))
    if "SIGNS" in os.environ:
        # Both ends of both halves are among them.
        ids = numpy.array([0, 2**63 - 1, 2**63, 2**64 - 1, *(k * 0x9E3779B97F4A7C15 % 2**64 for k in range(4, 100))], "uint64")[ids]
    return {
        "x": numbers,
        "ids": ids,
        "label": rng.randint(0, 2, (8, 1)),
    }


def wait_for_the_test(step):
    """A short while before each step, and as long as the test likes before the last ones."""
    is_first_start = os.environ.get("PADDLE_RESTARTS", "0") == "0"
    pace = float(os.environ.get("PACE", 2.0 / n_steps if is_first_start else 0.0))
    pause = 60.0 if step >= n_steps - 10 else pace
    deadline = time.monotonic() + pause
    while time.monotonic() < deadline and not os.path.exists("hurry"):
        time.sleep(min(pause, 0.01))


if fleet.is_worker():
    rank = fleet.worker_index()
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    seen, has_reader = [], "READER" in os.environ
    if has_reader:
        loader = fluid.io.DataLoader.from_generator([x, ids, label], capacity=4, iterable=False)
        batches = (tuple(feed_of(rank, step).values()) for step in range(n_steps))
        loader.set_batch_generator(lambda: batches)
        loader.start()
    for step in range(n_steps):
        wait_for_the_test(step)
        feed = None if has_reader else feed_of(rank, step)
        values = exe.run(fleet.main_program, feed=feed, fetch_list=shown)
        seen.append([float(value[0]) for value in values])
        print("step", step, flush=True)
        if is_exact and step % 50 == 49:
            total = [0.0, 0.0]
            fleet.all_reduce_worker([step, rank], total)
            seen.append([float(number) for number in total])
            # A new epoch begins to count at zero.
            for state in states:
                variable = fluid.global_scope().find_var(state.name)
                if variable is not None and "int64" in str(state.dtype).lower():
                    tensor = variable.get_tensor()
                    if tensor.shape():
                        tensor.set(numpy.zeros(tensor.shape(), "int64"), fluid.CPUPlace())
    fleet.barrier_worker()
    if rank == 0:
        fleet.save_persistables(exe, folder, fleet.main_program)
    fleet.stop_worker()
    with open("seen.%d" % rank, "w") as file:
        file.write(repr(seen))
    print("trainer ended", flush=True)
