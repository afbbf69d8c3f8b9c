"""How long a job stands still when it gets another number of servers.

    python scale.py [--rows 40000,4000000]

A sync job of two trainers with a table of so many rows of 64 numbers (4,000,000 rows: 1 GB). It gets three servers instead of two, and two
instead of three, twice. The figure is the longest step of a script during a change, the other side the longest step of a usual second, in which
there is a cut. Prints a `BENCH` line for each size.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from recovery import BIN, Job, fleet_of, minimize, wait_until

WIDTH, BATCH = 64, 100_000


class Scaled(Job):
    """A job of this script."""

    def __init__(self, folder, n_rows):
        options = ["--snapshot_dir", os.path.join(folder, "snapshots"), "--max_restarts", "100"]
        super().__init__(folder, ["--fill", str(n_rows)], options, __file__)

    def steps(self):
        return [float(at) for at in re.findall(r"^STEP (\S+)$", self.log("workerlog.1"), re.M)]


def fill(n_rows):
    """Either role: fills a table, then takes small steps."""
    import numpy

    fluid, fleet, strategy = fleet_of("sync")
    ids = fluid.data("ids", [None, 1], "int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.5))
    rows = fluid.layers.embedding(ids, [n_rows, WIDTH], is_sparse=True, param_attr=table)
    loss = fluid.layers.reduce_mean(fluid.layers.fc(rows, 1))
    exe = minimize(fluid, fleet, strategy, loss)
    n_trainers, rank = fleet.worker_num(), fleet.worker_index()
    batch = min(BATCH, n_rows // n_trainers)
    for first in range(rank * batch, n_rows, n_trainers * batch):
        exe.run(fleet.main_program, feed={"ids": numpy.arange(first, first + batch).reshape(-1, 1)})
    rng = numpy.random.RandomState(rank)
    # Whoever measures ends the job.
    while True:
        exe.run(fleet.main_program, feed={"ids": rng.randint(0, n_rows, (2600, 1))})
        print("STEP %.4f" % time.time(), flush=True)


def longest(steps, start, end):
    """The longest time between two steps of which one is in a time."""
    pairs = zip(steps, steps[1:])
    return max(after - before for before, after in pairs if after >= start and before <= end)


def measure(n_rows):
    with tempfile.TemporaryDirectory() as folder:
        job = Scaled(folder, n_rows)
        try:
            wait_until("the table is filled", lambda: len(job.steps()) > 300)
            time.sleep(6)
            steps = job.steps()
            last = steps[-1]
            calm = statistics.median(longest(steps, last - at - 1, last - at) for at in range(5))
            found = []
            for n_servers in (3, 2, 3, 2):
                began = time.time()
                command = [os.path.join(BIN, "paddlewheel"), "scale", "snapshots", "--servers", str(n_servers)]
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
                ended = time.time() + 1
                wait_until("steps after the change", lambda: job.steps()[-1] > ended + 2)  # noqa: B023
                found.append(longest(job.steps(), began, ended))
            ours = statistics.median(found)
            print(
                f"BENCH scale_{n_rows * WIDTH * 4 // 1_000_000}mb ratio={ours / calm:.2f} ours={ours * 1000:.0f}ms "
                f"against=longest_step_of_a_second_with_a_cut={calm * 1000:.0f}ms",
                flush=True,
            )
        finally:
            job.end()


def main():
    if sys.argv[1:2] == ["--fill"]:
        return fill(int(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=[40000, 4000000])
    for n_rows in parser.parse_args().rows:
        measure(n_rows)


if __name__ == "__main__":
    main()
