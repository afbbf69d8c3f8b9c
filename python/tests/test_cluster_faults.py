"""The fate of a job after a fault of one of its processes."""

import contextlib
import os
import re
import signal
import socket
import time

import pytest
from clusters import (
    LIMIT,
    Relay,
    free_endpoints,
    is_alive,
    server_variables,
    trainer_variables,
    wait_until,
)
from conftest import HERE, PROGRAMS, saved_in

STEADY = os.path.join(HERE, "jobs", "steady.py")
TRANSPILED = os.path.join(PROGRAMS, "transpiled.py")


class Job:
    """Servers and trainers that train until they are told that it is enough."""

    script = STEADY

    def __init__(self, cluster, servers, trainers):
        self.cluster = cluster
        self.endpoints = free_endpoints(servers)
        self.trainers = trainers

    def server(self, at, *arguments, mode="sync", **variables):
        variables.update(server_variables(self.endpoints, at, self.trainers))
        self.cluster.start("server %d" % at, self.script, mode, *arguments, **variables)

    def trainer(self, at, *arguments, name=None, mode="sync", **variables):
        name = name or "trainer %d" % at
        variables.update(trainer_variables(self.endpoints, at, self.trainers))
        self.cluster.start(name, self.script, mode, *arguments, **variables)

    def start(self, *arguments, mode="sync", **variables):
        for at in range(len(self.endpoints)):
            self.server(at, *arguments, mode=mode, **variables)
        for at in range(self.trainers):
            self.trainer(at, *arguments, mode=mode, **variables)
        for at in range(self.trainers):
            self.cluster.wait_for("trainer %d" % at, "step 5\n")

    def goes_on(self, *names):
        """Waits for further steps of trainers."""
        before = {name: self.cluster.log(name).count("step ") for name in names}
        more = lambda: all(self.cluster.log(n).count("step ") > k for n, k in before.items())  # noqa: E731
        wait_until("further steps", more, LIMIT, self.cluster.logs)

    def end(self, *names):
        """The job is enough; all named processes end well."""
        (self.cluster.folder / "enough").touch()
        for name in names or list(self.cluster.processes):
            log = self.cluster.expect(name)
            assert log.count(" ended") == 1, log


@pytest.fixture
def job(cluster):
    return lambda servers, trainers: Job(cluster, servers, trainers)


def error_of(log):
    """The last line of a traceback."""
    assert "Traceback (most recent call last):" in log, log
    return log.strip().splitlines()[-1]


def is_runtime_error(line):
    kind, _, text = line.partition(": ")
    return kind.rpartition(".")[2] in ("RuntimeError", "EnforceNotMet") and text


def test_a_killed_trainer_is_named_to_the_others(cluster, job):
    job(2, 3).start()
    cluster.kill("trainer 1")
    killed = time.monotonic()
    for name in ("trainer 0", "trainer 2"):
        line = error_of(cluster.expect(name, 1, limit=5))
        assert time.monotonic() - killed < 5
        assert is_runtime_error(line) and "trainer 1 died" in line, line
    for name in ("server 0", "server 1"):
        line = error_of(cluster.expect(name, 1, limit=5))
        assert is_runtime_error(line) and "trainer 1 died" in line, line


def test_a_killed_server_is_named_to_trainers(cluster, job):
    mine = job(2, 2)
    mine.start()
    cluster.kill("server 1")
    killed = time.monotonic()
    for name in ("trainer 0", "trainer 1"):
        line = error_of(cluster.expect(name, 1, limit=5))
        assert time.monotonic() - killed < 5
        assert is_runtime_error(line) and mine.endpoints[1] in line, line
    # The other server learns from the trainers, which failed.
    assert re.search("trainer . died", error_of(cluster.expect("server 0", 1, limit=6)))


@pytest.mark.parametrize("mode", ["async", "half_async", "geo"])
def test_in_other_modes_a_killed_trainer_stops_nobody(cluster, job, mode):
    mine = job(1, 2)
    mine.start(mode=mode)
    cluster.kill("trainer 1")
    cluster.wait_for("server 0", "trainer 1 died")
    mine.goes_on("trainer 0")
    mine.end("trainer 0")
    # The job came to its end, but not all of it.
    line = error_of(cluster.expect("server 0", 1, limit=5))
    assert "trainer 1 died" in line


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_servers_do_not_outlive_all_their_trainers(cluster, job, mode):
    job(2, 1).start(mode=mode)
    cluster.kill("trainer 0")
    for name in ("server 0", "server 1"):
        assert "trainer 0 died" in error_of(cluster.expect(name, 1, limit=5))


