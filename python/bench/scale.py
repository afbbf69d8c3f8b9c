"""How long a job stands still when it gets another number of servers.

    python scale.py [--rows 40000,4000000]

A sync job of two trainers with a table of so many rows of 64 numbers (4,000,000 rows: 1 GB). It gets three servers instead of two, and two
instead of three, twice. The figure is the longest step of a script during a change, the other side how long the servers take to write a usual
cut of the same job, in the same run: nothing is to stop for longer. Prints a `BENCH` line for each size, with the longest step of a usual second,
in which there is a cut, and how much the new servers read before and at their turn.
"""

import argparse
import os
import re
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


def cut_seconds(job, n_last=5):
    """How long the last cuts took: of each the server that took longest, and of these the median."""
    took = {}
    for server in range(2):
        kept = re.findall(r"cut (\d+) is kept: \d+ bytes in (\d+) ms", job.log("serverlog.%d" % server))
        for cut, ms in kept[-n_last:]:
            took[cut] = max(took.get(cut, 0.0), int(ms) / 1000)
    return statistics.median(took.values())


def read_bytes(job, turn, n_servers):
    """What the new servers read before their turn and at it, megabytes each."""
    logs = "".join(job.log("latest/serverlog.%d.%d" % (server, turn)) for server in range(n_servers))
    found = re.findall(r"of which (\d+) bytes were read before and (\d+) now", logs)
    return [sum(int(pair[at]) for pair in found) / 1e6 for at in (0, 1)]


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
            cut, found, read = cut_seconds(job), [], []
            for turn, n_servers in enumerate((3, 2, 3, 2), 1):
                began = time.time()
                command = [os.path.join(BIN, "paddlewheel"), "scale", "snapshots", "--servers", str(n_servers)]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit("scale failed:\n" + done.stdout + done.stderr + job.said())
                over = time.time() + 1
                wait_until("steps after the change", lambda: steps(job, LOG)[-1] > over + 2)  # noqa: B023
                found.append(longest(steps(job, LOG), began, over))
                read.append("%.0f+%.0fMB" % tuple(read_bytes(job, turn, n_servers)))
            ours = statistics.median(found)
            print(
                f"BENCH scale_{n_rows * BIG_WIDTH * 4 // 1_000_000}mb ratio={ours / cut:.2f} ours={ours * 1000:.0f}ms "
                f"against=a_cut={cut * 1000:.0f}ms longest_step_of_a_usual_second={calm * 1000:.0f}ms "
                f"all={','.join('%.0f' % (1000 * one) for one in found)}ms read={','.join(read)}",
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
