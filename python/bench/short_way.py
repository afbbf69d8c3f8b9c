"""`paddlewheel.CTR(...).fit` beside the same program in `exe.train_from_dataset`.

    python short_way.py

60,000 made-up rows of a click log as CSV, one pass, the same layers, batch size and ids. Ours is the whole of `fit`: the file is
read, columns are guessed and encoded, a program is built and trained. The other side reads the same file with
`csv-reader` and trains the program that `fit` built, with one thread. They take turns. Prints a `BENCH` line with
the seconds of both; below 1 `fit` is faster.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import paddlewheel as pw
from paddlewheel import fluid

ROWS = 60_000
N_IDS = 1 << 18
ROUNDS = 5
NUMBERS = ["I%d" % at for at in range(1, 14)]
TEXTS = ["C%d" % at for at in range(1, 27)]


def as_csv(path):
    """Writes the same rows with names of columns; returns the file."""
    with open(path) as rows, open(path + ".csv", "w") as csv:
        csv.write(",".join(["label", *NUMBERS, *TEXTS]) + "\n")
        csv.writelines(row.replace("\t", ",") for row in rows)
    return path + ".csv"


def fit(path):
    return pw.CTR(target="label", epochs=1, validation=0.0, ids=N_IDS, verbose=False).fit(path)


def from_dataset(path, model):
    """One pass of the model's program from its start."""
    block = model.main_program.global_block()
    names = ["numbers"] + TEXTS + ["label"]
    slots = ["numbers=" + ",".join(NUMBERS)] + ["%s=%s:hash/%d" % (name, name, N_IDS) for name in TEXTS] + ["label=label"]
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        exe = fluid.Executor()
        exe.run(model.startup_program)
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_batch_size(256)
        dataset.set_use_var([block.var(name) for name in names])
        dataset.set_pipe_command("paddlewheel csv-reader na=0 " + " ".join(slots))
        dataset.set_filelist([path])
        dataset.set_thread(1)
        exe.train_from_dataset(model.main_program, dataset, scope=scope, thread=1)
        assert exe.last_pass.samples == ROWS


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "paddlewheel", "make-criteo", folder, "--rows", str(ROWS), "--files", "1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        path = as_csv(os.path.join(folder, "part-0"))
        model = fit(path)
        from_dataset(path, model)
        sides = {"fit": lambda: fit(path), "dataset": lambda: from_dataset(path, model)}
        rounds = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, run in sides.items():
                start = time.perf_counter()
                run()
                rounds[name].append(time.perf_counter() - start)
        ratio = statistics.median(ours / other for ours, other in zip(rounds["fit"], rounds["dataset"]))
        ours, other = (statistics.median(rounds[name]) for name in ("fit", "dataset"))
        print("BENCH ctr-fit ratio={:.3f} seconds={:.2f} train_from_dataset={:.2f}".format(ratio, ours, other))


main()