@pytest.mark.parametrize("by", ["flag", "strategy"])
def test_a_tolerant_job_goes_on_without_a_killed_trainer(cluster, job, by):
    mine = job(2, 3)
    if by == "flag":
        mine.start(FLAGS_tolerate_lost_trainers="1")
    else:
        mine.start("tolerant")
    cluster.kill("trainer 1")
    for name in ("server 0", "server 1"):
        cluster.wait_for(name, "trainer 1 died")
    mine.goes_on("trainer 0", "trainer 2")
    # It may come back.
    mine.trainer(1, *(["tolerant"] if by == "strategy" else []), name="trainer 1 again")
    cluster.wait_for("trainer 1 again", "step 5\n")
    mine.end("trainer 0", "trainer 2", "trainer 1 again", "server 0", "server 1")


def test_a_stopped_trainer_is_not_dead_within_its_lease(cluster, job):
    mine = job(1, 2)
    mine.start()
    cluster.signal("trainer 1", signal.SIGSTOP)
    # Longer than a broken connection has to come back.
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert cluster.is_running("trainer 0") and cluster.is_running("server 0"), cluster.logs()
        time.sleep(0.05)
    cluster.signal("trainer 1", signal.SIGCONT)
    mine.goes_on("trainer 0", "trainer 1")
    mine.end()


def test_a_stopped_trainer_is_dead_after_its_lease(cluster, job):
    job(1, 2).start(FLAGS_worker_update_interval_secs="3")
    cluster.signal("trainer 1", signal.SIGSTOP)
    line = error_of(cluster.expect("trainer 0", 1, limit=10))
    assert is_runtime_error(line) and "trainer 1 died: it was last heard" in line, line
    assert "trainer 1 died" in error_of(cluster.expect("server 0", 1, limit=10))


def test_a_stopped_server_is_waited_for(cluster, job):
    mine = job(2, 2)
    mine.start()
    cluster.signal("server 0", signal.SIGSTOP)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert cluster.is_running("trainer 0") and cluster.is_running("trainer 1"), cluster.logs()
        time.sleep(0.05)
    cluster.signal("server 0", signal.SIGCONT)
    mine.goes_on("trainer 0", "trainer 1")
    mine.end()


def test_two_trainers_with_one_id(cluster, job):
    mine = job(1, 2)
    mine.server(0)
    mine.trainer(0)
    cluster.wait_for("trainer 0", "init rpc client")
    cluster.wait_for("server 0", "trainer 0 joined")
    mine.trainer(0, name="another")
    line = error_of(cluster.expect("another", 1, limit=20))
    assert is_runtime_error(line) and "two trainers have id 0" in line, line
    mine.trainer(1)
    mine.goes_on("trainer 0", "trainer 1")
    mine.end("trainer 0", "trainer 1", "server 0")
    assert cluster.log("server 0").count("two trainers have id 0") == 1


def test_a_trainer_of_another_job(cluster, job):
    mine = job(1, 2)
    mine.start()
    mine.trainer(1, "other", name="stranger")
    line = error_of(cluster.expect("stranger", 1, limit=20))
    assert is_runtime_error(line) and "this trainer belongs to another job" in line, line
    mine.goes_on("trainer 0", "trainer 1")
    mine.end("trainer 0", "trainer 1", "server 0")


def test_scripts_may_differ_in_what_others_do_not_need(cluster, job):
    mine = job(2, 2)
    mine.server(0)
    mine.server(1)
    mine.trainer(0, "own")
    mine.trainer(1)
    mine.goes_on("trainer 0", "trainer 1")
    mine.end("trainer 0", "trainer 1", "server 0", "server 1")
    joined = [line for line in cluster.log("server 0").splitlines() if "trainer 0 joined" in line]
    assert len(joined) == 1 and joined[0].startswith("I"), joined


def test_a_trainer_that_is_started_again_finds_its_place(cluster, job):
    mine = job(2, 2)
    mine.start("tolerant")
    for again in range(3):
        cluster.kill("trainer 1")
        wait_until(
            "trainer 1 is missed",
            lambda: cluster.log("server 0").count("trainer 1 died") > again,
            LIMIT,
            cluster.logs,
        )
        mine.trainer(1, "tolerant")
        wait_until(
            "trainer 1 is back",
            lambda: all(
                cluster.log(server).count("trainer 1 joined") > again + 1
                for server in ("server 0", "server 1")
            ),
            LIMIT,
            cluster.logs,
        )
        mine.goes_on("trainer 0", "trainer 1")
    assert "the job needs all trainers" not in cluster.log("server 0")
    assert "the others go on without it" in cluster.log("server 0")
    mine.end("trainer 0", "trainer 1", "server 0", "server 1")


