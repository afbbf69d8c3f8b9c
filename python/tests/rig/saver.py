"""Saves without end: `saver.py WAY FOLDER START`. Every number of save n is START + n; after each save it prints that number.

Alone, or, in a job of one trainer and any number of servers, by the trainer; then servers save their parts of a table. `loaded` reads a
folder on one machine and says which numbers are in it, `loaded_by_servers` reads what a job saved.
"""

import os
import sys

import numpy
import paddlewheel.fluid as fluid
from paddlewheel.fluid.contrib import checkpoint

WAYS = ("persistables", "combined", "model", "state", "checkpoint")
#: A step adds 1 to every number: the gradient does not depend on them.
RATE = 0.5
ROWS = 20


def net(start):
    """A layer and a table that all begin with `start`."""
    x = fluid.layers.data("x", [64], append_batch_size=False)
    ids = fluid.layers.data("ids", [ROWS, 1], dtype="int64", append_batch_size=False)
    init = fluid.initializer.Constant(float(start))
    table = fluid.layers.embedding(
        ids, [ROWS, 64], is_sparse=True, is_distributed=True, param_attr=fluid.ParamAttr("table", init)
    )
    w = fluid.layers.create_parameter([64], "float32", name="w", default_initializer=init)
    both = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(x, w))
    out = fluid.layers.elementwise_add(both, fluid.layers.reduce_sum(table))
    return fluid.layers.scale(out, scale=-1 / RATE)


def feed():
    """Every row of the table, once."""
    return {"x": numpy.ones(64, "float32"), "ids": numpy.arange(ROWS).reshape(ROWS, 1)}


def save(exe, way, folder, program, target):
    """Saves in one of the ways."""
    if way == "persistables":
        fluid.io.save_persistables(exe, folder, program)
    elif way == "combined":
        fluid.io.save_persistables(exe, folder, program, filename="all")
    elif way == "model":
        fluid.io.save_inference_model(folder, ["x", "ids"], [target], exe, program)
    elif way == "state":
        fluid.save(program, os.path.join(folder, "state"))
    else:
        checkpoint.save_checkpoint(exe, folder, 0, program, {"step_id": 1}, 2)


def loaded(way, folder):
    """The numbers in a folder: one, if they are of one save."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.scope_guard(scope), fluid.unique_name.guard():
        fluid.optimizer.SGD(RATE).minimize(net(0))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        if way == "persistables":
            fluid.io.load_persistables(exe, folder, main)
        elif way == "combined":
            fluid.io.load_persistables(exe, folder, main, filename="all")
        elif way == "model":
            fluid.io.load_inference_model(folder, exe)
        elif way == "state":
            fluid.load(main, os.path.join(folder, "state"), exe)
        else:
            checkpoint.load_checkpoint(exe, folder, main)
        values = [numpy.array(scope.find_var(name).get_tensor()) for name in ("w", "table")]
    return {int(number) for value in values for number in numpy.unique(value)}


def loaded_by_servers(way, folder):
    """The same of what a job saved, which is loaded by the servers of another one, as if they began to serve."""
    found, endpoints = set(), ["127.0.0.1:1", "127.0.0.1:2"]
    for own in endpoints:
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(main, startup), fluid.scope_guard(scope), fluid.unique_name.guard():
            fluid.optimizer.SGD(RATE).minimize(net(0))
            split = fluid.DistributeTranspiler()
            split.transpile(0, program=main, pservers=",".join(endpoints), trainers=1, startup_program=startup)
            program, startup = split.get_pserver_programs(own)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            if way == "checkpoint":
                checkpoint.load_checkpoint(exe, folder, program)
            else:
                fluid.io.load_persistables(exe, folder, program)
            names = [var.name for var in program.list_vars() if var.name.startswith(("w", "table"))]
            held = [scope.find_var(name) for name in names if "GRAD" not in name]
            for var in [var for var in held if var is not None]:
                found |= {int(number) for number in numpy.unique(numbers_of(var))}
    return found


def numbers_of(var):
    """The numbers of a variable, also of one that is kept by rows."""
    try:
        return numpy.array(var.get_tensor())
    except (RuntimeError, TypeError, ValueError):
        return numpy.array(var.get_selected_rows().get_tensor())


def main(way, folder, start):
    """Trains and saves until it is killed."""
    loss = net(start)
    fluid.optimizer.SGD(RATE).minimize(loss)
    program, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe = fluid.Executor(fluid.CPUPlace())
    if "TRAINING_ROLE" in os.environ:
        servers, own = os.environ["SERVERS"], os.environ.get("SERVER")
        split = fluid.DistributeTranspiler()
        split.transpile(0, pservers=servers, trainers=1)
        if own:
            program, startup = split.get_pserver_programs(own)
            exe.run(startup)
            exe.run(program)
            return
        program = split.get_trainer_program()
    exe.run(startup)
    for n in range(1, 4096):
        exe.run(program, feed=feed(), fetch_list=[])
        save(exe, way, folder, program, loss)
        print(start + n, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
