"""Lines with levels, their forms, and progress on a terminal: with real processes."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from clusters import short_job
from conftest import PACKAGES

LIMIT = 120

TRAIN = short_job(5)

DATASET = '''
import sys, time, paddle.fluid as fluid
x, y = fluid.data("x", [None, 1]), fluid.data("y", [None, 1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
dataset = fluid.DatasetFactory().create_dataset(sys.argv[1])
dataset.set_use_var([x, y])
dataset.set_batch_size(10)
dataset.set_pipe_command(sys.argv[2])
dataset.set_filelist(["data"])
if sys.argv[1] == "InMemoryDataset":
    dataset.load_into_memory()
    dataset.local_shuffle()
for epoch in range(2):
    exe.train_from_dataset(fluid.default_main_program(), dataset, fetch_list=[loss], fetch_info=["loss"], print_period=20)
print("the end")
'''


def environment(**variables):
    paths = [PACKAGES, os.path.join(PACKAGES, "paddlewheel", "_alias"), os.environ.get("PYTHONPATH", "")]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "TERM": "xterm"}
    own = {name: value for name, value in own.items() if not name.startswith(("GLOG_", "PADDLEWHEEL_LOG"))}
    return {**own, **variables}


def run(folder, *arguments, **variables):
    """Runs a command; returns its result."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=LIMIT
    )


def on_terminal(folder, *arguments, **variables):
    """Runs a command on a terminal of 120 columns; its exit code and all that the terminal got."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment(**variables), stdin=child, stdout=child, stderr=child
    )
    os.close(child)
    got, deadline = b"", time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if select.select([parent], [], [], 0.2)[0]:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            got += piece
    else:
        process.kill()
    os.close(parent)
    return process.wait(LIMIT), got.decode(errors="replace")


def job(folder, *options, **variables):
    """A job of one server and one trainer; returns the launcher's output, and the logs of both."""
    (folder / "train.py").write_text(TRAIN)
    sizes = ["--worker_num", "1", "--server_num", "1"]
    done = run(folder, "-m", "paddlewheel", "launch_ps", *sizes, *options, "train.py", **variables)
    assert done.returncode == 0, done.stderr
    logs = folder / "logs" / "latest"
    return done, (logs / "serverlog.0").read_text(), (logs / "workerlog.0").read_text()


def data(folder, n):
    (folder / "data").write_text("".join("1 %d 1 %d\n" % (at % 7, at % 3) for at in range(n)))


# Levels.


@pytest.mark.parametrize(
    "variables, shown, hidden",
    [
        ({}, ["Server listening on", "get exit!rpc_processor break!"], ["done: apply a round"]),
        ({"PADDLEWHEEL_LOG": "debug"}, ["Server listening on", "done: apply a round micros="], []),
        ({"GLOG_v": "3"}, ["Server listening on", "done: apply a round micros=", "a connection has ended"], []),
        ({"PADDLEWHEEL_LOG": "server=debug,network=warn"}, ["done: apply a round"], ["a connection has ended"]),
        ({"GLOG_minloglevel": "1", "GLOG_v": "3"}, ["get exit!rpc_processor"], ["Server listening on", "done: "]),
        ({"GLOG_minloglevel": "2"}, [], ["Server listening on", "get exit!rpc_processor"]),
        ({"PADDLEWHEEL_LOG": "error", "GLOG_v": "3"}, [], ["Server listening on", "get exit!", "done: "]),
    ],
)
def test_levels(tmp_path, variables, shown, hidden):
    done, server, _ = job(tmp_path, **variables)
    assert all(text in server for text in shown), server
    assert not any(text in server for text in hidden), server
    assert "all workers exit, going to finish parameter server" in done.stderr, "a launcher always speaks"


