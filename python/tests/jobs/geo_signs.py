"""Two trainers of GEO train a table by their own steps, to be killed.

Arguments: the ids (`all`: of 64 bits, or `few`: the same under small numbers), the steps of each trainer, the folder for
everything. Every step of a trainer changes the rows that it names by the same amount, whatever they are: rows say in the
end how often each step was counted, up to rounding. With `FROM`, servers begin with what is saved there. `PACE` is how long a step takes until there is a file `hurry`.
"""

import os
import sys
import time

import numpy
from paddlewheel import fluid
from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

#: Both halves of all ids, and their ends.
SIGNS = [0, 2**63 - 1, 2**63, 2**64 - 1, *((k * 0x9E3779B97F4A7C15) % 2**64 for k in range(4, 40))]
WIDTH, RATE, BATCH, N_TRAINERS = 4, 0.25, 4, 2
#: Steps from one exchange to the next.
N_LOCAL = 5


def places(rank, step):
    """The rows of a step, as places among `SIGNS`; some name one twice."""
    return [(rank * 17 + step * 7 + k * (1 + step % 3)) % len(SIGNS) for k in range(BATCH)]


def expected(n_steps):
    """What each row is in the end: of what a trainer has learnt since, each exchange sends its share, and the rest stays there."""
    rows, step_size = [0.5] * len(SIGNS), RATE / (BATCH * WIDTH)
    for rank in range(N_TRAINERS):
        learnt, touched = [0.0] * len(SIGNS), set()
        for step in range(n_steps):
            for place in places(rank, step):
                learnt[place] -= step_size
                touched.add(place)
            if step % N_LOCAL == N_LOCAL - 1:
                for place in touched:
                    share = learnt[place] / N_TRAINERS
                    rows[place] += share
                    learnt[place] -= share
                touched.clear()
    return rows


def main(which, n_steps, folder):
    n_steps, is_all = int(n_steps), which == "all"
    fleet.init(role_maker.PaddleCloudRoleMaker())
    ids = fluid.layers.data("ids", [1], dtype="int64")
    named = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.5))
    height = 2**63 - 1 if is_all else len(SIGNS)
    rows = fluid.layers.embedding(ids, [height, WIDTH], is_sparse=True, param_attr=named)
    loss = fluid.layers.mean(rows)
    strategy = StrategyFactory.create_geo_strategy(N_LOCAL)
    fleet.distributed_optimizer(fluid.optimizer.SGD(RATE), strategy).minimize(loss)
    role = "server.%d" % fleet.server_index() if fleet.is_server() else "trainer.%d" % fleet.worker_index()
    with open(role + ".pid.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(role + ".pid.new", role + ".pid")
    if fleet.is_server():
        fleet.init_server(*filter(None, [os.environ.get("FROM")]))
        fleet.run_server()
        return
    fleet.init_worker()
    exe, rank = fluid.Executor(fluid.CPUPlace()), fleet.worker_index()
    exe.run(fleet.startup_program)
    for step in range(n_steps):
        deadline = time.monotonic() + (60 if step == n_steps - 1 else float(os.environ.get("PACE", 0)))
        while time.monotonic() < deadline and not os.path.exists("hurry"):
            time.sleep(0.002)
        batch = numpy.array([SIGNS[place] if is_all else place for place in places(rank, step)], "uint64")
        exe.run(fleet.main_program, feed={"ids": batch.reshape(-1, 1)}, fetch_list=[loss])
        print("step", step, flush=True)
    fleet.barrier_worker()
    if rank == 0:
        fleet.save_persistables(exe, folder + "/model", fleet.main_program)
        fleet.save_inference_model(exe, folder + "/served", ["ids"], [rows])
    fleet.barrier_worker()
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
