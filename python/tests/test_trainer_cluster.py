"""The event trainer in a job: killed processes resume from their checkpoint, as if nothing had been."""

import hashlib
import os

import pytest

from clusters import Cluster, free_endpoints, free_port, server_variables, trainer_variables, wait_until
from conftest import HERE, saved_in

JOB = os.path.join(HERE, "jobs", "trainer.py")
NAMES = ["server 0", "server 1", "trainer 0", "trainer 1"]


class Job:
    """Two servers and two trainers in a folder."""

    names = NAMES

    def __init__(self, folder, epochs=2, **variables):
        folder.mkdir()
        self.folder, self.epochs, self.variables = folder, epochs, variables
        self.cluster = Cluster(folder)

    def start(self, **variables):
        """Starts all; the same call again resumes."""
        endpoints = free_endpoints(2)
        for at in (0, 1):
            own = {"server": server_variables(endpoints, at, 2), "trainer": trainer_variables(endpoints, at, 2)}
            for part, role in own.items():
                role = {**role, **self.variables, **variables}
                self.cluster.start("%s %d" % (part, at), JOB, str(self.epochs), "model", **role)

    def kill(self):
        """`kill -9` for all, one after the other."""
        for name in self.names:
            self.cluster.kill(name)

    def finish(self):
        """Waits for the end; returns what was saved."""
        for name in self.names:
            self.cluster.expect(name)
        return self.saved()

    def saved(self):
        """The saved files, one by one, but for the list of them."""
        model = self.folder / "model"
        files = [path for path in model.rglob("*") if path.is_file() and ".paddlewheel" not in path.parts]
        return {str(path.relative_to(model)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def points(self):
        """The entries of the folder of checkpoints."""
        points = self.folder / "points"
        return saved_in(points) if points.exists() else []


class WithoutServers(Job):
    """Two trainers that find each other by their addresses."""

    names = NAMES[2:]

    def start(self, **variables):
        ips = ["127.0.0.1", "127.0.0.2"]
        where = {"PADDLE_TRAINER_IPS": ",".join(ips), "PADDLE_PSERVER_PORT": str(free_port(*ips))}
        for at, name in enumerate(self.names):
            # Trainer 1 notes its own place at other steps than trainer 0 saves the model.
            own = {"PADDLE_TRAINER_ID": str(at), "INTERVAL": str(5 + 2 * at)}
            role = {**own, **where, **self.variables, **variables}
            self.cluster.start(name, JOB, str(self.epochs), "model", **role)


@pytest.fixture
def job(tmp_path):
    jobs = []

    def start(name, kind=Job, **variables):
        jobs.append(kind(tmp_path / name, **variables))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


@pytest.mark.parametrize("batches", ["12 12", "12 7"], ids=["even", "uneven"])
def test_a_killed_job_goes_on_from_its_checkpoint(job, batches):
    calm, killed = job("calm", BATCHES=batches), job("killed", BATCHES=batches)
    calm.start()
    expected = calm.finish()
    killed.start(HANG="0 1 8")
    killed.cluster.wait_for("trainer 0", "hangs")
    killed.kill()
    assert killed.points() == ["checkpoint_3", "checkpoint_4"]
    assert saved_in(killed.folder / "points" / "checkpoint_4" / "trainer_0") == [
        "_SUCCESS", "epoch_id", "n_steps", "step_id",
    ]
    killed.start()
    assert killed.finish() == expected
    log = killed.cluster.log("trainer 0")
    again = log.rpartition("goes on from checkpoint 4\n")[2]
    assert again.startswith("step 1 6\n"), log
    for name in ("server 0", "server 1", "trainer 1"):
        assert "goes on from checkpoint 4\n" in killed.cluster.log(name)
    wait_until("no checkpoints are left", lambda: killed.points() == [])


def test_a_damaged_checkpoint_is_left_out_by_all(job):
    calm, killed = job("calm"), job("killed")
    calm.start()
    expected = calm.finish()
    killed.start(HANG="1 1 8")
    killed.cluster.wait_for("trainer 1", "hangs")
    killed.kill()
    # Only one of the servers reads this one.
    (part,) = (killed.folder / "points" / "checkpoint_4").rglob("rows_1")
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    killed.start()
    assert killed.finish() == expected
    for name in NAMES:
        log = killed.cluster.log(name)
        assert "goes on from checkpoint 3\n" in log and "an older one is taken" in log
        assert str(part.relative_to(killed.folder)) in log


@pytest.mark.parametrize("devices", [{}, {"PARALLEL": "1", "CPU_NUM": "2"}], ids=["one", "two"])
def test_trainers_without_servers_go_on_from_a_checkpoint(job, devices):
    calm = job("calm", WithoutServers, **devices)
    killed = job("killed", WithoutServers, **devices)
    calm.start()
    expected = calm.finish()
    assert expected
    alone = job("alone", WithoutServers, **devices)
    alone.names = NAMES[2:3]
    alone.start(PADDLE_TRAINER_IPS="127.0.0.1")
    assert alone.finish() != expected, "the other trainer's batches count"
    killed.start(HANG="0 1 3")
    killed.cluster.wait_for("trainer 0", "hangs")
    killed.kill()
    assert killed.points()
    killed.start()
    assert killed.finish() == expected
    for name in killed.names:
        assert "goes on from checkpoint" in killed.cluster.log(name)


def test_devices_of_trainers_each_take_a_batch(job):
    calm = job("calm", PARALLEL="1", CPU_NUM="2")
    killed = job("killed", PARALLEL="1", CPU_NUM="2")
    calm.start()
    expected = calm.finish()
    assert calm.cluster.log("trainer 0").count("step ") == 12, "six pairs in each pass"
    killed.start(HANG="0 1 3")
    killed.cluster.wait_for("trainer 0", "hangs")
    killed.kill()
    killed.start()
    assert killed.finish() == expected


def test_with_snapshots_a_trainer_that_is_started_again_finds_its_place(job):
    """Its script repeats itself, though there are checkpoints now that it did not begin from."""
    pace = {"BATCHES": "150 150", "INTERVAL": "30"}
    calm, killed = job("calm", **pace), job("killed")
    calm.start()
    expected = calm.finish()
    command = ["-m", "paddlewheel", "launch_ps", "--worker_num", "2", "--server_num", "2"]
    command += ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.1", JOB, "2", "model"]
    killed.cluster.start("launcher", *command, **pace)
    log = lambda name: (killed.folder / "logs" / name).read_text(errors="replace")  # noqa: E731
    wait_until("checkpoints", killed.points, context=killed.cluster.logs)
    for rank in (0, 1):
        pid = int((killed.folder / ("trainer.%d.pid" % rank)).read_text())
        os.kill(pid, 9)
    assert killed.cluster.expect("launcher")
    assert killed.saved() == expected, log("workerlog.0")
    assert "goes on from checkpoint" not in log("workerlog.0")


class Machines:
    """Two machines, each with a disk of its own: a server and a trainer, or, without servers, a trainer."""

    def __init__(self, folder, servers):
        self.parts = ("server", "trainer") if servers else ("trainer",)
        self.folders = [folder / "one", folder / "two"]
        for own in self.folders:
            own.mkdir()
        self.clusters = [Cluster(own) for own in self.folders]

    def start(self, **variables):
        """Starts all; the same call again resumes."""
        endpoints, ips = free_endpoints(2), ["127.0.0.1", "127.0.0.2"]
        alone = {"PADDLE_TRAINER_IPS": ",".join(ips), "PADDLE_PSERVER_PORT": str(free_port(*ips))}
        for at, cluster in enumerate(self.clusters):
            own = {"server": server_variables(endpoints, at, 2), "trainer": trainer_variables(endpoints, at, 2)}
            if "server" not in self.parts:
                own = {"trainer": {"PADDLE_TRAINER_ID": str(at), **alone}}
            for part in self.parts:
                cluster.start(part, JOB, "2", "model", **{**own[part], **variables})

    def all(self):
        """Each process, by the cluster that has it and its name."""
        return [(cluster, part) for cluster in self.clusters for part in self.parts]

    def merge(self):
        """The advice of the documents: all machines get all parts of all checkpoints."""
        for source, target in (self.folders, self.folders[::-1]):
            for path in sorted((source / "points").rglob("*")):
                copy = target / path.relative_to(source)
                if path.is_file() and path.name != ".paddlewheel" and not copy.exists():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(path.read_bytes())


@pytest.fixture
def machines(tmp_path):
    made = []

    def make(servers):
        made.append(Machines(tmp_path, servers))
        return made[-1]

    yield make
    for one in made:
        for cluster in one.clusters:
            cluster.close()


@pytest.mark.parametrize("servers", [True, False], ids=["servers", "no_servers"])
def test_checkpoints_that_were_not_merged_end_all_processes(machines, servers):
    job = machines(servers)
    job.start(HANG="0 1 8")
    job.clusters[0].wait_for("trainer", "hangs")
    for cluster, part in job.all():
        cluster.kill(part)
    # Only the machine of trainer 0 has models.
    models = [sorted(path.parent.name for path in own.glob("points/*/__model__")) for own in job.folders]
    assert models[0] and not models[1]
    job.start()
    for cluster, part in job.all():
        wait_until("%s ends" % part, lambda: cluster.processes[part].poll() is not None, context=cluster.logs)
        assert cluster.processes[part].returncode not in (0, None), cluster.log(part)
    for cluster in job.clusters:
        log = cluster.log("trainer")
        assert "merge the folders of checkpoints" in log and "no checkpoint" in log, log
        assert "step 0 0" not in log.rpartition("hangs")[2].partition("Traceback")[2]
    for cluster in job.clusters if servers else []:
        log = cluster.log("server")
        assert "merge the folders of checkpoints" in log, log
        for own in job.folders:
            assert str(own / "points") in log, log
    job.merge()
    job.start()
    for cluster, part in job.all():
        cluster.expect(part)
        assert "goes on from checkpoint %s" % models[0][-1].rpartition("_")[2] in cluster.log(part)
