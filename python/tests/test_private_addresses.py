"""Jobs on several machines with private addresses and without a secret, as documents about Fluid start them.

The addresses are those of the documents. They belong to machines that a test makes: network namespaces, which need root.
"""

import os
import signal
import sys

import pytest
from clusters import server_variables, short_job, trainer_variables, wait_until
from namespaces import Machines, need_root
from test_documents import fenced, last_loss, mend, program_000, program_002, write

A, B, C, D = ["10.89.176.%d" % at for at in (11, 12, 13, 14)]
SAID = "the job has no secret"


@pytest.fixture
def machines(tmp_path):
    """Makes machines with these addresses, once."""
    need_root()
    made = []

    def make(*addresses):
        made.append(Machines(tmp_path, *addresses))
        return made[0]

    yield make
    for one in made:
        one.close()


def said_once(log):
    assert log.count(SAID) == 1 and "PADDLEWHEEL_SECRET_FILE" in log, log


def test_002_by_its_own_addresses(machines, tmp_path):
    """Two machines, each with a server and a trainer; not a letter of the shells is changed."""
    write(tmp_path / "train.py", program_002())
    job = machines(A, B)
    places = {"server A": A, "server B": B, "worker A": A, "worker B": B}
    for (name, address), shell in zip(places.items(), fenced("002", "bash")):
        job.run(address, name, shell)
    for name in ("worker A", "worker B"):
        assert last_loss(job.expect(name)) < 0.1
    for name in places:
        said_once(job.expect(name, limit=10))


def test_000_by_its_own_addresses(machines, tmp_path):
    """A server and two trainers. The trainers' command names the trainer's address as the server's: that is mended."""
    write(tmp_path / "test_fit_a_line.py", program_000("roles"))
    server, trainer = [text for text in fenced("000", "bash") if text.startswith("PADDLE_")]
    trainer = mend(trainer, "PADDLE_PSERVER_IPS=192.168.1.3", "PADDLE_PSERVER_IPS=192.168.1.2")
    job = machines("192.168.1.2", "192.168.1.3", "192.168.1.4")
    job.run("192.168.1.2", "server", "exec env " + server)
    job.wait_for("server", "Server listening on 192.168.1.2:6174")
    job.run("192.168.1.3", "trainer 1", trainer)
    job.run("192.168.1.4", "trainer 0", mend(trainer, "TRAINER_ID=1", "TRAINER_ID=0"))
    for name in ("trainer 0", "trainer 1"):
        said_once(job.expect(name))


class Job:
    """A job whose processes are started by hand."""

    def __init__(self, machines, servers, trainers, n_steps, **variables):
        self.machines, self.trainers, self.variables = machines, trainers, variables
        self.endpoints = [address + ":36000" for address in servers]
        self.path = write(machines.folder / "train.py", short_job(n_steps))

    def server(self, at, name=None, **variables):
        address = self.endpoints[at].partition(":")[0]
        own = {**server_variables(self.endpoints, at, self.trainers), **self.variables, **variables}
        self.machines.script(address, name or "server %d" % at, self.path, **own)

    def trainer(self, at, address, name=None, **variables):
        own = {**trainer_variables(self.endpoints, at, self.trainers), **self.variables, **variables}
        self.machines.script(address, name or "trainer %d" % at, self.path, **own)


@pytest.mark.parametrize("n_servers, n_trainers", [(2, 2), (1, 2), (2, 4)])
def test_jobs_start_without_a_secret(machines, n_servers, n_trainers):
    places = [A, B]
    job = Job(machines(*places), places[:n_servers], n_trainers, 20)
    for at in range(n_trainers):
        job.trainer(at, places[at % 2])
    for at in range(n_servers):
        job.server(at)
    names = ["trainer %d" % at for at in range(n_trainers)] + ["server %d" % at for at in range(n_servers)]
    for name in names:
        said_once(job.machines.expect(name))


def test_one_machine_is_as_it_was(machines):
    """The addresses of document 004."""
    job = Job(machines(A), ["127.0.0.1"], 2, 20)
    job.endpoints = ["127.0.0.1:36011", "127.0.0.1:36012"]
    for at in (0, 1):
        own = server_variables(job.endpoints, at, 2)
        job.machines.script(A, "server %d" % at, job.path, **own)
        job.trainer(at, A)
    for name in ("trainer 0", "trainer 1", "server 0", "server 1"):
        assert SAID not in job.machines.expect(name)