def test_a_trainer_dies_between_its_writes_to_two_servers(cluster, job):
    """Server 0 has its part of the round, server 1 has not; started again it continues with both."""
    mine = job(2, 2)
    for at in (0, 1):
        mine.server(at, "tolerant")
    relay = Relay(mine.endpoints[1])
    try:
        mine.trainer(0, "tolerant")
        direct = list(mine.endpoints)
        mine.endpoints[1] = relay.endpoint
        mine.trainer(1, "tolerant")
        mine.endpoints[:] = direct
        for name in ("trainer 0", "trainer 1"):
            cluster.wait_for(name, "step 5\n")
        relay.hold()
        wait_until("a part of a round is held back", lambda: relay.n_held > 0, LIMIT, cluster.logs)
        cluster.kill("trainer 1")
    finally:
        relay.close()
    mine.trainer(1, "tolerant")
    mine.goes_on("trainer 0", "trainer 1")
    mine.end("trainer 0", "trainer 1", "server 0", "server 1")


TABLES_ALONE = os.path.join(HERE, "jobs", "tables_alone.py")


@pytest.mark.parametrize("mode", ["sync", "ssp"])
def test_a_server_that_steps_take_nothing_from_is_waited_for(cluster, job, mode):
    mine = job(2, 2)
    mine.script = TABLES_ALONE
    mine.start(mode=mode)
    cluster.signal("server 1", signal.SIGSTOP)
    # Trainers must not close more connections meanwhile than a server keeps for them.
    until, steps = time.monotonic() + 1, cluster.log("trainer 0").count("step ")
    more = lambda: cluster.log("trainer 0").count("step ") > steps + 5  # noqa: E731
    wait_until("steps, or none", lambda: more() or time.monotonic() > until)
    cluster.signal("server 1", signal.SIGCONT)
    mine.goes_on("trainer 0", "trainer 1")
    mine.end()


SAVES = os.path.join(HERE, "jobs", "saves.py")


def test_worker_0_saves_what_servers_hold(cluster):
    endpoints = free_endpoints(2)
    for at in range(2):
        cluster.start("server %d" % at, SAVES, **server_variables(endpoints, at, 1))
    cluster.start("trainer", SAVES, **trainer_variables(endpoints, 0, 1))
    for name in ("trainer", "server 0", "server 1"):
        assert " ended" in cluster.expect(name)
    shapes = [cluster.log("server %d" % at).count("begins with (0, 4)") for at in range(2)]
    assert 1 in shapes, cluster.logs()
    folder = cluster.folder
    for name in ("model", "fleets"):
        found = set(saved_in(folder / name))
        assert found == {"__model__", "emb", "w", "fc_0.b_0"}, (name, found)
    assert set(saved_in(folder / "params")) == {"emb", "w", "fc_0.b_0"}
    assert "@LR_DECAY_COUNTER@" in saved_in(folder / "all")
    assert (folder / "model" / "emb").stat().st_size == (folder / "fleets" / "emb").stat().st_size


GARBAGE = {
    "bytes": bytes(range(256)) * 8,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "huge": b"\xff" * 4 + b"\x00" * 60,
    "half": b"\x10\x00",
    "nothing": b"",
}


def test_garbage_on_the_port_while_training_goes_on(cluster, job):
    mine = job(1, 2)
    mine.start()
    port = int(mine.endpoints[0].rpartition(":")[2])
    for _ in range(20):
        for garbage in GARBAGE.values():
            with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
                peer.sendall(garbage)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        peer.sendall(GARBAGE["http"])
        while peer.recv(4096):  # No answer for a stranger: the end.
            pass
    mine.goes_on("trainer 0", "trainer 1")
    mine.end()
    lines = re.findall("] (a connection of .* was refused.*)", cluster.log("server 0"))
    assert lines and len(lines) == len(set(lines)), "each is said once: %s" % lines


def interrupt(cluster, name, code):
    cluster.signal(name, signal.SIGINT)
    asked = time.monotonic()
    log = cluster.expect(name, code, limit=5)
    assert time.monotonic() - asked < 1.0
    return log


def test_ctrl_c_of_a_trainer_that_waits_for_servers(cluster, job):
    mine = job(1, 1)
    mine.trainer(0)
    cluster.wait_for("trainer 0", "server not ready")
    assert error_of(interrupt(cluster, "trainer 0", -signal.SIGINT)) == "KeyboardInterrupt"


def test_ctrl_c_of_a_trainer_whose_server_says_nothing(cluster, job):
    """Neither yes nor no: a connection takes as long as one may take."""
    mine = job(1, 1)
    with socket.socket() as silent, contextlib.ExitStack() as others:
        silent.bind(("127.0.0.1", int(mine.endpoints[0].rpartition(":")[2])))
        silent.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(silent.getsockname())
        mine.trainer(0)
        cluster.wait_for("trainer 0", "pid")
        cluster.wait_for("trainer 0", "server not ready")
        assert error_of(interrupt(cluster, "trainer 0", -signal.SIGINT)) == "KeyboardInterrupt"


