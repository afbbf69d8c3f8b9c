"""Trains and infers with the models of PaddleRec's main branch that have a static_model.py, unchanged.

    python paddlerec.py --git PADDLEREC.git --python PY [--paddle PADDLE26_PYTHON] [--only WORD]

PY is a Python with `paddlewheel`. With `--paddle`, the real Paddle 2.6.2 trains the same batches from the
same initial values, and the losses of the first steps are compared. Prints a line for each check; ends with
a non-zero status if one does not hold.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from random import Random

HERE = os.path.dirname(os.path.abspath(__file__))
MINUTES = 10
#: How far apart the numbers of a step may be, relatively.
LIMIT = 2e-3
STEPS = 20
#: Models whose configuration has another name than config.yaml.
CONFIGS = {
    "models/rank/slot_dnn": "config_queuedataset.yaml",
    "models/recall/deepwalk/deepwalk_train": "config_bigdata.yaml",
    "models/recall/word2vec/benchmark": "benchmark.yaml",
}
#: Models that no Paddle can train alone as they are, and why.
NOT_ALONE = {
    "models/rank/fastformer": "its net sets parameters to variables, which no Paddle can in a static program",
    "models/recall/deepwalk/deepwalk_train": "needs the package pgl and its data",
    "models/recall/deepwalk/multi_class": "needs the package pgl and its data",
    "models/recall/word2vec/benchmark": "needs a corpus of 7 GB",
    "models/rank/slot_dnn": "its table lies on servers: it is trained by jobs alone",
    "models/treebased/tdm": "its tree and its data are not in the repository",
}
#: Models with a reader that writes samples for trainers: the configuration of the job.
STREAMING = {
    "models/rank/dnn": "config_queuedataset.yaml",
    "models/rank/slot_dnn": "config_queuedataset.yaml",
    "models/rank/wide_deep": "config_cpups.yaml",
}
MODES = ("async", "sync", "geo")
#: Options of a job beside those of all.
OPTIONS = {"models/rank/slot_dnn": ["runner.use_auc=False", "hyper_parameters.slot_num=300"]}


def lay_out(git, folder, branch):
    """The files of a branch; objects that a partial copy lacks are left out."""
    names = subprocess.check_output(["git", "--git-dir", git, "ls-tree", "-r", "-z", "--name-only", branch])
    names = [name for name in names.decode().split("\0") if name and not name.startswith("doc/")]
    asked = "".join("{}:{}\n".format(branch, name) for name in names).encode()
    given = subprocess.run(
        ["git", "--git-dir", git, "cat-file", "--batch"], input=asked, stdout=subprocess.PIPE
    ).stdout
    at = 0
    for name in names:
        end = given.index(b"\n", at)
        head = given[at:end].split()
        at = end + 1
        if head[-1] == b"missing":
            continue
        size = int(head[2])
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(given[at:at + size])
        at += size + 1


def make_movies(folder):
    """Samples in the form that the demonstration downloads: ratings of movies."""
    random = Random(3)
    for part in ("train", "test"):
        at = os.path.join(folder, "models/demo/movie_recommand/data", part)
        os.makedirs(at, exist_ok=True)
        with open(os.path.join(at, part + ".txt"), "w") as out:
            for log in range(512):
                words = ["logid:%d" % log, "time:%d" % log, "userid:%d" % random.randint(1, 6000)]
                words += ["gender:%d" % random.randint(0, 1), "age:%d" % random.randint(1, 56)]
                words += ["occupation:%d" % random.randint(0, 20), "movieid:%d" % random.randint(1, 3900)]
                words += ["title:%d" % random.randint(1, 5000) for _ in range(4)]
                words += ["genres:%d" % random.randint(1, 18) for _ in range(3)]
                out.write(" ".join(words + ["label:%d" % random.randint(1, 5)]) + "\n")


def environment(python, ours):
    """What a process needs: our package under the name `paddle`, or nothing."""
    env = dict(os.environ, PYTHONUNBUFFERED="1", CPU_NUM="1", GLOG_minloglevel="2")
    if ours:
        asked = "import paddlewheel, os; print(os.path.dirname(paddlewheel.__file__))"
        package = subprocess.check_output([python, "-c", asked], universal_newlines=True).strip()
        env["PYTHONPATH"] = os.pathsep.join([os.path.join(package, "_alias"), env.get("PYTHONPATH", "")])
    # Pipe commands name Pythons of other machines.
    shims = tempfile.mkdtemp(prefix="pythons")
    for name in ("python", "python3.7"):
        path = os.path.join(shims, name)
        with open(path, "w") as out:
            out.write('#!/bin/sh\nexec "{}" "$@"\n'.format(os.path.abspath(python)))
        os.chmod(path, 0o755)
    env["PATH"] = os.pathsep.join([shims, env["PATH"]])
    return env


def run(words, env, folder):
    """Exit code and everything printed."""
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True, timeout=60 * MINUTES, errors="replace",
        )
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return -1, "{}\nended after {} minutes".format(late.stdout, MINUTES)


def steps(printed):
    """The numbers of each step that a trainer printed."""
    lines = [line for line in printed.splitlines() if re.search(r"epoch: \d+, batch_id: \d+", line)]
    metrics = [line.split("batch_id:")[1].split("avg_reader_cost")[0] for line in lines]
    number = r"[-+]?(?:nan|inf|\d+\.?\d*(?:e[-+]?\d+)?)"
    return [[float(x) for x in re.findall(number, text.split(",", 1)[1])] for text in metrics]


def last_line(printed):
    """The line that says most about a failure."""
    lines = [line for line in printed.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing printed"


class Checks:
    """Prints results and counts them."""

    def __init__(self):
        self.count = 0
        self.failed = []

    def say(self, name, holds, detail):
        self.count += 1
        if not holds:
            self.failed.append(name)
        print("{} {}: {}".format("ok  " if holds else "FAIL", name, detail), flush=True)


def train(model, given, side, out):
    """Trains with one side; what it printed."""
    python, env = side
    config = CONFIGS.get(model, "config.yaml")
    options = [
        "runner.use_gpu=False", "runner.epochs=1", "runner.print_interval=1",
        "runner.model_save_path=" + out,
    ] + given
    words = [python, "-u", os.path.join(FOLDER, "tools/static_trainer.py"), "-m", os.path.join(FOLDER, model, config), "-o"]
    # Its pipe command names a file beside the configuration.
    at = os.path.join(FOLDER, model) if model in OPTIONS else FOLDER
    return run(words + options + OPTIONS.get(model, []), env, at)


def infer(model, side, out):
    """Infers with what training saved."""
    python, env = side
    options = [
        "runner.use_gpu=False", "runner.print_interval=1", "runner.infer_start_epoch=0",
        "runner.infer_end_epoch=1", "runner.infer_load_path=" + out,
    ]
    config = CONFIGS.get(model, "config.yaml")
    words = [python, "-u", "tools/static_infer.py", "-m", os.path.join(model, config), "-o"]
    return run(words + options, env, FOLDER)


def job(model, config, mode, side, out):
    """Two servers and two workers."""
    python, env = side
    # Both workers would make the folder.
    os.makedirs(os.path.join(out, "model"))
    words = [
        python, "-m", "paddle.distributed.launch", "--server_num=2", "--worker_num=2", "--log_dir",
        os.path.join(out, "log"), os.path.join(FOLDER, "tools/static_ps_trainer.py"), "-m", config, "-o",
        "runner.sync_mode=" + mode, "runner.use_gpu=False", "runner.epochs=1", "runner.print_interval=10",
        "runner.geo_step=5", "runner.thread_num=1", "runner.model_save_path=" + os.path.join(out, "model"),
    ]
    # Their pipe commands name files beside the configuration, or from the top.
    at = FOLDER if model == "models/rank/wide_deep" else os.path.join(FOLDER, model)
    words[words.index(config)] = os.path.join(FOLDER, model, config)
    return run(words + OPTIONS.get(model, []), env, at)


def ended_well(out):
    """Whether both workers trained to the end, and what the first one said last."""
    said = []
    for worker in (0, 1):
        with open(os.path.join(out, "log", "workerlog.{}".format(worker)), errors="replace") as file:
            said.append(file.read())
    return all("Run Success" in text for text in said), re.findall(r"train_result_dict.*", said[0])[-1:]


def compare(checks, model, ours, theirs):
    """The first steps of both."""
    mine, real = steps(ours)[:STEPS], steps(theirs)[:STEPS]
    apart = 0.0
    for one, other in zip(mine, real):
        if len(one) != len(other):
            return checks.say(model + " numbers", False, "{} and {}".format(one, other))
        for a, b in zip(one, other):
            apart = max(apart, abs(a - b) / max(1.0, abs(b)))
    holds = bool(real) and len(mine) == len(real) and apart <= LIMIT
    checks.say(model + " numbers", holds, "{} steps, apart={:.1e}".format(len(mine), apart))


def with_both(checks, model, ours, theirs, out):
    """The real Paddle trains first and saves; both go on from there."""
    code, printed = train(model, [], theirs, os.path.join(out, "start"))
    if code:
        print("skip {} numbers: the real one ends with {}".format(model, last_line(printed)), flush=True)
        return None
    start = ["runner.model_init_path=" + os.path.join(out, "start", "0")]
    _, real = train(model, start, theirs, os.path.join(out, "real"))
    code, mine = train(model, start, ours, os.path.join(out, "mine"))
    if code:
        return checks.say(model + " numbers", False, last_line(mine))
    compare(checks, model, mine, real)


def check_model(checks, model, ours, theirs, logs):
    """Trains, infers, compares, and starts jobs."""
    with tempfile.TemporaryDirectory() as out:
        if model in NOT_ALONE:
            print("skip {}: {}".format(model, NOT_ALONE[model]), flush=True)
        else:
            code, printed = train(model, [], ours, out)
            keep(logs, model + " train", printed)
            checks.say(model + " train", code == 0, "{} steps".format(len(steps(printed))) if code == 0 else last_line(printed))
            if code == 0:
                code, printed = infer(model, ours, out)
                keep(logs, model + " infer", printed)
                checks.say(model + " infer", code == 0, "{} steps".format(len(steps(printed))) if code == 0 else last_line(printed))
            if theirs and code == 0:
                with_both(checks, model, ours, theirs, out)
        for mode in MODES if model in STREAMING else ():
            code, printed = job(model, STREAMING[model], mode, ours, os.path.join(out, mode))
            keep(logs, model + " " + mode, printed)
            good, said = ended_well(os.path.join(out, mode))
            checks.say("{} 2x2 {}".format(model, mode), code == 0 and good, said or last_line(printed))


def keep(logs, name, printed):
    """Writes what was printed, if asked to."""
    if logs:
        os.makedirs(logs, exist_ok=True)
        with open(os.path.join(logs, re.sub(r"[/ ]", "_", name) + ".log"), "w") as out:
            out.write(printed or "")


def main():
    global FOLDER
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--git", required=True, help="a git folder of PaddleRec")
    parser.add_argument("--branch", default="master")
    parser.add_argument("--python", default=sys.executable, help="a Python with paddlewheel")
    parser.add_argument("--paddle", help="a Python with paddlepaddle==2.6.2")
    parser.add_argument("--only", default="", help="models whose path has this word")
    parser.add_argument("--logs", help="a folder for what the processes print")
    given = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as FOLDER:
        lay_out(given.git, FOLDER, given.branch)
        make_movies(FOLDER)
        models = sorted(
            os.path.relpath(folder, FOLDER)
            for folder, _, names in os.walk(os.path.join(FOLDER, "models")) if "static_model.py" in names
        )
        ours = given.python, environment(given.python, True)
        theirs = given.paddle and (given.paddle, environment(given.paddle, False))
        for model in models:
            if given.only in model:
                check_model(checks, model, ours, theirs, given.logs)
    print("PADDLEREC models={} checks={} failed={}".format(len(models), checks.count, len(checks.failed)))
    # Nothing checked proves nothing.
    sys.exit(bool(checks.failed) or not checks.count)


if __name__ == "__main__":
    main()
