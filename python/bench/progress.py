"""What showing progress costs.

    python progress.py [--rounds 5] [--passes 2]

One process trains a small model on samples in memory, on a terminal. A process that shows how far it is takes turns with one that does
not (`PADDLEWHEEL_PROGRESS=off`). The figure is the ratio of the median speeds, shown to not shown; the goal is 0.99. Prints a `BENCH` line.
"""

import argparse
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import threading

GOAL = 0.99
SCRIPT = """
import sys
import paddlewheel.fluid as fluid

x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1])
hidden = fluid.layers.fc(fluid.layers.fc(x, 128, act="relu"), 128, act="relu")
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
dataset.set_use_var([x, y])
dataset.set_batch_size(16)
dataset.set_pipe_command("cat")
dataset.set_filelist(["data"])
dataset.load_into_memory()
n = t = 0
for at in range(int(sys.argv[1]) + 1):
    exe.train_from_dataset(fluid.default_main_program(), dataset, fetch_list=[loss], fetch_info=["loss"], print_period=10**9)
    if at:
        n, t = n + exe.last_pass[1], t + exe.last_pass[2]
print("SPEED %f" % (n / t))
"""


def speed(folder, passes, mode):
    """Samples a second of a process on a terminal."""
    parent, child = pty.openpty()
    got = []

    def read():
        try:
            while piece := os.read(parent, 65536):
                got.append(piece)
        except OSError:
            pass  # The process has ended.

    own = {**os.environ, "PADDLEWHEEL_PROGRESS": mode, "TERM": "xterm"}
    command = [sys.executable, "-c", SCRIPT, str(passes)]
    process = subprocess.Popen(command, cwd=folder, env=own, stdin=child, stdout=child, stderr=child)
    os.close(child)
    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait(600)
    reader.join()
    os.close(parent)
    text = b"".join(got).decode(errors="replace")
    assert code == 0, text
    assert ("samples/s" in text) == (mode == "auto"), text
    return float(re.search(r"SPEED (\S+)", text).group(1))


def main():
    """Prints the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=2)
    params = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "data"), "w") as file:
            for at in range(300000):
                file.write("8 " + "1 0 %d 2 0 1 %d 0 " % (at % 5, at % 3) + "1 %d\n" % (at % 2))
        shown, plain = [], []
        for turn in range(params.rounds):
            for side in [plain, shown] if turn % 2 else [shown, plain]:
                side.append(speed(folder, params.passes, "auto" if side is shown else "off"))
        ours, against = statistics.median(shown), statistics.median(plain)
        spread = (max(plain) - min(plain)) / against
        figure = "ours=%.0f against=not_shown=%.0f samples/s" % (ours, against)
        print("BENCH progress ratio=%.3f %s goal=%.2f spread=%.3f" % (ours / against, figure, GOAL, spread), flush=True)


if __name__ == "__main__":
    main()
