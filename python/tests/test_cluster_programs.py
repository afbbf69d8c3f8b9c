"""Programs with servers and trainers as real processes, which learn their roles from variables."""

import os
import re
import signal

import pytest
from clusters import free_port, server_variables, trainer_variables, wait_until
from conftest import PROGRAMS

NOT_READY = "server not ready, wait 3 sec to retry...\nnot ready endpoints:['%s']\n"


def path(name):
    return os.path.join(PROGRAMS, name)


# Programs that call `transpile`, with the variables of Fluid before Fleet.


def old_variables(port, ips, trainers, **own):
    return {
        "PADDLE_PSERVER_PORT": str(port),
        "PADDLE_PSERVER_IPS": ",".join(ips),
        "PADDLE_TRAINERS": str(trainers),
        **own,
    }


def start_servers(cluster, script, port, ips, trainers, *arguments):
    for at, ip in enumerate(ips):
        own = {"PADDLE_CURRENT_IP": ip, "PADDLE_TRAINING_ROLE": "PSERVER"}
        # Scripts give servers the number of a trainer, any of them.
        own["PADDLE_TRAINER_ID"] = str(trainers - 1)
        variables = old_variables(port, ips, trainers, **own)
        cluster.start("server %d" % at, path(script), *arguments, **variables)


def start_trainers(cluster, script, port, ips, trainers, *arguments, **more):
    for at in range(trainers):
        own = {"PADDLE_TRAINER_ID": str(at), "PADDLE_TRAINING_ROLE": "TRAINER", **more}
        variables = old_variables(port, ips, trainers, **own)
        cluster.start("trainer %d" % at, path(script), *arguments, **variables)


def test_trainers_that_do_not_say_who_they_are(cluster):
    """`transpile` without a number: the variable tells trainers apart."""
    port = free_port()
    where = ("housing_servers.py", port, ["127.0.0.1"], 2, "nameless")
    start_servers(cluster, *where)
    cluster.wait_for("server 0", "Server listening on 127.0.0.1:%d" % port)
    start_trainers(cluster, *where)
    for at in (0, 1):
        log = cluster.expect("trainer %d" % at)
        assert "init rpc client with trainer_id %d\n" % at in log
    # No trainer has reported that the job is done: as in Fluid the server serves until it is told to end.
    assert cluster.is_running("server 0")
    cluster.signal("server 0", signal.SIGTERM)
    cluster.expect("server 0", 0, limit=5)


@pytest.mark.parametrize("servers, trainers", [(1, 2), (2, 4)])
def test_trainers_before_their_servers(cluster, servers, trainers):
    ips = ["127.0.0.%d" % (at + 2) for at in range(servers)]
    port = free_port(*ips)
    start_trainers(cluster, "housing_servers.py", port, ips, trainers)
    missing = NOT_READY % "', '".join("%s:%d" % (ip, port) for ip in ips)
    for at in range(trainers):
        cluster.wait_for("trainer %d" % at, missing)
    start_servers(cluster, "housing_servers.py", port, ips, trainers)
    for at in range(trainers):
        cluster.expect("trainer %d" % at)
    for at, ip in enumerate(ips):
        log = cluster.expect("server %d" % at, limit=5)
        assert "Server listening on %s:%d selected port: %d\n" % (ip, port, port) in log
        assert log.endswith("served\n")


def test_a_startup_program_does_not_wait_for_ever(cluster):
    """It speaks to servers before anybody has waited for them."""
    port = free_port()
    where = ("housing_servers.py", port, ["127.0.0.1"], 1)
    start_trainers(cluster, *where, FLAGS_rpc_deadline="1500")
    log = cluster.expect("trainer 0", 1, limit=20)
    assert NOT_READY % ("127.0.0.1:%d" % port) in log
    assert "RuntimeError: servers not ready after 1 s: 127.0.0.1:%d" % port in log


def test_a_trainer_that_feeds_nothing_is_told(cluster):
    port = free_port()
    start_servers(cluster, "housing_servers.py", port, ["127.0.0.1"], 1)
    start_trainers(cluster, "housing_servers.py", port, ["127.0.0.1"], 1, "unfed")
    log = cluster.expect("trainer 0", 1)
    assert "data variable `house` (input X) was not fed" in log
    # The server misses it: it failed, it did not leave.
    assert "trainer 0 died: its connection broke" in cluster.expect("server 0", 1, limit=6)


def test_two_servers_and_four_trainers(cluster):
    ips = ["127.0.0.2", "127.0.0.3"]
    port = free_port(*ips)
    start_servers(cluster, "transpiled.py", port, ips, 4)
    start_trainers(cluster, "transpiled.py", port, ips, 4)
    for at in range(4):
        log = cluster.expect("trainer %d" % at)
        assert float(re.search("last loss (.*)", log).group(1)) < 0.5
    for at, ip in enumerate(ips):
        log = cluster.expect("server %d" % at, limit=5)
        assert "Server listening on %s:%d selected port" % (ip, port) in log


