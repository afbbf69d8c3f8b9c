"""Trains on two workers; then each scores samples of its own, and all get the figures of all of them.

Arguments: the folder for what is compared, and the mode.
"""

import json
import sys

import numpy
import predicting
from paddlewheel import fluid, metrics
from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

FIGURES = ["samples", "clicks", "auc", "gauc", "users", "log_loss", "normalised_entropy", "pcoc"]


def figures(quality):
    return {name: getattr(quality, name) for name in FIGURES}


def main(folder, mode):
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fluid.default_startup_program().random_seed = 7
    _, _, _, predict, loss = predicting.net()
    strategy = getattr(StrategyFactory, "create_{}_strategy".format(mode))()
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rank = fleet.worker_index()
    for step in range(4):
        exe.run(fleet.main_program, feed=predicting.batch(10 * step + rank), fetch_list=[loss])
    test = fluid.default_main_program().clone(for_test=True)._prune([predict])
    scored, kept = metrics.ScoredSamples(), []
    # Not equally many each: the figures are not means of means.
    for step in range(3 + 4 * rank):
        feed = predicting.batch(1000 + 10 * step + rank)
        labels = feed.pop("label")[:, 0]
        (values,) = exe.run(test, feed=feed, fetch_list=[predict])
        random = numpy.random.RandomState(step)
        one = {
            "preds": numpy.array(values)[:, 1],
            "labels": labels,
            "users": random.randint(0, 9, len(labels)),
            "slices": random.randint(0, 2, len(labels)),
        }
        scored.update(**one)
        kept.append(one)
    everywhere = metrics.all_trainers(scored)
    found = {"all": figures(everywhere.quality())}
    found.update((str(at), figures(quality)) for at, quality in everywhere.by_slice().items())
    with open("{}/figures-{}.json".format(folder, rank), "w") as file:
        json.dump(found, file)
    arrays = {name: numpy.concatenate([one[name] for one in kept]) for name in kept[0]}
    numpy.savez("{}/samples-{}.npz".format(folder, rank), **arrays)
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
