"""The documents' click-through programs, on made-up clicks and in real processes."""

import os
import re
import shutil
import sys

import numpy
import pytest
from conftest import HERE
from test_cluster_seeds import DOCUMENTS, blocks

from paddlewheel import _core

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "ctr")
RECORD = r"^%s\tauc_0\.tmp_0\t\tlod: \{\}\n\tdim: 1\n.*\n\tdtype: double\n\tdata: \[([0-9.]+)\]$"


def read(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return file.read()


@pytest.fixture
def examples(cluster, tmp_path):
    """The programs in the folder of a test."""
    for name in os.listdir(EXAMPLES):
        if name.endswith(".py"):
            shutil.copy(os.path.join(EXAMPLES, name), str(tmp_path / name))
    return tmp_path


def make(folder, rows, files, seed=1):
    options = ["--rows", str(rows), "--files", str(files), "--seed", str(seed)]
    return _core.make_criteo([str(folder), *options])


def shorten(folder, name, **changes):
    """Replaces numbers of a script: `epoch=20`, say."""
    text = (folder / name).read_text(encoding="utf-8")
    for what, number in changes.items():
        text, n = re.subn(r"\b(%s ?= ?)\d+" % what, r"\g<1>%d" % number, text)
        assert n == 1, what
    (folder / name).write_text(text, encoding="utf-8")


def hurry(folder, epochs):
    """Seed 001 with larger steps and fewer epochs: it starts anywhere, and learns slowly."""
    shorten(folder, "train.py", epoch=epochs)
    text = (folder / "train.py").read_text(encoding="utf-8")
    assert text.count("learning_rate=1e-4") == 2
    text = text.replace("learning_rate=1e-4", "learning_rate=1e-3")
    (folder / "train.py").write_text(text, encoding="utf-8")


def aucs(log, info="auc"):
    """What was printed on the way."""
    return [float(value) for value in re.findall(RECORD % re.escape(info), log, re.MULTILINE)]


def logs(folder, who):
    folder = folder / "logs"
    return [(folder / ("%slog.%d" % (who, at))).read_text(encoding="utf-8") for at in (0, 1)]


# The programs are the documents'.


def block_of_seed_001():
    """The first program of the document, whose blocks are indented."""
    names = os.listdir(DOCUMENTS) if os.path.isdir(DOCUMENTS) else []
    for name in (name for name in names if name.startswith("001")):
        with open(os.path.join(DOCUMENTS, name), encoding="utf-8") as file:
            text = file.read()
        return re.split(r"^\S", text.partition(".. code-block:: python\n")[2], flags=re.M)[0]
    return ""


def same_line(line):
    """A line without what had to be mended: indentation, and an argument that is nowhere defined."""
    line = re.sub(r"_train\(optimizer\)", "_train()", line.partition("#")[0].strip())
    # One parenthesis too many, and a blank here or there.
    return line.replace("fleet.startup_program))", "fleet.startup_program)").replace(" ", "")


@pytest.mark.parametrize(
    "number, at, script",
    [("001", 0, "train.py"), ("004", 2, "train_fleet.py"), ("004", 3, "train_fleet.py")]
    + [("004", 1, "train_fleet.py"), ("004", 4, "infer.py"), ("004", 5, "infer.py")],
)
def test_the_programs_are_the_documents(number, at, script):
    """Where a document is at hand, its lines are the program's, in their order."""
    found = [block_of_seed_001()] if number == "001" else blocks(number, "python")
    block = re.sub(r'"""\n.*?"""', "", (found or [""] * 9)[at], flags=re.DOTALL)
    rest = [same_line(line) for line in read(script).splitlines()]
    assert len(rest) > 50
    # Imports stand at the head of a file.
    imports = [line for line in rest if "import" in line]
    for line in filter(None, map(same_line, block.splitlines())):
        if line in imports:
            continue
        assert line in rest, line
        rest = rest[rest.index(line) + 1 :]


def test_both_readers_make_the_same_samples(cluster, examples):
    make(examples / "raw_data", 500, 1)
    cluster.shell(
        "readers",
        "python criteo_reader.py 1000001 < raw_data/part-0 > python.txt && "
        "python -m paddlewheel criteo-reader 1000001 < raw_data/part-0 > rust.txt",
        PYTHONHASHSEED="0",
    )
    cluster.expect("readers")
    # Before 3.11 Python hashed texts another way.
    last = None if sys.hash_info.algorithm == "siphash13" else 14
    one, other = [
        [
            ([numpy.float32(word) for word in row[1:14]], row[14:last], row[-1])
            for row in map(str.split, (examples / name).read_text().splitlines())
        ]
        for name in ("python.txt", "rust.txt")
    ]
    assert len(one) == 500 and one == other


# Seed 001.


@pytest.mark.parametrize(
    "command, epochs", [("python train.py", 2), ("python -m paddlewheel run train.py", 1)]
)
def test_seed_001_alone(cluster, examples, command, epochs):
    """Ten threads and one file, so one thread; a table of ten million rows."""
    make(examples / "raw_data", 12000, 1)
    hurry(examples, epochs)
    cluster.shell("train", command + " --is_local 1")
    found = aucs(cluster.expect("train", limit=120))
    assert len(found) == epochs and found == sorted(found) and found[-1] > 0.51, found


@pytest.mark.parametrize(
    "command, epochs",
    [("python -m paddle.distributed.launch_ps", 2), ("python -m paddlewheel launch_ps", 1)],
)
def test_seed_001_two_and_two(cluster, examples, command, epochs):
    """Async; nobody calls `stop_worker`: the launcher ends the servers."""
    make(examples / "raw_data", 12000, 1)
    hurry(examples, epochs)
    cluster.shell("launch", command + " --worker_num 2 --server_num 2 train.py")
    out = cluster.expect("launch", limit=180)
    assert "all workers exit, going to finish parameter server\n" in out
    for log in logs(examples, "worker"):
        found = aucs(log)
        assert len(found) == epochs and found == sorted(found) and found[-1] > 0.51, found
    for log in logs(examples, "server"):
        assert "trainer 0 joined" in log and "trainer 1 joined" in log


def test_seed_001_with_an_empty_file(cluster, examples):
    """Three files, one of them empty, ten threads: every sample is there, every epoch."""
    make(examples / "raw_data", 2, 3)
    assert (examples / "raw_data" / "part-0").stat().st_size == 0
    shorten(examples, "train.py", epoch=2, sparse_feature_dim=1001)
    text = (examples / "train.py").read_text()
    passes = "debug=False)\n            print('pass', *exe.last_pass[:2])\n"
    (examples / "train.py").write_text(text.replace("debug=False)\n", passes))
    cluster.shell("train", "python train.py --is_local 1")
    assert re.findall(r"^pass (.*)$", cluster.expect("train"), re.M) == ["2 2"] * 2


# Seed 004.


def test_seed_004_two_and_two(cluster, examples):
    """Worker 0 saves after each epoch; the saved model is judged by clicks it has not seen."""
    make(examples / "raw_data", 20000, 4)
    make(examples / "test_data", 3000, 1, seed=2)
    options = "--test 1 --epochs 2 --learning_rate 0.003 --batch_size 200"
    launch = "python -m paddlewheel launch_ps --worker_num 2 --server_num 2 train_fleet.py "
    cluster.shell("launch", launch + options)
    cluster.expect("launch", limit=180)
    for log in logs(examples, "worker"):
        assert "Distribute Train Success!" in log
        assert "epoch 1 finished, use time=" in log
        # 50 batches of an epoch on two threads.
        assert len(aucs(log, "Epoch 0 auc ")) == 2
    for log in logs(examples, "server"):
        assert "trainer 0 completed" in log and "trainer 1 completed" in log
    judge = "--batch_size 1000"
    cluster.shell("infer", "python -m paddlewheel run infer.py " + judge)
    out = cluster.expect("infer")
    found = re.findall(r"^model/epoch_(\d): loss ([0-9.]+), auc ([0-9.]+)$", out, re.M)
    assert [epoch for epoch, _, _ in found] == ["0", "1"], out
    assert float(found[1][2]) > 0.6, out
    text = (examples / "infer.py").read_text(encoding="utf-8")
    (examples / "infer.py").write_text(text.replace("    set_zero(name)", "    pass"))
    cluster.shell("infer again", "python -m paddlewheel run infer.py " + judge)
    again = cluster.expect("infer again")
    assert again != out, "what training counted has no part in it"


def test_seed_004_one_and_one(cluster, examples):
    make(examples / "raw_data", 4000, 1)
    launch = "python -m paddlewheel launch_ps --worker_num 1 --server_num 1 train_fleet.py "
    cluster.shell("launch", launch + "--test 1 --batch_size 100 --sparse_feature_dim 1000001")
    cluster.expect("launch", limit=120)
    saved = os.listdir(str(examples / "model" / "epoch_0"))
    assert {"SparseFeatFactors", "_generated_var_3", "fc_0.w_0", "fc_3.b_0"} <= set(saved)
    size = (examples / "model" / "epoch_0" / "SparseFeatFactors").stat().st_size
    assert size > 40 * 1000001, "the whole table, as one machine would save it"


# Quality.

CLICKS = os.path.join(os.path.dirname(DOCUMENTS), "data", "criteo")


def test_quality_on_real_clicks(child):
    """The program that measures it reaches its own goals, in the modes that give the same each time."""
    if not os.path.isdir(CLICKS):
        pytest.skip("%s is not there: the data may not be passed on" % CLICKS)
    script = os.path.join(EXAMPLES, "quality.py")
    options = ("--data", CLICKS, "--modes", "local", "sync")
    result = child("-m", "paddlewheel", "run", script, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("| yes |") == 2, result.stdout


def test_quality_says_what_is_missing(child):
    script = os.path.join(EXAMPLES, "quality.py")
    result = child("-m", "paddlewheel", "run", script, "--data", "nowhere")
    assert result.returncode == 1
    assert "nowhere is not there: say where the log is with --data" in result.stderr


def test_the_demo(child):
    """Small, and in the mode that gives the same each time."""
    script = os.path.join(EXAMPLES, "demo.py")
    result = child("-m", "paddlewheel", "run", script, "--rows", "4000")
    assert result.returncode == 0, result.stderr
    for trainer in (0, 1):
        assert "trainer %d  10 batches, 2000 samples in " % trainer in result.stdout
    assert re.search(r"^together   4000 samples, \d+ samples/s; \d+ rows, ", result.stdout, re.M)
    for server in (0, 1):
        line = r"^server %d   \d+ rows, \d+ bytes a row; \d+ pushes applied in 10 rounds" % server
        assert re.search(line, result.stdout, re.M)


# Files larger than memory.

STREAM = """
import sys
import paddle.fluid as fluid

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024

dense = fluid.layers.data("dense_input", [13])
slots = [fluid.layers.data("C%d" % at, [1], dtype="int64", lod_level=1) for at in range(1, 27)]
label = fluid.layers.data("label", [1], dtype="int64")
predict = fluid.layers.fc(dense, 1, act="sigmoid")
loss = fluid.layers.mean(fluid.layers.log_loss(predict, fluid.layers.cast(label, "float32")))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())

def train(path):
    clicks = fluid.DatasetFactory().create_dataset("QueueDataset")
    clicks.set_use_var([dense] + slots + [label])
    clicks.set_pipe_command(sys.argv[1])
    clicks.set_batch_size(1000)
    clicks.set_thread(2)
    clicks.set_filelist([path])
    exe.train_from_dataset(fluid.default_main_program(), clicks)
    return exe.last_pass[1]

train("small/part-0")
before = peak()
print(train("large/part-0"), peak() - before)
"""


@pytest.mark.parametrize(
    "command", ["paddlewheel criteo-reader 1001", "python -m paddlewheel criteo-reader 1001"]
)
def test_a_file_is_streamed(cluster, tmp_path, command):
    """100 MB of text pass through a few: a file may be larger than memory."""
    make(tmp_path / "small", 10000, 1)
    make(tmp_path / "large", 420000, 1)
    n_bytes = (tmp_path / "large" / "part-0").stat().st_size
    assert n_bytes > 100e6
    (tmp_path / "stream.py").write_text(STREAM)
    cluster.shell("stream", "python -m paddlewheel run stream.py '%s'" % command)
    n_samples, grown = map(int, cluster.expect("stream", limit=120).split()[-2:])
    assert n_samples == 420000
    assert grown < n_bytes / 10, grown


def test_quality_compares_settings_of_async(child, tmp_path):
    """Without the real Fluid at hand it shows ours alone, and how stale gradients were."""
    make(tmp_path / "raw", 6000, 1)
    (log,) = (str(tmp_path / "raw" / name) for name in os.listdir(str(tmp_path / "raw")))
    script = os.path.join(EXAMPLES, "quality.py")
    result = child("-m", "paddlewheel", "run", script, "--data", log, "--compare", "--seeds", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    for settings in ("default", r"queue 20, merge 20"):
        line = r"\| %s \| ours \| 0\.\d+ \| 0\.\d+ \| \d+\.\d\d, at most \d+ \|" % settings
        assert re.search(line, result.stdout), result.stdout
