"""The distributed programs of the documents, as real processes with the documents' variables."""

import os
import re
import signal

import pytest
from clusters import free_port, wait_until
from conftest import HERE

SEEDS = os.path.join(HERE, "seeds")
DOCUMENTS = os.path.join(HERE, *[".."] * 3, "shared", "seeds")
NOT_READY = "server not ready, wait 3 sec to retry...\nnot ready endpoints:['%s']\n"


def text(name):
    with open(os.path.join(SEEDS, name), encoding="utf-8") as file:
        return file.read()


def path(name):
    return os.path.join(SEEDS, name)


def blocks(number, language):
    """The programs of a document; none where it is not at hand."""
    names = os.listdir(DOCUMENTS) if os.path.isdir(DOCUMENTS) else []
    for name in (name for name in names if name.startswith(number)):
        with open(os.path.join(DOCUMENTS, name), encoding="utf-8") as file:
            fences = re.compile(r"^```([^`\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
            found = fences.findall(file.read())
            return [body for named, body in found if named.strip() == language]
    return []


def code(block):
    """The lines of a program that are not left to the reader, whatever their indentation."""
    lines = [line.strip() for line in block.splitlines()]
    lines = [line for line in lines if line and not line.startswith("...")]
    # What is fed and fetched is left to the reader as well.
    return [line[:-1] if line == "exe.run(t.get_trainer_program())" else line for line in lines]


@pytest.mark.parametrize(
    "script, number, language, at",
    [
        ("fit_a_line_transpiled.py", "000", "python", 2),
        ("fit_a_line_roles.py", "000", "python", 3),
        ("fleet_ten_lines.py", "002", "python", 0),
        ("pserver_mode.py", "003", "", 1),
    ],
)
def test_the_scripts_are_the_documents(script, number, language, at):
    """Where a document is at hand, its lines are the script's, in their order."""
    rest = text(script)
    assert "import paddle" in rest
    for line in code((blocks(number, language) or [""] * 9)[at]):
        assert line in rest, line
        rest = rest.partition(line)[2]


def test_the_commands_are_the_documents():
    found = [block for block in blocks("000", " bash") if block.startswith("PADDLE_")]
    assert "".join(found or [text("fit_a_line_commands.sh")]) == text("fit_a_line_commands.sh")
    found = blocks("002", "bash") or [text("two_machines.sh")]
    assert "\n".join(found) == text("two_machines.sh")


def test_seed_000_by_its_commands(cluster, tmp_path):
    """One server, two trainers; the oldest form of `transpile`, which does not say who speaks."""
    (tmp_path / "test_fit_a_line.py").write_text(text("fit_a_line_transpiled.py"))
    port = free_port()
    commands = re.sub(r"192\.168\.1\.\d", "127.0.0.1", text("fit_a_line_commands.sh"))
    server, trainer = commands.replace("6174", str(port)).splitlines()
    other = trainer.replace("TRAINER_ID=1", "TRAINER_ID=0")
    cluster.shell("server", "exec env " + server)
    cluster.wait_for("server", "Server listening on 127.0.0.1:%d" % port)
    cluster.shell("trainer 1", trainer)
    cluster.shell("trainer 0", other)
    for name in ("trainer 0", "trainer 1"):
        assert "init rpc client with trainer_id %s\n" % name[-1] in cluster.expect(name)
    # Nobody said that the job is done: as in Fluid the server serves until it is told to end.
    assert cluster.is_running("server")
    cluster.signal("server", signal.SIGTERM)
    cluster.expect("server", 0, limit=5)


def old_variables(port, ips, trainers, **own):
    return {
        "PADDLE_PSERVER_PORT": str(port),
        "PADDLE_PSERVER_IPS": ",".join(ips),
        "PADDLE_TRAINERS": str(trainers),
        **own,
    }


def start_servers(cluster, script, port, ips, trainers):
    for at, ip in enumerate(ips):
        own = {"PADDLE_CURRENT_IP": ip, "PADDLE_TRAINING_ROLE": "PSERVER"}
        # As in the document a server has a number of a trainer, any.
        own["PADDLE_TRAINER_ID"] = str(trainers - 1)
        name = "server %d" % at
        cluster.start(name, path(script), **old_variables(port, ips, trainers, **own))


def start_trainers(cluster, script, port, ips, trainers, *arguments):
    for at in range(trainers):
        own = {"PADDLE_TRAINER_ID": str(at), "PADDLE_TRAINING_ROLE": "TRAINER"}
        own["PADDLE_CURRENT_IPP"] = "127.0.0.9"
        variables = old_variables(port, ips, trainers, **own)
        cluster.start("trainer %d" % at, path(script), *arguments, **variables)


@pytest.mark.parametrize("servers, trainers", [(1, 2), (2, 4)])
def test_seed_000_trainers_first(cluster, servers, trainers):
    ips = ["127.0.0.%d" % (at + 2) for at in range(servers)]
    port = free_port(*ips)
    start_trainers(cluster, "fit_a_line_roles.py", port, ips, trainers)
    missing = NOT_READY % "', '".join("%s:%d" % (ip, port) for ip in ips)
    for at in range(trainers):
        cluster.wait_for("trainer %d" % at, missing)
    start_servers(cluster, "fit_a_line_roles.py", port, ips, trainers)
    for at in range(trainers):
        cluster.expect("trainer %d" % at)
    for at, ip in enumerate(ips):
        log = cluster.expect("server %d" % at, limit=5)
        assert "Server listening on %s:%d selected port: %d\n" % (ip, port, port) in log
        assert log.endswith("served\n")


def test_seed_000_a_wrong_port_is_an_error_in_time(cluster):
    """Its startup program speaks to servers before anybody has waited for them."""
    port = free_port()
    own = {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINING_ROLE": "TRAINER", "FLAGS_rpc_deadline": "1500"}
    variables = old_variables(port, ["127.0.0.1"], 1, **own)
    cluster.start("trainer", path("fit_a_line_roles.py"), **variables)
    log = cluster.expect("trainer", 1, limit=20)
    assert NOT_READY % ("127.0.0.1:%d" % port) in log
    assert "RuntimeError: servers not ready after 1 s: 127.0.0.1:%d" % port in log


def test_a_trainer_that_feeds_nothing_is_told(cluster):
    port = free_port()
    start_servers(cluster, "fit_a_line_roles.py", port, ["127.0.0.1"], 1)
    start_trainers(cluster, "fit_a_line_roles.py", port, ["127.0.0.1"], 1, "unfed")
    log = cluster.expect("trainer 0", 1)
    assert "data variable `x` (input X) was not fed" in log
    # The server misses it: it failed, it did not leave.
    assert "trainer 0 died: its connection broke" in cluster.expect("server 0", 1, limit=6)


def two_machines(cluster, tmp_path, hosts):
    """Seed 002's shells, verbatim except for the addresses."""
    (tmp_path / "train.py").write_text(text("fleet_ten_lines.py"))
    port = free_port(*hosts)
    shells = text("two_machines.sh").replace("36000", str(port))
    shells = shells.replace("10.89.176.11", hosts[0]).replace("10.89.176.12", hosts[1])
    endpoints = ["%s:%d" % (host, port) for host in hosts]
    return shells.split("\n\n"), endpoints


def test_seed_002_on_two_machines(cluster, tmp_path):
    shells, endpoints = two_machines(cluster, tmp_path, ["127.0.0.2", "127.0.0.3"])
    for name, shell in zip(["server A", "server B", "worker A", "worker B"], shells):
        cluster.shell(name, shell)
    for at, name in enumerate(["worker A", "worker B"]):
        log = cluster.expect(name)
        assert re.search(r"^I.* communicator] Communicator start$", log, re.M)
        line = r"^I.* trainer] init rpc client with trainer_id %d$" % at
        assert re.search(line, log, re.M)
        assert float(re.search("last loss (.*)", log).group(1)) < 0.1
    for name, endpoint in zip(["server A", "server B"], endpoints):
        log = cluster.expect(name, limit=5)
        port = endpoint.rpartition(":")[2]
        text = "server] Server listening on %s selected port: %s\n" % (endpoint, port)
        assert text in log


def test_seed_002_workers_first_and_servers_one_by_one(cluster, tmp_path):
    shells, endpoints = two_machines(cluster, tmp_path, ["127.0.0.2", "127.0.0.3"])
    cluster.shell("worker A", shells[2])
    cluster.wait_for("worker A", NOT_READY % "', '".join(endpoints))
    cluster.shell("server A", shells[0])
    cluster.wait_for("worker A", NOT_READY % endpoints[1])
    cluster.shell("server B", shells[1])
    cluster.wait_for("worker A", "init rpc client with trainer_id 0")
    cluster.shell("worker B", shells[3])
    for name in list(cluster.processes):
        cluster.expect(name)


def test_seed_002_a_wrong_port_is_an_error_in_time(cluster, tmp_path):
    shells, endpoints = two_machines(cluster, tmp_path, ["127.0.0.2", "127.0.0.3"])
    cluster.shell("server A", shells[0])
    cluster.wait_for("server A", "Server listening on " + endpoints[0])
    cluster.shell("worker A", shells[2], FLAGS_wait_server_ready_timeout="2")
    log = cluster.expect("worker A", 1, limit=20)
    assert "RuntimeError: servers not ready after 2 s: %s" % endpoints[1] in log
    assert NOT_READY % endpoints[1] in log


def test_a_server_of_another_machine_is_told(cluster, tmp_path):
    """POD_IP of a machine that is not in the list, and one that is not this machine's."""
    shells, endpoints = two_machines(cluster, tmp_path, ["127.0.0.2", "127.0.0.3"])
    cluster.shell("server A", shells[0].replace("POD_IP=127.0.0.2", "POD_IP=127.0.0.4"))
    log = cluster.expect("server A", 1, limit=20)
    assert "127.0.0.4:" in log and ",".join(endpoints) in log
    elsewhere = shells[0].replace("127.0.0.2", "192.0.2.1")
    cluster.shell("server B", elsewhere, FLAGS_rpc_retry_bind_port="1")
    line = cluster.expect("server B", 1, limit=20).splitlines()[-1]
    assert re.search(r"(RuntimeError|EnforceNotMet): .*192\.0\.2\.1:", line), line


def test_seed_003_q4(cluster, tmp_path):
    """Its addresses, numbers of trainers and all are in the script."""
    hosts = ["127.0.0.2", "127.0.0.3"]
    port = free_port(*hosts)
    script = text("pserver_mode.py").replace("6174", str(port))
    for at, host in enumerate(hosts):
        script = script.replace("192.168.0.%d" % (at + 1), host)
    current = 'current_endpoint = "127.0.0.2:'
    for at, host in enumerate(hosts):
        (tmp_path / ("server%d.py" % at)).write_text(script.replace(current, current[:-10] + host + ":"))
        cluster.start("server %d" % at, "server%d.py" % at, PADDLE_TRAINING_ROLE="PSERVER")
    for at in range(4):
        (tmp_path / ("trainer%d.py" % at)).write_text(
            script.replace("trainer_id = 0", "trainer_id = %d" % at)
        )
        cluster.start("trainer %d" % at, "trainer%d.py" % at, PADDLE_TRAINING_ROLE="TRAINER")
    for at in range(4):
        log = cluster.expect("trainer %d" % at)
        assert float(re.search("last loss (.*)", log).group(1)) < 0.5
    for at, host in enumerate(hosts):
        log = cluster.expect("server %d" % at, limit=5)
        assert "Server listening on %s:%d selected port" % (host, port) in log


def test_seed_003_q7(cluster):
    """The server that is said to be stuck reaches all its lines, and so do its trainers."""
    port = free_port()
    start_servers(cluster, "stuck_pserver.py", port, ["127.0.0.1"], 2)
    cluster.wait_for("server 0", "start pserver...\npserver start up ok: ")
    cluster.wait_for("server 0", "Server listening on 127.0.0.1:%d" % port)
    start_trainers(cluster, "stuck_pserver.py", port, ["127.0.0.1"], 2)
    for at in (0, 1):
        log = cluster.expect("trainer %d" % at)
        assert log.startswith("127.0.0.1:%d\n2\n%d\n" % (port, at)) and "trainer\n" in log
    log = cluster.expect("server 0", limit=5)
    assert log.endswith("pserver ended\n")
    assert "fill_constant" in log


def test_seed_003_q7_without_its_server(cluster):
    """What the document describes: nobody listens, the trainer says so, and then fails."""
    port = free_port()
    os.environ["FLAGS_wait_server_ready_timeout"] = "4"
    try:
        start_trainers(cluster, "stuck_pserver.py", port, ["127.0.0.1"], 1)
    finally:
        del os.environ["FLAGS_wait_server_ready_timeout"]
    log = cluster.expect("trainer 0", 1, limit=20)
    assert log.count(NOT_READY % ("127.0.0.1:%d" % port)) == 2
    assert "RuntimeError: servers not ready after 4 s" in log


def test_a_listening_server_is_seen_from_outside(cluster):
    """As seed 002 looks for it: a process, and a port that listens."""
    port = free_port()
    start_servers(cluster, "stuck_pserver.py", port, ["127.0.0.1"], 1)
    cluster.wait_for("server 0", "Server listening on")

    def listens():
        with open("/proc/net/tcp") as file:
            return ":%04X 00000000:0000 0A" % port in file.read()

    wait_until("a port that listens", listens, limit=5)