def test_link_local_addresses_are_private(machines):
    job = Job(machines("169.254.7.1", "169.254.7.2"), ["169.254.7.1"], 2, 5)
    job.server(0)
    job.trainer(0, "169.254.7.1")
    job.trainer(1, "169.254.7.2")
    for name in ("server 0", "trainer 0", "trainer 1"):
        said_once(job.machines.expect(name))


def test_a_stranger_who_comes_later_is_refused(machines):
    """A trainer's number from another key: the stranger learns whose it is, and the job continues."""
    job = Job(machines(A, B, C), [A, B], 2, 3000)
    for at in (0, 1):
        job.server(at)
    job.trainer(0, A)
    job.trainer(1, B)
    job.machines.wait_for("server 0", "trainer 1 joined")
    job.machines.wait_for("server 1", "trainer 1 joined")
    for at in (0, 1):
        name = "stranger %d" % at
        job.trainer(at, C, name)
        assert job.machines.wait(name) != 0
        log = job.machines.log(name)
        assert "the number of trainer %d is taken by another key" % at in log, log
        assert "PADDLEWHEEL_SECRET_FILE" in log
    assert "from %s" % B in job.machines.log("stranger 1")
    for name in ("trainer 0", "trainer 1", "server 0", "server 1"):
        job.machines.expect(name)
    logs = job.machines.log("server 0") + job.machines.log("server 1")
    assert "refused a connection of %s: the number of trainer 1" % C in logs


def test_a_stranger_who_came_first_makes_the_trainer_fail(machines):
    job = Job(machines(A, B, C), [A], 2, 100000)
    job.server(0)
    job.trainer(1, C, "stranger")
    job.machines.wait_for("server 0", "trainer 1 joined")
    job.trainer(1, B)
    assert job.machines.wait("trainer 1") != 0
    log = job.machines.log("trainer 1")
    assert "the number of trainer 1 is taken by another key" in log and "from %s" % C in log, log
    assert "end the job and give all its processes the same PADDLEWHEEL_SECRET_FILE" in log


def test_a_trainer_is_started_again_with_its_key(machines):
    """Without snapshots: its key is kept for its user."""
    job = Job(machines(A, B), [A], 2, 1000000, FLAGS_tolerate_lost_trainers="1")
    job.server(0)
    job.trainer(0, A)
    job.trainer(1, B)
    job.machines.wait_for("server 0", "trainer 1 joined")
    job.machines.kill("trainer 1")
    # The key is lost.
    job.trainer(1, B, "without its key", XDG_STATE_HOME=str(job.machines.folder / "nothing"))
    assert job.machines.wait("without its key") != 0
    log = job.machines.log("without its key")
    assert "the number of trainer 1 is taken by another key" in log and "its key is lost" in log, log
    job.trainer(1, B, "again")
    wait_until("trainer 1 is back", lambda: job.machines.log("server 0").count("trainer 1 joined") == 2)
    assert job.machines.is_running("again")


def test_a_folder_that_cannot_be_written_is_named(machines):
    """The job continues; a line says what follows."""
    job = Job(machines(A), [A], 1, 5, XDG_STATE_HOME="/proc/no")
    job.server(0)
    job.trainer(0, A)
    for name in ("server 0", "trainer 0"):
        log = job.machines.expect(name)
        said_once(log)
        assert "keys are not kept in `/proc/no/paddlewheel/keys`" in log, log