def test_a_level_that_does_not_exist_is_an_error_at_the_start(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = run(tmp_path, "-m", "paddlewheel", "launch_ps", "train.py", PADDLEWHEEL_LOG="debgu")
    assert done.returncode == 1
    assert "error: environment variable PADDLEWHEEL_LOG: `debgu` is not a level" in done.stderr
    assert "Did you mean `debug`?" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "logs").exists(), "nothing was begun"
    script = "import paddlewheel.fluid as fluid; fluid.Executor(fluid.CPUPlace())"
    done = run(tmp_path, "-c", script, PADDLEWHEEL_LOG="info,servr=debug")
    assert done.returncode == 1
    assert "`servr` writes no lines" in done.stderr and "Did you mean `server`?" in done.stderr
    done = run(tmp_path, "-c", script, PADDLEWHEEL_LOG_FORMAT="jsn")
    assert "PADDLEWHEEL_LOG_FORMAT is `jsn`, it must be one of text, json. Did you mean `json`?" in done.stderr
    done = run(tmp_path, "-m", "paddlewheel", "launch_ps", "--log_format", "xml", "train.py")
    assert done.returncode == 2 and "invalid value 'xml' for '--log_format" in done.stderr and "text, json" in done.stderr


# Forms.


def test_json_is_one_object_a_line(tmp_path):
    done, server, worker = job(tmp_path, "--log_format", "json", PADDLEWHEEL_LOG="debug")
    lines = [json.loads(line) for line in server.splitlines() if line.strip()]
    said = [line for line in lines if line["message"].startswith("Server listening on ")]
    assert len(said) == 1
    assert (said[0]["role"], said[0]["rank"], said[0]["level"], said[0]["target"]) == ("server", 0, "info", "server")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", said[0]["time"])
    rounds = [line for line in lines if line["message"] == "done: apply a round"]
    assert len(rounds) == 5 and all(line["fields"]["micros"] >= 0 for line in rounds)
    lines = [json.loads(line) for line in worker.splitlines() if line.startswith("{")]
    assert {(line.get("role"), line.get("rank")) for line in lines} == {("trainer", 0)}
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.strip()]
    assert {line["role"] for line in lines} == {"launcher"}
    assert lines[-1]["message"] == "the job has finished"


# Fetched values.


def test_fluids_records_stay_and_the_log_says_when(tmp_path):
    data(tmp_path, 500)
    (tmp_path / "train.py").write_text(DATASET)
    done = run(tmp_path, "train.py", "QueueDataset", "cat")
    assert done.returncode == 0, done.stderr
    record = r"^loss\tmean_0\.tmp_0\t\tlod: \{\}\n\tdim: 1\n\tlayout: NCHW\n\tdtype: float\n\tdata: \[(\S+)\]\n\t\n"
    assert len(re.findall(record, done.stdout, re.M)) == 4
    assert done.stdout.endswith("the end\n")
    line = r" train_from_dataset\] training, epoch (\d), step (\d+): \S.* samples/s, loss \d"
    assert re.findall(line, done.stderr) == [("0", "20"), ("0", "40"), ("1", "20"), ("1", "40")]
    assert "\x1b" not in done.stdout + done.stderr and "\r" not in done.stderr, "nothing moves in a file"


# Progress.

#: Takes about a second for the data of a test.
SLOW = "sh -c 'while read line; do echo \"$line\"; n=$((n+1)); [ $((n%50)) = 0 ] && sleep 0.1; done'"


@pytest.mark.parametrize("kind, phases", [("QueueDataset", ["training"]), ("InMemoryDataset", ["loading"])])
def test_a_terminal_shows_how_far_it_is(tmp_path, kind, phases):
    data(tmp_path, 600)
    (tmp_path / "train.py").write_text(DATASET)
    code, got = on_terminal(tmp_path, "train.py", kind, SLOW)
    assert code == 0, got
    for phase in phases:
        assert re.search(r"\r?%s .*\d+ samples, .* samples/s" % phase, got), got
    if "training" in phases:
        assert re.search(r"training .*samples/s, .*loss \d", got), got
    assert got.rstrip().endswith("the end"), got
    # Without a terminal, short phases print nothing.
    done = run(tmp_path, "train.py", kind, SLOW)
    assert done.returncode == 0 and "samples, " not in done.stderr and "\x1b" not in done.stderr, done.stderr
    code, got = on_terminal(tmp_path, "train.py", kind, SLOW, PADDLEWHEEL_PROGRESS="off")
    assert code == 0 and "samples, " not in got, got
    code, got = on_terminal(tmp_path, "train.py", kind, SLOW, TERM="dumb")
    assert code == 0 and "samples, " not in got and "\x1b" not in got, got


