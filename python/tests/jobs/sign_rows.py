"""Trains a table of feature signs by steps; with servers, or in a process alone.

Arguments: the mode or `alone`, the layer, the height of the table (an expression), the optimizer, how rows start (`half` or `drawn`), the
folder for everything. Each row is named as often as its place among `SIGNS` says. All numbers have a few bits, so that no order of
updates changes one, if rows start as a half.
"""

import sys

import numpy
from paddlewheel import fluid
from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

#: Both halves of all ids, and their ends; each batch has 4 of them.
SIGNS = [0, 2**63 - 1, 2**63, 2**64 - 1, *((k * 0x9E3779B97F4A7C15) % 2**64 for k in range(4, 40))]
WIDTH, RATE, BATCH = 4, 0.25, 4


def batches(signs):
    """Ids of each step."""
    named = [sign for k, sign in enumerate(signs) for _ in range(1 + k % 3)]
    named += signs[: -len(named) % BATCH]
    # Some batches name a row twice.
    named = named[::2] + named[1::2]
    return numpy.array(named, "uint64").reshape(-1, BATCH, 1)


def table(ids, layer, height, start):
    initializers = {"half": fluid.initializer.Constant(0.5), "drawn": fluid.initializer.Uniform(-1.0, 1.0)}
    named = fluid.ParamAttr(name="table", initializer=initializers[start])
    layers = {
        "sparse_embedding": lambda: fluid.contrib.layers.sparse_embedding(ids, [height, WIDTH], param_attr=named),
        "is_sparse": lambda: fluid.layers.embedding(ids, [height, WIDTH], is_sparse=True, param_attr=named),
        "is_distributed": lambda: fluid.layers.embedding(
            ids, [height, WIDTH], is_sparse=True, is_distributed=True, param_attr=named
        ),
        "v2": lambda: fluid.layers.reshape(fluid.embedding(ids, [height, WIDTH], is_sparse=True, param_attr=named), [-1, WIDTH]),
    }
    return layers[layer]()


def optimizer_of(name):
    return {
        "sgd": lambda: fluid.optimizer.SGD(RATE),
        "adagrad": lambda: fluid.optimizer.Adagrad(RATE),
        "lazy": lambda: fluid.optimizer.Adam(RATE, lazy_mode=True),
        "adam": lambda: fluid.optimizer.Adam(RATE),
        "momentum": lambda: fluid.optimizer.Momentum(RATE, 0.5),
        "lamb": lambda: fluid.optimizer.Lamb(RATE),
    }[name]()


class Nominal(int):
    """A height that says nothing about ids."""


def main(mode, layer, height, optimizer, start, folder):
    fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
    height = eval(height)
    signs = SIGNS if height > 2**63 - 2 or isinstance(height, Nominal) else [sign % height for sign in SIGNS]
    ids = fluid.layers.data("ids", [1], dtype="int64")
    rows = table(ids, layer, height, start)
    loss = fluid.layers.mean(rows)
    optimizer = optimizer_of(optimizer)
    exe = fluid.Executor(fluid.CPUPlace())
    if mode == "alone":
        optimizer.minimize(loss)
        exe.run(fluid.default_startup_program())
        losses = [exe.run(feed={"ids": batch}, fetch_list=[loss])[0].tolist() for batch in batches(signs)]
        fluid.io.save_persistables(exe, folder + "/model")
        fluid.io.save_inference_model(folder + "/served", ["ids"], [rows], exe)
    else:
        fleet.init(role_maker.PaddleCloudRoleMaker())
        strategy = getattr(StrategyFactory, "create_%s_strategy" % mode)()
        fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
        if fleet.is_server():
            fleet.init_server()
            fleet.run_server()
            return
        fleet.init_worker()
        exe.run(fleet.startup_program)
        losses = [exe.run(fleet.main_program, feed={"ids": batch}, fetch_list=[loss])[0].tolist() for batch in batches(signs)]
        fleet.barrier_worker()
        fleet.save_persistables(exe, folder + "/model")
        fleet.save_inference_model(exe, folder + "/served", ["ids"], [rows])
        fleet.stop_worker()
    with open(folder + "/losses", "w") as file:
        file.write(repr(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