def test_a_server_reaches_all_its_lines(cluster):
    port = free_port()
    start_servers(cluster, "transpiled.py", port, ["127.0.0.1"], 2)
    cluster.wait_for("server 0", "startup program begins\nstartup program done: ")
    cluster.wait_for("server 0", "Server listening on 127.0.0.1:%d" % port)
    start_trainers(cluster, "transpiled.py", port, ["127.0.0.1"], 2)
    for at in (0, 1):
        log = cluster.expect("trainer %d" % at)
        assert log.startswith("trainer %d of 2, servers 127.0.0.1:%d\n" % (at, port))
    log = cluster.expect("server 0", limit=5)
    assert log.endswith("server ended\n")
    assert "fill_constant" in log, "the startup program was printed"


def test_a_trainer_without_its_server(cluster):
    """No process listens: the trainer says so every three seconds, and then fails."""
    port = free_port()
    where = ("transpiled.py", port, ["127.0.0.1"], 1)
    start_trainers(cluster, *where, FLAGS_wait_server_ready_timeout="4")
    log = cluster.expect("trainer 0", 1, limit=20)
    assert log.count(NOT_READY % ("127.0.0.1:%d" % port)) == 2
    assert "RuntimeError: servers not ready after 4 s" in log


def test_a_listening_server_is_seen_from_outside(cluster):
    """Users look for a process, and for a port that listens."""
    port = free_port()
    start_servers(cluster, "transpiled.py", port, ["127.0.0.1"], 1)
    cluster.wait_for("server 0", "Server listening on")

    def listens():
        with open("/proc/net/tcp") as file:
            return ":%04X 00000000:0000 0A" % port in file.read()

    wait_until("a port that listens", listens, limit=5)


# Fleet on two machines, each with a server and a trainer.

HOSTS = ["127.0.0.2", "127.0.0.3"]


class TwoMachines:
    """Starts processes of a job by hand."""

    def __init__(self, cluster):
        self.cluster = cluster
        port = free_port(*HOSTS)
        self.endpoints = ["%s:%d" % (host, port) for host in HOSTS]

    def server(self, at, **changes):
        variables = {**server_variables(self.endpoints, at, 2), **changes}
        self.cluster.start("server %d" % at, path("fleet_adam.py"), **variables)

    def trainer(self, at, **changes):
        variables = {**trainer_variables(self.endpoints, at, 2), **changes}
        self.cluster.start("trainer %d" % at, path("fleet_adam.py"), **variables)


@pytest.fixture
def machines(cluster):
    return TwoMachines(cluster)


def test_two_machines(cluster, machines):
    for at in (0, 1):
        machines.server(at)
        machines.trainer(at)
    for at in (0, 1):
        log = cluster.expect("trainer %d" % at)
        assert re.search(r"^I.* communicator] Communicator start$", log, re.M)
        line = r"^I.* trainer] init rpc client with trainer_id %d$" % at
        assert re.search(line, log, re.M)
        assert float(re.search("last loss (.*)", log).group(1)) < 0.1
    for at, endpoint in enumerate(machines.endpoints):
        log = cluster.expect("server %d" % at, limit=5)
        port = endpoint.rpartition(":")[2]
        assert "server] Server listening on %s selected port: %s\n" % (endpoint, port) in log


def test_servers_one_by_one(cluster, machines):
    machines.trainer(0)
    cluster.wait_for("trainer 0", NOT_READY % "', '".join(machines.endpoints))
    machines.server(0)
    cluster.wait_for("trainer 0", NOT_READY % machines.endpoints[1])
    machines.server(1)
    cluster.wait_for("trainer 0", "init rpc client with trainer_id 0")
    machines.trainer(1)
    for name in list(cluster.processes):
        cluster.expect(name)


def test_a_missing_server_is_an_error_in_time(cluster, machines):
    machines.server(0)
    cluster.wait_for("server 0", "Server listening on " + machines.endpoints[0])
    machines.trainer(0, FLAGS_wait_server_ready_timeout="2")
    log = cluster.expect("trainer 0", 1, limit=20)
    assert "RuntimeError: servers not ready after 2 s: %s" % machines.endpoints[1] in log
    assert NOT_READY % machines.endpoints[1] in log


def test_a_server_of_another_machine_is_told(cluster, machines):
    """POD_IP of a machine that is not in the list, and one that is not this machine's."""
    machines.server(0, POD_IP="127.0.0.4")
    log = cluster.expect("server 0", 1, limit=20)
    assert "127.0.0.4:" in log and ",".join(machines.endpoints) in log
    machines.endpoints[1] = machines.endpoints[1].replace(HOSTS[1], "192.0.2.1")
    machines.server(1, FLAGS_rpc_retry_bind_port="1")
    line = cluster.expect("server 1", 1, limit=20).splitlines()[-1]
    assert re.search(r"(RuntimeError|EnforceNotMet): .*192\.0\.2\.1:", line), line
