"""Journals of scripts that fetch other numbers at each step: they have a limit, and below it a death changes nothing."""

import hashlib
import os
import re
import signal

import pytest
from clusters import Cluster, wait_until

#: Fetches a row of numbers at each step, until there is a file `enough`; its saved files depend on all steps. Trains at most
#: `STEPS` steps.
SCRIPT = '''
import os, sys, time
import numpy, paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

fleet.init(role_maker.PaddleCloudRoleMaker())
init = fluid.initializer.Uniform(-0.1, 0.1, seed=5)
wide = fluid.layers.fc(fluid.data("x", [None, 4]), 500, param_attr=fluid.ParamAttr("w", init))
loss = fluid.layers.mean(fluid.layers.square(wide))
fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), StrategyFactory.create_sync_strategy()).minimize(loss)
with open("server.pid" if fleet.is_server() else "trainer.pid", "w") as file:
    file.write(str(os.getpid()))
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    scale = 1.0
    for step in range(int(os.environ.get("STEPS", "100000000"))):
        feed = {"x": numpy.full((1, 4), 1 + step % 7, "float32") * scale}
        found, _ = exe.run(fleet.main_program, feed=feed, fetch_list=[wide, loss])
        # The script goes on by what it has fetched.
        scale = numpy.float32(1 + float(found[0, step % 500]) / 100)
        print("step", step, flush=True)
        time.sleep(float(os.environ.get("PAUSE", "0")))
    fleet.save_persistables(exe, "model", fleet.main_program)
    fleet.stop_worker()
'''
COMMAND = ["-m", "paddlewheel", "launch_ps", "--worker_num", "1", "--server_num", "1"]


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    yield made
    made.close()


def start(cluster, name, snapshots=True, **variables):
    options = ["--snapshot_dir", "kept", "--snapshot_secs", "0.1", "--max_restarts", "4"] if snapshots else []
    cluster.start(name, *COMMAND, *options, "script.py", **variables)


def trainer_log(cluster):
    path = cluster.folder / "logs" / "workerlog.0"
    return path.read_text(errors="replace") if path.exists() else ""


def n_steps(cluster):
    return max(map(int, re.findall(r"^step (\d+)$", trainer_log(cluster), re.M)), default=0)


def kill(cluster, role):
    os.kill(int((cluster.folder / (role + ".pid")).read_text()), signal.SIGKILL)


def size_of_journals(cluster):
    """Bytes of all that servers keep but for parameters: the files that grow."""
    found = 0
    for path in (cluster.folder / "kept").rglob("journal.*"):
        try:
            found += path.stat().st_size
        except OSError:
            continue
    return found


def test_a_journal_has_a_limit(cluster):
    start(cluster, "job", FLAGS_journal_mb="1")
    full = "the limit of its journal (FLAGS_journal_mb)"
    wait_until("the limit", lambda: full in trainer_log(cluster), context=cluster.logs)
    sizes = []
    for _ in range(3):
        before = n_steps(cluster)
        wait_until("more steps", lambda: n_steps(cluster) > before + 500, context=cluster.logs)
        sizes.append(size_of_journals(cluster))
    # The file and its second copy.
    assert max(sizes) < 2.2 * (1 << 20), sizes
    assert trainer_log(cluster).count(full) == 1
    # Servers may die: the trainer remembers what came after the last cut.
    kill(cluster, "server")
    wait_until("a rollback", lambda: "went back to cut" in trainer_log(cluster), context=cluster.logs)
    before = n_steps(cluster)
    wait_until("more steps", lambda: n_steps(cluster) > before + 100, context=cluster.logs)
    # A trainer that dies cannot repeat its script, and says why.
    kill(cluster, "trainer")
    log = cluster.expect("job", 1)
    for words in ("has reached its limit of 1 MiB (FLAGS_journal_mb)", "start the job again from its last saved model"):
        assert words in log, log


def saved(cluster):
    model = cluster.folder / "model"
    files = [path for path in sorted(model.rglob("*")) if path.is_file() and path.name != ".paddlewheel"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_below_the_limit_a_death_changes_nothing(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    (folder / "script.py").write_text(SCRIPT)
    calm = Cluster(folder)
    try:
        start(calm, "job", snapshots=False, STEPS="400")
        calm.expect("job")
        expected = saved(calm)
    finally:
        calm.close()
    start(cluster, "job", STEPS="400", PAUSE="0.005")
    wait_until("steps", lambda: n_steps(cluster) > 150 and size_of_journals(cluster) > 0, context=cluster.logs)
    kill(cluster, "trainer")
    cluster.expect("job")
    assert "events of its script are answered from the journal" in trainer_log(cluster)
    assert expected and saved(cluster) == expected