def test_processes_that_are_killed_come_back(machines):
    """With snapshots, a trainer and a server that were killed are started again by hand, with the keys that they had."""
    folder = machines(A, B, C)
    snapshots = str(folder.folder / "snapshots")
    job = Job(folder, [A], 2, 4000, FLAGS_snapshot_dir=snapshots, FLAGS_snapshot_secs="0.3")
    job.server(0)
    job.trainer(0, A)
    job.trainer(1, B)
    job.machines.wait_for("server 0", "trainer 1 joined")
    keys = os.path.join(snapshots, "keys")
    wait_until("keys of both trainers", lambda: len(known(keys)) == 2)
    assert all(os.stat(os.path.join(keys, name)).st_mode & 0o077 == 0 for name in os.listdir(keys))
    job.machines.kill("trainer 1")
    # Another process cannot be that trainer meanwhile.
    job.trainer(1, C, "stranger", FLAGS_snapshot_dir=str(folder.folder / "of the stranger"))
    assert job.machines.wait("stranger") != 0
    assert "the number of trainer 1 is taken by another key" in job.machines.log("stranger")
    job.trainer(1, B, PADDLE_RESTARTS="1")
    job.machines.wait_for("trainer 1", "init rpc client")
    job.machines.kill("server 0")
    job.server(0, PADDLE_RESTARTS="1")
    # Nor after the server was started again.
    job.trainer(1, C, "stranger 2", FLAGS_snapshot_dir=str(folder.folder / "of the stranger"))
    assert job.machines.wait("stranger 2") != 0
    assert "the number of trainer 1 is taken by another key" in job.machines.log("stranger 2")
    for name in ("trainer 0", "trainer 1", "server 0"):
        job.machines.expect(name)


def known(keys):
    """Lines about trainers that servers know."""
    names = [name for name in os.listdir(keys) if name.endswith(".known")] if os.path.isdir(keys) else []
    lines = []
    for name in names:
        with open(os.path.join(keys, name)) as file:
            lines += file.readlines()
    return lines


def test_a_trainer_notices_another_server(machines):
    """Another process has taken the address of a server that ended."""
    job = Job(machines(A, B), [A], 1, 1000000)
    job.server(0)
    job.trainer(0, B)
    job.machines.wait_for("server 0", "trainer 0 joined")
    job.machines.signal("trainer 0", signal.SIGSTOP)
    job.machines.kill("server 0")
    job.server(0, "impostor", XDG_STATE_HOME=str(job.machines.folder / "of the impostor"))
    job.machines.wait_for("impostor", "Server listening on")
    job.machines.signal("trainer 0", signal.SIGCONT)
    assert job.machines.wait("trainer 0") != 0
    assert "shows another key than before" in job.machines.log("trainer 0"), job.machines.logs()


@pytest.mark.parametrize(
    "address, variables",
    [("203.0.113.1", {}), (A, {"PADDLEWHEEL_REQUIRE_SECRET": "1"}), ("100.64.0.1", {})],
    ids=["public", "required", "carrier"],
)
def test_what_is_refused_is_refused_at_once_in_the_same_words(machines, address, variables):
    job = Job(machines(address), [address], 1, 5, **variables)
    job.trainer(0, address)
    words = "%s:36000 is not of this machine alone, and the job has no secret" % address
    assert job.machines.wait("trainer 0") != 0
    log = job.machines.log("trainer 0")
    assert words in log and "server not ready" not in log, log
    job.server(0)
    assert job.machines.wait("server 0") != 0
    assert words in job.machines.log("server 0")


def test_one_public_server_among_private_ones_is_refused_by_all(machines):
    job = Job(machines(A), [A, "203.0.113.1"], 1, 5)
    job.server(0)
    job.trainer(0, A)
    for name in ("server 0", "trainer 0"):
        assert job.machines.wait(name) != 0
        assert "203.0.113.1:36000 is not of this machine alone" in job.machines.log(name)


def test_a_process_with_a_secret_does_not_meet_one_without(machines):
    job = Job(machines(A, B), [A], 1, 5)
    job.server(0, PADDLEWHEEL_SECRET="the secret of this job")
    job.trainer(0, B)
    assert job.machines.wait("trainer 0") != 0
    assert "give all processes of a job the same PADDLEWHEEL_SECRET_FILE" in job.machines.log("trainer 0")


def test_processes_meet_at_a_rendezvous_without_a_secret(machines):
    """PADDLE_MASTER: no process knows the others' addresses."""
    job = machines(A, B, C)
    path = write(job.folder / "train.py", short_job(3000))
    shared = {"PADDLE_MASTER": A + ":36000", "PADDLE_NNODES": "3"}
    roles = {"server": (A, "PSERVER"), "one": (A, "TRAINER"), "other": (B, "TRAINER")}
    for name, (address, role) in roles.items():
        job.script(address, name, path, **shared, TRAINING_ROLE=role)
    for name in roles:
        job.wait_for(name, SAID)
    job.wait_for("server", "trainer 1 joined")
    job.script(C, "stranger", path, **shared, TRAINING_ROLE="TRAINER")
    assert job.wait("stranger") != 0
    assert "all processes of this job have come, with other keys" in job.log("stranger"), job.logs()
    for name in roles:
        job.expect(name)


COLLECTIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "collective.py")


def start_alone(job, at, address, name=None, before=""):
    """Starts a trainer of a job without servers on A, B and C."""
    endpoints = [one + ":36000" for one in (A, B, C)]
    own = {"PADDLE_TRAINER_ID": str(at), "PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints)}
    own["PADDLE_CURRENT_ENDPOINT"] = endpoints[at]
    text = '%sexec "%s" -u "%s" grad_allreduce' % (before, sys.executable, COLLECTIVE)
    job.run(address, name or "trainer %d" % at, text, **own)


def test_trainers_without_servers_meet_without_a_secret(machines):
    job = machines(A, B, C)
    for at, address in enumerate((A, B, C)):
        start_alone(job, at, address)
    for at in range(3):
        said_once(job.expect("trainer %d" % at))


def test_a_trainer_without_servers_is_refused_if_a_stranger_came_first(machines):
    """The stranger passes for trainer 2 on a machine of its own; trainer 0 has met it."""
    job = machines(A, B, C, D)
    start_alone(job, 0, A)
    start_alone(job, 2, D, "stranger", before="echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind; ")
    job.wait_for("trainer 0", "waiting for trainer 1 (%s:36000), for" % B)
    start_alone(job, 2, C)
    assert job.wait("trainer 2") != 0, job.logs()
    log = job.log("trainer 2")
    assert "the number of trainer 2 is taken by another key" in log and "from %s" % D in log, job.logs()
    assert job.is_running("trainer 0") and job.is_running("stranger")


@pytest.mark.parametrize("n_servers, n_trainers", [(1, 2), (2, 2)])
def test_unique_local_addresses_are_private(machines, n_servers, n_trainers):
    """IPv6, fc00::/7."""
    places = ["fd12:3456:789a::%d" % at for at in (1, 2)]
    job = Job(machines(*places), [], n_trainers, 20)
    job.endpoints = ["[%s]:36000" % place for place in places[:n_servers]]
    names = []
    for at in range(n_trainers):
        names.append("trainer %d" % at)
        job.trainer(at, places[at % 2])
    for at in range(n_servers):
        names.append("server %d" % at)
        job.machines.script(places[at], names[-1], job.path, **server_variables(job.endpoints, at, n_trainers))
    for name in names:
        said_once(job.machines.expect(name))


def test_other_addresses_of_ipv6_are_refused(machines):
    job = Job(machines("2001:db8::1"), [], 1, 5)
    job.endpoints = ["[2001:db8::1]:36000"]
    job.trainer(0, "2001:db8::1")
    assert job.machines.wait("trainer 0") != 0
    log = job.machines.log("trainer 0")
    assert "is not of this machine alone, and the job has no secret" in log and "server not ready" not in log, log


def test_names_of_private_addresses_are_private(machines):
    """`ip netns exec` gives each machine the files below /etc/netns."""
    job = machines(A, B)
    hosts = write(job.folder / "hosts", "127.0.0.1 localhost\n%s ps0.example\n%s worker1\n203.0.113.9 public.example\n" % (A, B))
    within = 'mount --bind "%s" /etc/hosts && exec "%s" -u "%s"'
    path = write(job.folder / "train.py", short_job(20))
    text = within % (hosts, sys.executable, path)
    endpoints = ["ps0.example:36000"]
    job.run(A, "server 0", text, **server_variables(endpoints, 0, 2))
    job.run(A, "trainer 0", text, **trainer_variables(endpoints, 0, 2))
    job.run(B, "trainer 1", text, **trainer_variables(endpoints, 1, 2))
    for name in ("server 0", "trainer 0", "trainer 1"):
        said_once(job.expect(name))
    job.run(A, "to the public", text, **trainer_variables(["public.example:36000"], 0, 1))
    assert job.wait("to the public") != 0
    log = job.log("to the public")
    assert "the job has no secret" in log and "server not ready" not in log, log
