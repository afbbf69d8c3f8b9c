"""How processes and launchers end: with which exit codes, with which last numbers, and what they say of others."""

import json
import os
import re
import signal
import stat
import time

import pytest
from clusters import Cluster, free_endpoints, server_variables, trainer_variables, wait_until
from conftest import HERE
from test_recovery_faults import JOB, PACE, Processes
from test_watching import get

UNFINISHED = 75
TERMINATED = 128 + signal.SIGTERM


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def processes(cluster):
    return Processes(cluster)


def test_a_trainer_that_is_asked_to_end_has_not_succeeded(processes):
    """Started without our launcher: Kubernetes and Slurm look at its exit code."""
    cluster = processes.cluster
    for one in (0, 1):
        processes.server(one)
        processes.trainer(one)
    cluster.wait_for("trainer 1", "step 20\n")
    cluster.signal("trainer 1", signal.SIGTERM)
    log = cluster.expect("trainer 1", TERMINATED, limit=30)
    assert "is kept, it ends now" in log and "Traceback" not in log, log
    processes.trainer(1)
    processes.finish()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_trainer_that_is_asked_to_end_does_not_wait_for_a_server_that_has(processes, number):
    """All are asked at once, and a server may be through first."""
    cluster = processes.cluster
    for one in (0, 1):
        processes.server(one)
        processes.trainer(one)
    cluster.wait_for("trainer 1", "step 20\n")
    cluster.signal("server 1", number)
    cluster.wait("server 1")
    cluster.wait_for("trainer 0", "is away")
    for one in (0, 1):
        cluster.signal("trainer %d" % one, signal.SIGTERM)
    for one in (0, 1):
        log = cluster.expect("trainer %d" % one, TERMINATED, limit=20)
        assert "this trainer was asked to end, it ends now" in log, log
    cluster.signal("server 0", signal.SIGTERM)
    cluster.expect("server 0", TERMINATED, limit=30)
    for one in (0, 1):
        processes.server(one)
        processes.trainer(one)
    processes.finish()


def test_so_has_one_of_a_job_without_snapshots(cluster):
    endpoints = free_endpoints(1)
    cluster.start("server 0", JOB, "sync", "100000", "model", PACE=PACE, **server_variables(endpoints, 0, 1))
    cluster.start("trainer 0", JOB, "sync", "100000", "model", PACE=PACE, **trainer_variables(endpoints, 0, 1))
    cluster.wait_for("trainer 0", "step 5\n")
    cluster.signal("trainer 0", signal.SIGTERM)
    assert cluster.wait("trainer 0") in (-signal.SIGTERM, TERMINATED), cluster.logs()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_follows_a_job_that_has_not_finished(cluster, number):
    line = "python -m paddlewheel launch_ps --worker_num 1 --server_num 1 --snapshot_dir s %s sync 100000 model" % JOB
    cluster.shell("launcher", line + " && touch deployed", PACE=PACE)
    wait_until("steps", lambda: "step 20" in log_of(cluster, "workerlog.0"), context=cluster.logs)
    (pid,) = children(cluster.pid("launcher"), "launch_ps")
    os.kill(pid, number)
    said = cluster.expect("launcher", UNFINISHED)
    assert said.endswith("the job has not finished (exit code 75); the same command resumes it\n"), said
    assert not (cluster.folder / "deployed").exists()


def children(parent, word):
    """The processes below a process that have this word in their command, the nearest first."""
    found, open_ones = [], [parent]
    while open_ones:
        one = open_ones.pop(0)
        with open("/proc/%d/task/%d/children" % (one, one)) as file:
            open_ones += map(int, file.read().split())
        with open("/proc/%d/cmdline" % one, "rb") as file:
            if word.encode() in file.read().split(b"\0"):
                found.append(one)
    return found[:1]


def log_of(cluster, name):
    path = cluster.folder / "logs" / name
    return path.read_text() if path.exists() else ""


def test_a_trainer_that_was_not_started_is_named(processes):
    """Two servers, and one of two trainers: it must not be said that a live server is away."""
    cluster = processes.cluster
    processes.server(0)
    processes.server(1)
    processes.trainer(0)
    cluster.wait_for("trainer 0", "trainer 1 has not joined the job, for ")
    began = time.monotonic()
    # For as long as it takes to ask servers a few times.
    wait_until("some time", lambda: time.monotonic() > began + 4)
    log = cluster.log("trainer 0")
    endpoints = "|".join(re.escape(endpoint) for endpoint in processes.endpoints)
    assert re.search(r"trainer 1 has not joined the job, for \d+ s by now; server (%s) is alive" % endpoints, log), log
    assert "is away" not in log, log
    processes.trainer(1)
    processes.finish()