def test_making_data_and_a_job_on_a_terminal(tmp_path):
    code, got = on_terminal(tmp_path, "-m", "paddlewheel", "make-criteo", "clicks", "--rows", "600000", "--files", "1")
    assert code == 0 and re.search(r"making data \[.*%, .* rows, .* rows/s, .* left", got), got
    (tmp_path / "train.py").write_text("import time; time.sleep(2)")
    code, got = on_terminal(tmp_path, "-m", "paddlewheel", "launch_ps", "--server_num", "1", "train.py")
    assert code == 0 and re.search(r"job .*00:0\d 1 servers, 2 workers", got), got
    assert "all parameter server are killed" in got


def test_workers_that_share_a_terminal(tmp_path):
    script = """
import os, sys, time
who = os.environ["PADDLE_TRAINER_ID"]
for n in range(3):
    print("worker", who, "step", n)
    time.sleep(0.3)
sys.stderr.write("worker %s has no end" % who)
"""
    (tmp_path / "train.py").write_text(script)
    code, got = on_terminal(tmp_path, "-m", "paddlewheel", "launch", "--nproc_per_node", "2", "train.py")
    assert code == 0, got
    for who in range(2):
        for text in ["step 0", "step 1", "step 2", "has no end"]:
            # Behind the place of the line that moves, and with an end: nothing is drawn over it.
            assert re.search(r"(^|\r\x1b\[2K|\n)worker %d %s\r\n" % (who, text), got), (who, text, got)


# Lines in a log.

#: How far something is, with what is left of it.
FAR = r" progress\] %s: \d+ %%, .* %s, .* %s/s, .* left"


def lines_of(name, unit, text):
    """The lines of a log that say how far something is."""
    return re.findall(FAR % (name, unit, unit) + ".*", text)


CLICKS = '''
import os, sys, paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

fleet.init(role_maker.PaddleCloudRoleMaker())
ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
label = fluid.data("label", [None, 1], "int64")
rows = fluid.layers.sequence_pool(fluid.layers.embedding(ids, [100, 4], is_sparse=True), "average")
predict = fluid.layers.fc(rows, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
auc, _, _ = fluid.layers.auc(predict, label)
optimizer = fluid.optimizer.SGD(0.1)
fleet.distributed_optimizer(optimizer, StrategyFactory.create_sync_strategy()).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([ids, label])
    dataset.set_batch_size(10)
    dataset.set_pipe_command(sys.argv[1])
    dataset.set_filelist(["data"])
    exe.train_from_dataset(
        fleet.main_program, dataset, fetch_list=[loss, auc], fetch_info=["loss", "AUC"], print_period=1000
    )
    fleet.stop_worker()
'''


