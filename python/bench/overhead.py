"""What a call of `exe.run` costs, ours against Fluid 1.8.5 in the same minutes.

    python overhead.py [--fluid FLUID_PYTHON]

One op on a 100 x 273 float array that is fed and fetched, the program prepared by earlier calls.
Both sides run in processes of their own and take turns, a round each; the figure of a side is the
median of its rounds. Prints a `BENCH` line for each figure.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np

LIMIT_US = 20.0
ROUNDS = 9
CALLS = 2000
SHAPE = (100, 273)


def fluid_of(side):
    if side == "ours":
        import paddlewheel.fluid as fluid
    else:
        import paddle.fluid as fluid
    return fluid


def serve(side):
    """Measures a round for every line on standard input; answers with us per call."""
    fluid = fluid_of(side)
    x = fluid.layers.data("x", [SHAPE[1]])
    y = fluid.layers.scale(x, scale=2.0)
    exe, main = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    value = np.random.RandomState(0).rand(*SHAPE).astype("float32")
    feed, fetch = {"x": value}, [y]
    (given,) = exe.run(main, feed=feed, fetch_list=fetch, use_program_cache=True)
    assert given.shape == SHAPE and (given == 2 * value).all()
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(CALLS):
            exe.run(main, feed=feed, fetch_list=fetch, use_program_cache=True)
        print((time.perf_counter() - start) / CALLS * 1e6, flush=True)


class Side:
    """A process that measures when asked."""

    def __init__(self, python, side):
        command = [python, os.path.abspath(__file__), "--serve", side]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True
        )
        self.rounds = []
        self.ask()

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("a side ended with status %s" % self.process.wait())
        return float(answer)

    def measure(self):
        self.rounds.append(self.ask())

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def median(self):
        return statistics.median(self.rounds)


def compare(python):
    sides = {"ours": Side(sys.executable, "ours")}
    if python:
        sides["fluid"] = Side(python, "fluid")
    for _ in range(ROUNDS):
        for side in sides.values():
            side.measure()
    for side in sides.values():
        side.close()
    ours = sides["ours"].median()
    figure = f"ours={ours:.1f} against=limit={LIMIT_US:.1f}"
    print(f"BENCH exe_run_overhead_us ratio={ours / LIMIT_US:.3f} {figure}")
    if not python:
        print("exe_run_vs_fluid is left out: FLUID_PYTHON names no Python with paddlepaddle==1.8.5")
        return
    fluid = sides["fluid"].median()
    figure = f"ours={ours:.1f} against=fluid={fluid:.1f}"
    print(f"BENCH exe_run_vs_fluid ratio={ours / fluid:.3f} {figure}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fluid", default="", help="a Python with paddlepaddle==1.8.5")
    parser.add_argument("--serve", choices=["ours", "fluid"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    serve(given.serve) if given.serve else compare(given.fluid)


if __name__ == "__main__":
    main()