#: Saves in every process, as scripts of the book do.
SAVES = """
import time
import numpy as np
import paddlewheel.fluid as fluid

def net():
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))

def batches():
    for at in range(4):
        yield [(np.ones(4, "float32"), np.ones(1, "float32"))] * 2

trainer = fluid.contrib.Trainer(net, lambda: fluid.optimizer.SGD(0.1), place=fluid.CPUPlace())
trainer.train(1, lambda event: None, batches, ["x", "y"])
began = time.monotonic()
trainer.save_params("params")
trainer.save_inference_model("model", ["x"], [0])
print("saved within", time.monotonic() - began, flush=True)
"""
#: The same without the class that knows better.
SAVES_ITSELF = SAVES.partition("began =")[0] + """
if trainer.role.is_server():
    fluid.io.save_persistables(trainer.exe, "own", trainer.train_program)
"""


def test_a_server_leaves_saving_to_trainers(cluster):
    (cluster.folder / "saves.py").write_text(SAVES)
    endpoints = free_endpoints(1)
    cluster.start("server 0", "saves.py", **server_variables(endpoints, 0, 1))
    cluster.start("trainer 0", "saves.py", **trainer_variables(endpoints, 0, 1))
    cluster.expect("trainer 0")
    log = cluster.expect("server 0", 0, limit=30)
    assert "Trainer.save_params does nothing in the process of a server" in log, log
    assert float(re.search("saved within (.*)", log).group(1)) < 5, log
    assert (cluster.folder / "params").is_dir() and (cluster.folder / "model").is_dir()


def test_a_server_that_saves_its_own_program_hears_so_at_once(cluster):
    (cluster.folder / "saves.py").write_text(SAVES_ITSELF)
    endpoints = free_endpoints(1)
    cluster.start("server 0", "saves.py", **server_variables(endpoints, 0, 1))
    cluster.start("trainer 0", "saves.py", **trainer_variables(endpoints, 0, 1))
    cluster.expect("trainer 0")
    log = cluster.expect("server 0", 1, limit=30)
    assert "nothing is saved to own: this is the program of a server, and trainers save" in log, log


#: Trains on several threads and ends without a word to anybody.
SILENT = """
import os, sys
import paddlewheel.fluid as fluid
from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddlewheel.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

fleet.init(role_maker.PaddleCloudRoleMaker())
x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
config = DistributeTranspilerConfig()
config.sync_mode, config.runtime_split_send_recv = False, True
fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), config).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    fleet.init_worker()
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([x, y])
    dataset.set_batch_size(10)
    dataset.set_thread(4)
    dataset.set_pipe_command("cat")
    dataset.set_filelist(["data.%d" % at for at in range(8)])
    for epoch in range(3):
        exe.train_from_dataset(fleet.main_program, dataset)
"""


def test_all_samples_are_counted_without_a_farewell(cluster):
    (cluster.folder / "silent.py").write_text(SILENT)
    for at in range(8):
        (cluster.folder / ("data.%d" % at)).write_text("1 0.5 1 1.0\n" * 100)
    options = ["--worker_num", "2", "--server_num", "1", "silent.py"]
    cluster.start("launcher", "-m", "paddlewheel", "launch_ps", *options)
    said = cluster.expect("launcher")
    rows = re.findall(r"^trainer (\d) +(\S+) batches, (\S+) samples; reading (.*), computing (.*), waiting", said, re.M)
    assert [row[:3] for row in rows] == [("0", "240", "2400"), ("1", "240", "2400")], said
    # Per thread: not longer than the job.
    assert all(seconds(row[4]) < 60 for row in rows), said
    # The numbers of processes that have ended are where the launcher finds them.
    for at in (0, 1):
        state = json.loads((cluster.folder / "logs" / "latest" / ("workerlog.%d.state" % at)).read_text())
        assert state["numbers"]["trainer_samples"] == 2400 and state["numbers"]["trainer_threads_max"] == 4


def seconds(text):
    number, unit = text.split(" ")
    return float(number) * {"ms": 1e-3, "s": 1, "min": 60, "h": 3600}[unit]


def targets(cluster):
    path = cluster.folder / "logs" / "latest" / "targets.json"
    found = json.loads(path.read_text()) if path.exists() else []
    return {one["labels"]["process"]: one["targets"][0] for one in found}


def answers(address):
    try:
        return get(address, "/metrics")[0] == 200
    except OSError:
        return False