def test_a_log_says_now_and_then_how_far_a_job_is(tmp_path):
    (tmp_path / "train.py").write_text(CLICKS)
    # A command reads ahead, but not so far.
    lines = ("300 %s 1 %d\n" % (" ".join(["%d" % (n % 100)] * 300), n * 7 // 3 % 2) for n in range(1500))
    (tmp_path / "data").write_text("".join(lines))
    sizes = ["--worker_num", "1", "--server_num", "1"]
    # It takes three seconds. The first lines may come before the time for the rest is known.
    variables = {"PADDLEWHEEL_PROGRESS_SECS": "0.2"}
    done = run(tmp_path, "-m", "paddlewheel", "launch_ps", *sizes, "train.py", SLOW, **variables)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "logs" / "latest" / "workerlog.0").read_text()
    found = lines_of("training", "samples", log)
    assert len(found) >= 2, log
    assert all(re.search(r" left, loss \d\S*, AUC \d", line) for line in found[1:]), found
    assert re.search(r" progress\] training is done: 1500 samples in ", log), log
    # The launcher says the same of all processes together.
    assert re.search(r"samples/s \| .* left \| .*loss \d", done.stderr), done.stderr
    assert "\x1b" not in log and "\r" not in log


MANY = '''
import sys, paddle.fluid as fluid
x, y = fluid.data("x", [None, 1]), fluid.data("y", [None, 1])
fluid.layers.create_parameter([2000, 1000], "float32", name="large")
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
dataset.set_use_var([x, y])
dataset.set_pipe_command("cat")
dataset.set_filelist(["data"] * 4)
dataset.load_into_memory()
dataset.local_shuffle()
dataset.global_shuffle()
fluid.io.save_persistables(exe, "model")
fluid.io.load_persistables(exe, "model")
'''


def test_everything_that_takes_long_says_how_long_the_rest_takes(tmp_path):
    data(tmp_path, 150000)
    (tmp_path / "many.py").write_text(MANY)
    # Lines as often as they can come: the work under test takes parts of a second.
    often = {"PADDLEWHEEL_PROGRESS_SECS": "0.001"}
    done = run(tmp_path, "many.py", **often)
    assert done.returncode == 0, done.stderr
    for name, unit in [("loading", "samples"), ("shuffling", "samples"), ("saving", "bytes"), ("loading a model", "bytes")]:
        assert lines_of(name, unit, done.stderr), (name, done.stderr)
    commands = [
        ("making data", "rows", ["make-criteo", "clicks", "--rows", "60000", "--files", "1"]),
        ("exporting", "bytes", ["export", "model", "--to", "parquet", "--table", "large", "--out", "large.parquet"]),
        ("importing", "bytes", ["import", "model", "large", "large.parquet"]),
        ("exporting", "bytes", ["export", "model", "--to", "safetensors"]),
    ]
    for name, unit, words in commands:
        done = run(tmp_path, "-m", "paddlewheel", *words, **often)
        assert done.returncode == 0, done.stderr
        assert lines_of(name, unit, done.stderr), (words, done.stderr)


def test_seconds_that_are_none_are_refused(tmp_path):
    script = "import paddlewheel.fluid as fluid; fluid.Executor(fluid.CPUPlace())"
    done = run(tmp_path, "-c", script, PADDLEWHEEL_PROGRESS_SECS="often")
    assert done.returncode == 1 and "PADDLEWHEEL_PROGRESS_SECS" in done.stderr, done.stderr


# Trouble.


def test_a_full_disk_under_the_log_does_not_end_training(tmp_path):
    data(tmp_path, 500)
    (tmp_path / "train.py").write_text(DATASET.replace('print("the end")', 'open("end", "w").close()'))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            # As launchers start it.
            [sys.executable, "-u", "train.py", "QueueDataset", "cat"],
            cwd=tmp_path, env=environment(PADDLEWHEEL_LOG="debug"), stderr=full, stdout=full, timeout=LIMIT,
        )
    assert done.returncode == 0 and (tmp_path / "end").exists()


def test_two_jobs_at_once_have_two_folders(tmp_path):
    (tmp_path / "train.py").write_text("import os, time; print(os.environ['MARK'], flush=True); time.sleep(1)")
    command = [sys.executable, "-m", "paddlewheel", "launch_ps", "--worker_num", "1", "--server_num", "1", "train.py"]
    jobs = [
        subprocess.Popen(command, cwd=tmp_path, env=environment(MARK=mark), stderr=subprocess.PIPE)
        for mark in ("one", "other")
    ]
    assert [started.wait(LIMIT) for started in jobs] == [0, 0], [started.stderr.read() for started in jobs]
    logs = [path for path in (tmp_path / "logs").iterdir() if re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", path.name)]
    assert len(logs) == 2
    assert sorted((log / "workerlog.0").read_text() for log in logs) == ["one\n", "other\n"]
