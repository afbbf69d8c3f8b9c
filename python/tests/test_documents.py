"""The programs of documents about Fluid, run as they are written.

The documents are not ours to pass on. They lie in `../shared/seeds`, beside the repository. Where
they are missing every test here is skipped, and says so.

A document leaves parts of a program to its reader: data, a network, a line of `...`. Those parts are
in this file, and `after` puts them in. Where a document has a mistake, `mend` corrects it. Both fail
if they do not find what they look for, so nothing passes by accident.
"""

import os
import re
import shutil
import signal
from textwrap import dedent, indent

import pytest
from clusters import free_port
from conftest import ROOT, saved_in
from test_ctr import EXAMPLES, aucs, logs, make

DOCUMENTS = os.path.join(os.path.dirname(ROOT), "shared", "seeds")


def document(number):
    """The text of a document; skips the test where it is not at hand."""
    names = os.listdir(DOCUMENTS) if os.path.isdir(DOCUMENTS) else []
    for name in (name for name in names if name.startswith(number)):
        with open(os.path.join(DOCUMENTS, name), encoding="utf-8") as file:
            return file.read()
    pytest.skip("document %s is not at hand: ../shared/seeds" % number)


def fenced(number, language):
    """The programs of a language between fences."""
    fences = re.compile(r"^```([^`\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
    found = fences.findall(document(number))
    return [body for named, body in found if named.strip() == language]


def indented(number):
    """The programs below lines that announce them."""
    parts = re.split(r"^\.\. code-block:: \w+\n", document(number), flags=re.M)[1:]
    blocks = (re.split(r"^\S", part, flags=re.M)[0] for part in parts)
    return [dedent(block).strip("\n") + "\n" for block in blocks]


def quoted(number, word):
    """The line of a log with this word that a document quotes, without time and place."""
    (line,) = (line for line in re.findall(r"^> (.+)$", document(number), re.M) if word in line)
    return line.partition("] ")[2] or line


def paragraphs(text):
    return re.split(r"\n\n+", text.strip("\n"))


def mend(text, old, new):
    """Corrects a mistake."""
    assert text.count(old) == 1, "%d times: %s" % (text.count(old), old)
    return text.replace(old, new)


def after(text, line, more):
    """Adds what is left to the reader behind a line, as deep as the line is."""
    (found,) = re.findall(r"^( *)%s\n" % re.escape(line), text, re.M)
    whole = found + line + "\n"
    return mend(text, whole, whole + indent(dedent(more).strip("\n"), found) + "\n")


def program(*parts):
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


# 000: a line is fitted, on one machine and on several.

OLD_VARIABLES = """
import os

port = os.environ["PADDLE_PSERVER_PORT"]
pserver = ",".join(ip + ":" + port for ip in os.environ["PADDLE_PSERVER_IPS"].split(","))
pserver_endpoints = pserver
current_endpoint = server_endpoint = os.getenv("PADDLE_CURRENT_IP", "") + ":" + port
training_role = os.environ["PADDLE_TRAINING_ROLE"]
trainer_id, trainers = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS"])
"""
STEP = "exe.run(t.get_trainer_program())"
FED_STEP = """cost, = exe.run(t.get_trainer_program(), feed=feeder.feed(data), fetch_list=[avg_cost])
        if cost[0] < 10.0:
            exit(0)"""


def test_000_alone(child, tmp_path):
    script = write(tmp_path / "fit_a_line.py", fenced("000", "python")[0])
    result = child("-m", "paddlewheel", "run", script)
    assert result.returncode == 0, result.stderr
    shutil.rmtree(str(tmp_path / "fit_a_line.model"))
    result = child(script, alias=True)
    assert result.returncode == 0, result.stderr
    assert saved_in(tmp_path / "fit_a_line.model")[:2] == ["fc_0.b_0", "fc_0.w_0"]


def program_000(form):
    """One of the two forms. Lines that it leaves out are those of the program for one machine."""
    alone, minimize, transpiled, roles = fenced("000", "python")
    network, rest = alone.split("sgd_optimizer.minimize(avg_cost)\n")
    size, reader, executor = paragraphs(rest)[:3]
    _, same, transpile, _, server, trainer = paragraphs(transpiled)
    assert same.startswith(minimize.strip())
    trainer = mend(trainer, "... # define data reader", size + "\n" + reader)
    trainer = mend(trainer, STEP, FED_STEP) + "\nexit(1)"
    head = program(network, OLD_VARIABLES, same, executor)
    if form == "roles":
        run = "    exe.run(pserver_startup)\n    exe.run(pserver_prog)"
        return program(head, roles, run, "else:", indent(trainer, "    "))
    serve = 'if training_role == "PSERVER":\n' + indent(server, "    ")
    return program(head, transpile, serve, "else:", indent(trainer, "    "))


@pytest.mark.parametrize("form", ["transpiled", "roles"])
def test_000_by_its_commands(cluster, tmp_path, form):
    """One server and two trainers. The first form does not tell `transpile` the number of a trainer."""
    write(tmp_path / "test_fit_a_line.py", program_000(form))
    port = free_port()
    commands = [text for text in fenced("000", "bash") if text.startswith("PADDLE_")]
    local = (re.sub(r"192\.168\.1\.\d", "127.0.0.1", text) for text in commands)
    server, trainer = (text.replace("6174", str(port)) for text in local)
    cluster.shell("server", "exec env " + server)
    cluster.wait_for("server", "Server listening on 127.0.0.1:%d" % port)
    cluster.shell("trainer 1", trainer)
    cluster.shell("trainer 0", mend(trainer, "TRAINER_ID=1", "TRAINER_ID=0"))
    for at in (0, 1):
        log = cluster.expect("trainer %d" % at)
        assert "init rpc client with trainer_id %d\n" % at in log
    assert cluster.is_running("server")
    cluster.signal("server", signal.SIGTERM)
    cluster.expect("server", 0, limit=5)


def here(text, places):
    """A text with addresses of this machine."""
    for theirs, ours in places.items():
        text = text.replace(theirs, ours)
    return text


# 002: the lines that make a program distributed, and the shells of two machines.

FLEET = """
import numpy
import paddle.fluid as fluid
import paddle.fluid.incubate.fleet.base.role_maker as role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)
"""
SUMS = """
import numpy
import paddle.fluid as fluid

x = fluid.layers.data("x", [4])
y = fluid.layers.data("y", [1])
y_predict = fluid.layers.fc(x, 1)
loss = avg_cost = avg_loss = fluid.layers.mean(fluid.layers.square_error_cost(y_predict, y))
"""
TRAIN = """
exe = fluid.Executor(fluid.CPUPlace())
exe.run(%s)
rng = numpy.random.RandomState(%s)
for step in range(100):
    a = rng.rand(8, 4).astype("float32")
    feed = {"x": a, "y": a.sum(1, keepdims=True)}
    value, = exe.run(%s, feed=feed, fetch_list=[loss])
print("last loss", float(value[0]))
"""


def program_002():
    (lines,) = fenced("002", "python")
    network = "# Define your network, choose your optimizer(SGD/Adam/Adagrad etc.)"
    lines = after(lines, network, SUMS + "optimizer = fluid.optimizer.Adam(0.1)")
    wrapped = "optimizer = fleet.distributed_optimizer(optimizer, strategy)"
    lines = after(lines, wrapped, "optimizer.minimize(loss)")
    train = TRAIN % ("fleet.startup_program", "fleet.worker_index()", "fleet.main_program")
    return program(FLEET, after(lines, "# run training", train))


def last_loss(log):
    return float(re.search("^last loss (.*)$", log, re.M).group(1))


@pytest.mark.parametrize("servers", ["first", "last"])
def test_002_on_two_machines(cluster, tmp_path, servers):
    """The shells are the document's, except for the addresses; so is their output."""
    write(tmp_path / "train.py", program_002())
    hosts = ["127.0.0.2", "127.0.0.3"]
    port = str(free_port(*hosts))
    places = {"10.89.176.11": hosts[0], "10.89.176.12": hosts[1], "36000": port}
    names = ["server A", "server B", "worker A", "worker B"]
    shells = {name: here(shell, places) for name, shell in zip(names, fenced("002", "bash"))}
    started = names if servers == "first" else names[2:] + names[:2]
    for name in started[:2]:
        cluster.shell(name, shells[name])
    if servers == "last":
        cluster.wait_for("worker A", quoted("002", "server not ready") + "\n")
        cluster.wait_for("worker A", here(quoted("002", "not ready endpoints"), places) + "\n")
    for name in started[2:]:
        cluster.shell(name, shells[name])
    for at, name in enumerate(["worker A", "worker B"]):
        log = cluster.expect(name)
        assert "] %s\n" % quoted("002", "Communicator start") in log
        client = mend(quoted("002", "init rpc client"), "trainer_id 0", "trainer_id %d" % at)
        assert "] %s\n" % client in log
        assert last_loss(log) < 0.1
    for host, name in zip(hosts, ["server A", "server B"]):
        line = here(quoted("002", "Server listening"), {"127.0.0.1": host, "36000": port})
        assert "] %s\n" % line in cluster.expect(name, limit=5)


# 003: questions and answers.


def test_003_checkpoints(child, tmp_path):
    """Question 1: a trainer saves itself every ten steps and keeps two checkpoints."""
    config = mend(fenced("003", "python")[0], "/tmp/ckpt", "ckpt")
    config = mend(config, "Trainer(...,", "Trainer(train_func, optimizer_func,")
    head = """
import os

import numpy
import paddle.fluid as fluid
from paddle.fluid.contrib.trainer import CheckpointConfig, EndStepEvent, Trainer

def train_func():
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))

def optimizer_func():
    return fluid.optimizer.SGD(0.01)
"""
    rest = """
def handler(event):
    if isinstance(event, EndStepEvent) and event.step == 25:
        print(sorted(os.listdir("ckpt")))

row = numpy.ones(4, "float32")
trainer.train(1, handler, lambda: ([(row, [1.0])] for _ in range(26)), ["x", "y"])
"""
    script = write(tmp_path / "resume.py", program(head, config, rest))
    result = child("-m", "paddlewheel", "run", script)
    assert result.stdout == "['checkpoint_1', 'checkpoint_2']\n", result.stderr


SERVE = """
pserver_program = t.get_pserver_program(current_endpoint)
exe.run(t.get_startup_program(current_endpoint, pserver_program))
exe.run(pserver_program)
"""
EXECUTOR = "fluid.optimizer.SGD(0.05).minimize(loss)\nexe = fluid.Executor(fluid.CPUPlace())\n"
TRAIN_LOOP = TRAIN % ("fluid.default_startup_program()", "trainer_id", "program") + "exe.close()\n"


def start_003(cluster, script, port, *names):
    """Starts one server, or two trainers."""
    for name in names:
        who, _, number = name.partition(" ")
        variables = {
            "PADDLE_PSERVER_PORT": str(port),
            "PADDLE_PSERVER_IPS": "127.0.0.1",
            "PADDLE_CURRENT_IP": "127.0.0.1",
            "PADDLE_TRAINING_ROLE": "PSERVER" if who == "server" else "TRAINER",
            "PADDLE_TRAINER_ID": number or "0",
            "PADDLE_TRAINERS": "2",
        }
        cluster.start(name, script, **variables)


def test_003_memory(cluster, tmp_path):
    """Question 3: trainers optimise the memory of their program before it is split."""
    text, _ = fenced("003", "")
    text = after(text, "# start pserver here", SERVE)
    train = "program = t.get_trainer_program()\n" + TRAIN_LOOP
    text = after(text, "# start trainer here", train)
    head = program(OLD_VARIABLES, "role = training_role", SUMS, EXECUTOR)
    script, port = write(tmp_path / "memory.py", program(head, text)), free_port()
    start_003(cluster, script, port, "server", "trainer 0", "trainer 1")
    for at in (0, 1):
        assert last_loss(cluster.expect("trainer %d" % at)) < 0.5
    cluster.expect("server", limit=5)


def test_003_pserver_mode(cluster, tmp_path):
    """Question 4: addresses, the number of trainers and all are in the script."""
    hosts, (_, mode) = ["127.0.0.2", "127.0.0.3"], fenced("003", "")
    port = free_port(*hosts)
    places = {"192.168.0.1": hosts[0], "192.168.0.2": hosts[1], "6174": str(port)}
    serve = "     exe.run(pserver_startup_program)\n     exe.run(pserver_program)\n"
    text = mend(here(mode, places), "elif role", serve + "elif role")
    train = "program = trainer_program\n" + TRAIN_LOOP
    text = program("import os", SUMS, EXECUTOR, text, indent(train, "     "))
    for at, host in enumerate(hosts):
        own = mend(text, 'current_endpoint = "' + hosts[0], 'current_endpoint = "' + host)
        script = write(tmp_path / ("server%d.py" % at), own)
        cluster.start("server %d" % at, script, PADDLE_TRAINING_ROLE="PSERVER")
    for at in range(4):
        own = mend(text, "trainer_id = 0", "trainer_id = %d" % at)
        script = write(tmp_path / ("trainer%d.py" % at), own)
        cluster.start("trainer %d" % at, script, PADDLE_TRAINING_ROLE="TRAINER")
    for at in range(4):
        assert last_loss(cluster.expect("trainer %d" % at)) < 0.5
    for at, host in enumerate(hosts):
        log = cluster.expect("server %d" % at, limit=5)
        assert "Server listening on %s:%d selected port" % (host, port) in log


def test_003_one_place(child, tmp_path):
    """Question 6: how a program is fed on one machine."""
    head = """
cpu = fluid.CPUPlace()
train_data = numpy.ones((3, 4), "float32")
y_true = numpy.ones((3, 1), "float32")
"""
    text = program(SUMS, head, fenced("003", "python")[1], "print([part.shape for part in outs])")
    result = child("-m", "paddlewheel", "run", write(tmp_path / "one.py", text))
    assert result.stdout == "[(3, 1), (1,)]\n", result.stderr


def test_003_places_of_different_sizes(child, tmp_path):
    """Question 6: verbatim. Without CPU_NUM the feeds say how many places there are."""
    text = fenced("003", "python")[2]
    script = write(tmp_path / "places.py", text)
    result = child("-m", "paddlewheel", "run", script, environment={"CPU_NUM": "2"})
    assert result.returncode == 0, result.stderr
    free = "import os; os.environ.pop('CPU_NUM', None)\n" + text
    result = child("-c", free, alias=True)
    assert result.returncode == 0, result.stderr
    result = child("-m", "paddlewheel", "run", script, environment={"CPU_NUM": "3"})
    assert "ValueError: Feed a list of tensor" in result.stderr


def program_003():
    """Question 7. Its first line stands there twice, and is indented less than the second."""
    text = fenced("003", "python")[3]
    text = dedent(mend(text, 'if training_role == "PSERVER":\n        place', "    place"))
    ips = 'is_local, pserver_ips = False, os.environ["PADDLE_PSERVER_IPS"]'
    loop = "def train_loop(program):\n" + indent(TRAIN_LOOP, "    ")
    return program(OLD_VARIABLES, ips, SUMS, EXECUTOR, loop, text)


def test_003_a_server_that_is_said_to_be_stuck(cluster, tmp_path):
    """Question 7: it reaches all its lines, and so do its trainers."""
    script, port = write(tmp_path / "stuck.py", program_003()), free_port()
    start_003(cluster, script, port, "server")
    cluster.wait_for("server", "start pserver...\npserver start up ok: ")
    cluster.wait_for("server", "Server listening on 127.0.0.1:%d" % port)
    start_003(cluster, script, port, "trainer 0", "trainer 1")
    for at in (0, 1):
        log = cluster.expect("trainer %d" % at)
        assert log.startswith("127.0.0.1:%d\n2\n%d\n" % (port, at)) and "trainer\n" in log
    log = cluster.expect("server", limit=5)
    assert log.endswith("pserver ended\n")
    assert "fill_constant" in log


def test_003_the_executor_of_the_answer(child, tmp_path):
    """Question 7: there is no graphics card here, and one machine."""
    text = mend(fenced("003", "python")[4], " if args.", "    if args.")
    head = """
import types

fluid.optimizer.SGD(0.05).minimize(avg_loss)
fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
args = types.SimpleNamespace(update_method="pserver")
train_prog = fluid.default_main_program()
strategy, build_strategy = fluid.ExecutionStrategy(), fluid.BuildStrategy()
"""
    run = """
feed = {"x": numpy.ones((4, 4), "float32"), "y": numpy.ones((4, 1), "float32")}
(losses,) = exe.run(fetch_list=[avg_loss.name], feed=feed)
print(losses.shape)
"""
    script = write(tmp_path / "answer.py", program(SUMS, head, dedent(text), run))
    result = child("-m", "paddlewheel", "run", script, environment={"CPU_NUM": "2"})
    assert result.stdout == "(2,)\n", result.stderr


# 001 and 004: click-through rate. The network, the reader and the files are those of examples/ctr.

#: The imports of 001.
ARGS = """
import argparse

def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--is_local", type=int, default=0)
    return parser.parse_args()
"""
NETWORK_CONF = """
import clicks

def ctr_dnn_model_dataset(numbers, slots, label, embedding_size, sparse_feature_dim):
    loss, auc, _ = clicks.model([numbers, *slots, label], sparse_feature_dim, embedding_size)
    return loss, auc, auc
"""
#: The names in 004.
CTR = """
import logging
import time
import types

import clicks
import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("fluid")
place, train_result = fluid.CPUPlace(), None
params = types.SimpleNamespace(
    n_ids=1000001, width=10, batch_size=200, threads=2, epochs=2, learning_rate=0.003,
    test=1, model_path="model", data="test_data",
)

class CTR:
    def input_data(self, params):
        return clicks.inputs()

    def net(self, inputs, params):
        loss, auc, _ = clicks.model(inputs, params.n_ids, params.width)
        return loss, auc, auc

def get_dataset(inputs, params):
    return clicks.stream(inputs, fleet.split_files(clicks.files("raw_data")), params)

ctr_model, model_path = CTR(), "model/epoch_1"
"""
JUDGE = """
import infer

for rows in paddle.batch(lambda: infer.samples(params), 1000)():
    cost, area = exe.run(test_program, feed=feeder.feed(rows), fetch_list=[loss, auc_var])
print("auc", float(area[0]))
"""


@pytest.fixture
def folder(cluster, tmp_path):
    """A folder with what the programs import."""
    for name in ("clicks.py", "criteo_reader.py", "infer.py"):
        shutil.copy(os.path.join(EXAMPLES, name), str(tmp_path / name))
    return tmp_path


def program_001():
    """Its first lines are indented less than the rest, and it does not make an `optimizer`."""
    text = re.sub(r"^  (?=\S)", "    ", indented("001")[0], flags=re.M)
    return after(text, "args = parse_args()", "optimizer = None")


@pytest.mark.parametrize("at", [1, 2], ids=["alone", "two and two"])
def test_001(cluster, folder, at):
    """By the commands of the document: ten threads, a table of ten million rows; but two epochs."""
    write(folder / "train.py", mend(program_001(), "epoch=20", "epoch=2"))
    write(folder / "args.py", ARGS)
    write(folder / "network_conf.py", NETWORK_CONF)
    make(folder / "raw_data", 12000, 1)
    cluster.shell("train", indented("001")[at])
    out = cluster.expect("train", limit=180)
    for log in [out] if at == 1 else logs(folder, "worker"):
        found = aucs(log)
        assert len(found) == 2 and 0 < found[0] < found[1] < 1, found
    if at == 2:
        assert "all workers exit, going to finish parameter server\n" in out


def test_004(cluster, folder):
    """Two servers, two trainers, two epochs; the model of trainer 0 is judged by other clicks."""
    make(folder / "raw_data", 10000, 2)
    make(folder / "test_data", 2000, 1, seed=2)
    _, role, network, train, test, zero = fenced("004", "python")
    train = mend(train, "fleet.startup_program))", "fleet.startup_program)")
    body = indent(program(role, network, train), "    ")
    write(folder / "train.py", program(CTR, "def main():", body, "main()"))
    write(folder / "test.py", program(CTR, test, zero, JUDGE))
    launch = "python -m paddlewheel launch_ps --worker_num 2 --server_num 2 train.py"
    cluster.shell("launch", launch)
    cluster.expect("launch", limit=180)
    for log in logs(folder, "worker"):
        assert "Distribute Train Success!" in log
        assert "epoch 1 finished, use time=" in log
        assert aucs(log, "Epoch 0 auc "), log
    for log in logs(folder, "server"):
        assert "trainer 0 completed" in log and "trainer 1 completed" in log
    cluster.shell("test", "python test.py")
    assert float(re.search(r"^auc (\S+)", cluster.expect("test"), re.M).group(1)) > 0.6
