"""How long a job stands still when it gets another number of servers.

    python scale.py [--rows 40000,4000000]

A sync job of two trainers with a table of so many rows of 64 numbers (4,000,000 rows: 1 GB). It gets three servers instead of two, and two
instead of three, twice. The figure is the longest step of a script during a change, the other side the longest step of a usual second, in which
there is a cut. Prints a `BENCH` line for each size.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time

from recovery import BIG_WIDTH, BIN, Job, steps, wait_until

#: The script that says when its steps were over.
LOG = "workerlog.1"


def longest(ended, start, end):
    """The longest time between two steps of which one is in a time."""
    pairs = zip(ended, ended[1:])
    return max(after - before for before, after in pairs if after >= start and before <= end)


def measure(n_rows):
    with tempfile.TemporaryDirectory() as folder:
        options = ["--snapshot_dir", os.path.join(folder, "snapshots"), "--max_restarts", "100"]
        job = Job(folder, ["--fill", str(n_rows)], options)
        try:
            wait_until("the table is filled", lambda: len(steps(job, LOG)) > 300)
            time.sleep(6)
            ended = steps(job, LOG)
            last = ended[-1]
            calm = statistics.median(longest(ended, last - at - 1, last - at) for at in range(5))
            found = []
            for n_servers in (3, 2, 3, 2):
                began = time.time()
                command = [os.path.join(BIN, "paddlewheel"), "scale", "snapshots", "--servers", str(n_servers)]
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
                over = time.time() + 1
                wait_until("steps after the change", lambda: steps(job, LOG)[-1] > over + 2)  # noqa: B023
                found.append(longest(steps(job, LOG), began, over))
            ours = statistics.median(found)
            print(
                f"BENCH scale_{n_rows * BIG_WIDTH * 4 // 1_000_000}mb ratio={ours / calm:.2f} ours={ours * 1000:.0f}ms "
                f"against=longest_step_of_a_second_with_a_cut={calm * 1000:.0f}ms",
                flush=True,
            )
        finally:
            job.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=[40000, 4000000])
    for n_rows in parser.parse_args().rows:
        measure(n_rows)


if __name__ == "__main__":
    main()
