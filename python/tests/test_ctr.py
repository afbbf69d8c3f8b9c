"""The click-through programs of examples/ctr, on made-up clicks and in real processes."""

import os
import re
import shutil
import subprocess
import sys

import numpy
import pytest
from conftest import ROOT

EXAMPLES = os.path.join(ROOT, "examples", "ctr")
RECORD = r"^%s\tauc_0\.tmp_0\t\tlod: \{\}\n\tdim: 1\n.*\n\tdtype: double\n\tdata: \[([0-9.]+)\]$"


@pytest.fixture
def examples(cluster, tmp_path):
    """The programs in the folder of a test."""
    for name in os.listdir(EXAMPLES):
        if name.endswith(".py"):
            shutil.copy(os.path.join(EXAMPLES, name), str(tmp_path / name))
    return tmp_path


def make(folder, rows, files, seed=1):
    options = ["--rows", str(rows), "--files", str(files), "--seed", str(seed)]
    command = [sys.executable, "-m", "paddlewheel", "make-criteo", str(folder), *options]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)


def edit(path, old, new):
    """Changes a script."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def aucs(log, info="auc"):
    """The lines that were printed on the way."""
    return [float(value) for value in re.findall(RECORD % re.escape(info), log, re.MULTILINE)]


def logs(folder, who):
    folder = folder / "logs"
    return [(folder / ("%slog.%d" % (who, at))).read_text(encoding="utf-8") for at in (0, 1)]


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


# train.py: one process, or servers in async mode. It learns slowly, so the steps are larger here.


@pytest.mark.parametrize(
    "command, epochs", [("python train.py", 2), ("python -m paddlewheel run train.py", 1)]
)
def test_train_alone(cluster, examples, command, epochs):
    """Ten threads and one file, so one thread; a table of ten million rows."""
    make(examples / "raw_data", 12000, 1)
    cluster.shell("train", command + " --local --learning_rate 1e-3 --epochs %d" % epochs)
    found = aucs(cluster.expect("train", limit=120))
    assert len(found) == epochs and found == sorted(found) and found[-1] > 0.51, found


@pytest.mark.parametrize(
    "command, epochs",
    [("python -m paddle.distributed.launch_ps", 2), ("python -m paddlewheel launch_ps", 1)],
)
def test_train_two_and_two(cluster, examples, command, epochs):
    """Async, without a call of `stop_worker`: the launcher ends the servers."""
    make(examples / "raw_data", 24000, 2)
    script = " train.py --learning_rate 1e-3 --epochs %d" % epochs
    cluster.shell("launch", command + " --worker_num 2 --server_num 2" + script)
    out = cluster.expect("launch", limit=180)
    assert "all workers exit, going to finish parameter server\n" in out
    for log in logs(examples, "worker"):
        found = aucs(log)
        assert len(found) == epochs and found == sorted(found) and found[-1] > 0.51, found
    for log in logs(examples, "server"):
        assert "trainer 0 joined" in log and "trainer 1 joined" in log


def test_train_with_an_empty_file(cluster, examples):
    """Three files, one of them empty, ten threads: every sample is there, every epoch."""
    make(examples / "raw_data", 2, 3)
    assert (examples / "raw_data" / "part-0").stat().st_size == 0
    loop = "        )\n\n\ndef main"
    passes = loop.replace(")", ")\n        print('pass', *exe.last_pass[:2])")
    edit(examples / "train.py", loop, passes)
    cluster.shell("train", "python train.py --local --epochs 2 --n_ids 1001")
    assert re.findall(r"^pass (.*)$", cluster.expect("train"), re.M) == ["2 2"] * 2


# train_fleet.py and infer.py.


def test_train_fleet_two_and_two(cluster, examples):
    """Worker 0 saves after each epoch; the saved model is judged by clicks it has not seen."""
    make(examples / "raw_data", 20000, 4)
    make(examples / "test_data", 3000, 1, seed=2)
    options = "--save model --epochs 2 --learning_rate 0.003 --batch_size 200"
    launch = "python -m paddlewheel launch_ps --worker_num 2 --server_num 2 train_fleet.py "
    cluster.shell("launch", launch + options)
    cluster.expect("launch", limit=180)
    for log in logs(examples, "worker"):
        assert "all epochs are done" in log
        assert re.search(r"^epoch 1 took \d+\.\d s$", log, re.M)
        # 50 batches of an epoch on two threads.
        assert len(aucs(log, "epoch 0, AUC")) == 2
    for log in logs(examples, "server"):
        assert "trainer 0 completed" in log and "trainer 1 completed" in log
    cluster.shell("infer", "python -m paddlewheel run infer.py")
    out = cluster.expect("infer")
    found = re.findall(r"^model/epoch_(\d): loss ([0-9.]+), AUC ([0-9.]+)$", out, re.M)
    assert [epoch for epoch, _, _ in found] == ["0", "1"], out
    assert float(found[1][2]) > 0.6, out
    edit(examples / "infer.py", "    clear(counters)\n", "")
    cluster.shell("infer again", "python -m paddlewheel run infer.py")
    again = cluster.expect("infer again")
    assert again != out, "what training counted has no part in it"


def test_train_fleet_one_and_one(cluster, examples):
    make(examples / "raw_data", 4000, 1)
    launch = "python -m paddlewheel launch_ps --worker_num 1 --server_num 1 train_fleet.py "
    cluster.shell("launch", launch + "--save model --batch_size 100")
    cluster.expect("launch", limit=120)
    saved = os.listdir(str(examples / "model" / "epoch_0"))
    assert {"table", "_generated_var_3", "fc_0.w_0", "fc_3.b_0"} <= set(saved)
    size = (examples / "model" / "epoch_0" / "table").stat().st_size
    assert size > 40 * 1000001, "the whole table, as one machine would save it"


# Quality.

CLICKS = os.path.join(os.path.dirname(ROOT), "shared", "data", "criteo")


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
    # The launcher says once what each process did, the demo what came of it.
    assert (result.stdout + result.stderr).count("--- work of each process") == 1
    for trainer in (0, 1):
        assert result.stderr.count("trainer %d  10 batches, 2000 samples; reading " % trainer) == 1
    for server in (0, 1):
        line = r"^server %d   .* rows, \d+ bytes a row; \d+ pushes in 10 rounds" % server
        assert len(re.findall(line, result.stderr, re.M)) == 1, result.stderr
    assert re.search(r"^result     4000 samples, \d+ samples/s; AUC 0\.\d{4}, ", result.stdout, re.M)
    assert re.search(r"^mode       sync; ", result.stdout, re.M)


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