def test_targets_are_kept_up_to_date(cluster):
    options = ["--worker_num", "1", "--server_num", "1", "--snapshot_dir", "s"]
    cluster.start("launcher", "-m", "paddlewheel", "launch_ps", *options, JOB, "sync", "100000", "model", PACE=PACE)
    names = {"server 0", "trainer 0"}
    all_answer = lambda: targets(cluster).keys() == names and all(map(answers, targets(cluster).values()))  # noqa: E731
    wait_until("all answer", all_answer, context=cluster.logs)
    for name, log in (("server 0", "serverlog.0"), ("trainer 0", "workerlog.0")):
        line = "this process answers at http://%s/metrics" % targets(cluster)[name]
        wait_until(line, lambda: line in log_of(cluster, log), context=lambda: log_of(cluster, log))  # noqa: B023
    # One that is started again is found again.
    state = json.loads(get(targets(cluster)["trainer 0"], "/state")[1])
    os.kill(state["pid"], signal.SIGKILL)

    def is_new():
        try:
            return json.loads(get(targets(cluster)["trainer 0"], "/state")[1])["pid"] != state["pid"]
        except (OSError, KeyError, ValueError):
            return False

    wait_until("another trainer", is_new, context=cluster.logs)
    # So are servers that take the place of others.
    before = targets(cluster)["server 0"]
    cluster.start("scale", "-m", "paddlewheel", "scale", "s", "--servers", "2")
    cluster.expect("scale")
    names |= {"server 1"}
    wait_until("two servers", lambda: all_answer() and targets(cluster)["server 0"] != before, context=cluster.logs)
    cluster.signal("launcher", signal.SIGTERM)
    cluster.expect("launcher", UNFINISHED)
    assert targets(cluster) == {}, "nobody answers any more"


def test_a_finished_run_is_begun_anew_by_the_next(cluster):
    """As pods do it: the folder is not cleared, and each submission has a number of its own."""

    def run(number):
        endpoints = free_endpoints(1)
        told = {"FLAGS_snapshot_dir": "s", "FLAGS_snapshot_secs": "0.2", "FLAGS_snapshot_run": number}
        arguments = [JOB, "sync", "40", "model"]
        cluster.start("server " + number, *arguments, **server_variables(endpoints, 0, 1), **told)
        cluster.start("trainer " + number, *arguments, **trainer_variables(endpoints, 0, 1))
        return cluster.expect("trainer " + number), cluster.expect("server " + number)

    (cluster.folder / "hurry").touch()
    trainer, server = run("first")
    assert "this is a new one" not in server and trainer.count("step 39\n") == 1, trainer
    trainer, server = run("second")
    assert "has finished, this is a new one" in server, server
    assert "repeats" not in trainer and trainer.count("step 39\n") == 1, trainer


#: Says that it is Open MPI, and refuses.
REFUSES = """#!/bin/sh
[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" && exit 0
echo "$@" >> calls
echo "There are not enough slots available in the system" >&2
exit 1
"""
MPI = ["-m", "paddlewheel", "launch_ps", "--on", "mpi", "--worker_num", "1", "--server_num", "1"]


def test_what_mpirun_refuses_is_no_crash(cluster):
    refuses = cluster.folder / "mpirun"
    refuses.write_text(REFUSES)
    refuses.chmod(refuses.stat().st_mode | stat.S_IXUSR)
    options = ["--mpirun", str(refuses), "--mpi_args", "--map-by 'ppr:1:node'", "--mpi_args=--oversubscribe"]
    cluster.start("launcher", *MPI, *options, JOB, "sync", "5", "model")
    said = cluster.expect("launcher", 1)
    assert said.count("There are not enough slots available in the system") == 1, said
    assert "refused the job, no rank was started" in said and "started" not in said.replace("was started", ""), said
    (call,) = (cluster.folder / "calls").read_text().splitlines()
    assert " --map-by ppr:1:node --oversubscribe sh -c " in call, call


@pytest.mark.parametrize("name", ["mpirun.openmpi", "mpirun.mpich"])
def test_the_real_mpirun_refuses_once(cluster, name):
    from test_engines import AS_ROOT, installed

    path = installed(name)
    (cluster.folder / "hurry").touch()
    wrong = ["--mpirun", path, "--mpi_args", "--no-such-option-of-mpirun"]
    cluster.start("launcher", *MPI, *wrong, JOB, "sync", "5", "model", **AS_ROOT)
    said = cluster.expect("launcher", 1)
    assert "refused the job, no rank was started" in said and "no-such-option-of-mpirun" in said, said
    assert "times more" not in said, said
    if name == "mpirun.openmpi" and os.getuid() == 0:
        cluster.start("as root", *MPI, "--mpirun", path, JOB, "sync", "5", "model")
        assert "as root" in cluster.expect("as root", 1)
        right = ["--mpi_args", "--allow-run-as-root --oversubscribe"]
        cluster.start("allowed", *MPI, "--mpirun", path, *right, JOB, "sync", "5", "model")
        assert cluster.expect("allowed").endswith("the job has finished\n")