def test_ctrl_c_of_a_trainer_that_waits_for_others(cluster, job):
    mine = job(1, 2)
    mine.server(0)
    mine.trainer(0)
    # Not earlier: while numpy loads its modules it swallows what Ctrl-C raises.
    cluster.wait_for("trainer 0", "training starts")
    log = interrupt(cluster, "trainer 0", -signal.SIGINT)
    assert error_of(log) == "KeyboardInterrupt"
    assert "trainer 0 died" in error_of(cluster.expect("server 0", 1, limit=6))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends_at_once_when_it_is_told_to(cluster, job, number):
    mine = job(1, 1)
    mine.start()
    cluster.signal("server 0", number)
    asked = time.monotonic()
    log = cluster.expect("server 0", 0, limit=5)
    assert time.monotonic() - asked < 1.0
    assert "Traceback" not in log and "server ended" not in log
    line = error_of(cluster.expect("trainer 0", 1, limit=5))
    assert is_runtime_error(line) and mine.endpoints[0] in line, line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_so_does_one_without_a_fleet(cluster, number):
    port = free_endpoints(1)[0].rpartition(":")[2]
    variables = {
        "PADDLE_PSERVER_IPS": "127.0.0.1",
        "PADDLE_PSERVER_PORT": port,
        "PADDLE_CURRENT_IP": "127.0.0.1",
        "PADDLE_TRAINERS": "1",
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINING_ROLE": "PSERVER",
    }
    cluster.start("server", TRANSPILED, **variables)
    cluster.wait_for("server", "Server listening on")
    cluster.signal("server", number)
    asked = time.monotonic()
    log = cluster.expect("server", 0, limit=5)
    assert time.monotonic() - asked < 1.0
    assert "Traceback" not in log and "startup program done" in log
    assert "server ended" not in log


def test_a_port_that_is_taken_is_an_error_in_time(cluster, job):
    mine = job(1, 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(mine.endpoints[0].rpartition(":")[2])))
        taken.listen()
        mine.server(0, FLAGS_rpc_retry_bind_port="1")
        line = error_of(cluster.expect("server 0", 1, limit=20))
    assert is_runtime_error(line) and mine.endpoints[0] in line, line


def launch(cluster, *arguments, **variables):
    """A job of two and two, run by the launcher; returns the numbers of its processes."""
    options = ("--worker_num", "2", "--server_num", "2", STEADY, "sync", *arguments)
    cluster.start("launcher", "-m", "paddlewheel", "launch_ps", *options, **variables)
    names = ["%slog.%d" % (who, at) for who in ("worker", "server") for at in (0, 1)]
    pids = {}

    def steps():
        for name in names:
            log = cluster.folder / "logs" / name
            said = re.match(r"pid (\d+)\n", log.read_text() if log.exists() else "")
            if said:
                pids[name] = int(said.group(1))
        return len(pids) == 4 and "step 5\n" in launched(cluster, "workerlog.0")

    wait_until("steps", steps, LIMIT, cluster.logs)
    return pids


def launched(cluster, name):
    return (cluster.folder / "logs" / name).read_text()


def nobody_is_left(pids):
    wait_until("nobody is left", lambda: not any(map(is_alive, pids.values())), 5)


@pytest.mark.parametrize("victim", ["worker 1", "server 0"])
def test_the_launcher_names_who_was_killed(cluster, victim):
    pids = launch(cluster)
    os.kill(pids["%slog.%s" % tuple(victim.split())], signal.SIGKILL)
    said = cluster.expect("launcher", 1, limit=15)
    assert re.search(r"%s \(pid \d+\) was killed by signal 9 \(SIGKILL\)" % victim, said), said
    assert re.search(r"logs/\d{8}-\d{6}-[0-9a-f]{4}/%slog.%s" % tuple(victim.split()), said), said
    assert said.count("(pid ") == 1, "one is to blame"
    nobody_is_left(pids)


def test_the_launcher_of_a_tolerant_job_goes_on(cluster):
    pids = launch(cluster, FLAGS_tolerate_lost_trainers="1")
    os.kill(pids["workerlog.1"], signal.SIGKILL)
    wait_until("a line", lambda: "worker 1 (pid" in cluster.log("launcher"), 15, cluster.logs)
    before = launched(cluster, "workerlog.0").count("step ")
    more = lambda: launched(cluster, "workerlog.0").count("step ") > before  # noqa: E731
    wait_until("further steps", more, LIMIT, cluster.logs)
    (cluster.folder / "enough").touch()
    said = cluster.expect("launcher", 0)
    assert "all parameter server are killed\n" in said
    assert "trainer ended after" in launched(cluster, "workerlog.0")
    nobody_is_left(pids)


def test_ctrl_c_of_the_launcher_ends_everybody(cluster):
    pids = launch(cluster)
    cluster.signal("launcher", signal.SIGINT)
    cluster.expect("launcher", 130, limit=10)
    nobody_is_left(pids)
