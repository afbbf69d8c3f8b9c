"""One script on every engine: real processes with the environments that engines give them.

`mpirun` itself is run where it is installed; Slurm is run by `make interop`.
"""

import json
import os
import re
import shutil
import signal

import pytest
from clusters import free_port
from conftest import HERE, PROGRAMS
from test_fleet import numbers

SCRIPT = os.path.join(PROGRAMS, "fleet_regression.py")
#: Certificates of tests.
TLS_FILES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "crates", "testing", "tls")
#: Variables that this process may have from an engine of its own.
FOREIGN = ("PADDLE_", "SLURM_", "OMPI_", "PMI", "MPI_", "VC_", "JOB_", "TRAINING_ROLE", "POD_")


@pytest.fixture(autouse=True)
def no_engine(monkeypatch):
    """Tests may themselves run on an engine."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)


def check(cluster, trainers):
    """Trainers have learnt, and met one another."""
    for name in trainers:
        log = cluster.expect(name)
        assert numbers(log, "last")[0] < 0.5
        assert numbers(log, "total") == [3.0]


def slurm(rank, job):
    """The variables that `srun -n 4` sets for a task, captured from Slurm 22.05."""
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_NTASKS": "4",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "4",
    }


def volcano(index, task, port):
    """The variables of Volcano's plugins."""
    return {
        "VC_TASK_INDEX": str(index),
        "VC_PS_HOSTS": "localhost",
        "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job",
        "HOSTNAME": "localhost" if task == "ps" else "job-worker-%d" % index,
        "PADDLE_PORT": port,
    }


def test_tasks_of_slurm(cluster):
    port = str(free_port())
    for rank in range(4):
        cluster.start("task %d" % rank, SCRIPT, "sync", **{**slurm(rank, 5), "PADDLE_PORT": port})
    check(cluster, ["task 1", "task 3"])
    for server in ("task 0", "task 2"):
        assert "server ended" in cluster.expect(server)


def test_pods_of_volcano(cluster):
    port = str(free_port())
    cluster.start("server", SCRIPT, "sync", **volcano(0, "ps", port))
    for at in (0, 1):
        cluster.start("trainer %d" % at, SCRIPT, "sync", **volcano(at, "worker", port))
    check(cluster, ["trainer 0", "trainer 1"])
    cluster.expect("server")


def test_pods_of_kubernetes(cluster):
    """A StatefulSet and an indexed Job, as `paddlewheel render k8s` makes them."""
    listed = {"PADDLE_PSERVERS_IP_PORT_LIST": "localhost:%d" % free_port(), "PADDLE_TRAINERS_NUM": "2"}
    cluster.start("server", SCRIPT, "async", TRAINING_ROLE="PSERVER", HOSTNAME="localhost", **listed)
    for at in (0, 1):
        own = {"TRAINING_ROLE": "TRAINER", "JOB_COMPLETION_INDEX": str(at)}
        cluster.start("trainer %d" % at, SCRIPT, "async", **own, **listed)
    check(cluster, ["trainer 0", "trainer 1"])
    cluster.expect("server")


def meeting(port, **own):
    """The variables of Kubeflow's PaddleJob."""
    return {"PADDLE_MASTER": "127.0.0.1:%d" % port, "PADDLE_NNODES": "4", "PADDLE_JOB_ID": "line", **own}


def test_processes_that_know_one_address(cluster):
    port = free_port()
    for at in (0, 1):
        cluster.start("trainer %d" % at, SCRIPT, "sync", **meeting(port, PADDLE_TRAINER_NUM="1"))
    cluster.wait_for("trainer 0", "rendezvous at 127.0.0.1:%d: missing: " % port)
    for at in (0, 1):
        cluster.start("server %d" % at, SCRIPT, "sync", **meeting(port, PADDLE_SERVER_NUM="1"))
    check(cluster, ["trainer 0", "trainer 1"])
    for at in (0, 1):
        assert "server ended" in cluster.expect("server %d" % at)


def test_one_that_never_comes_is_named_to_all(cluster):
    port = free_port()
    roles = {"server": ("PSERVER", "PADDLE_PSERVER_ID"), "trainer": ("TRAINER", "PADDLE_TRAINER_ID")}
    for name, at in [("server", 0), ("server", 1), ("trainer", 0)]:
        role, number = roles[name]
        own = {"TRAINING_ROLE": role, number: str(at), "PADDLE_PSERVERS_NUM": "2"}
        own["FLAGS_wait_server_ready_timeout"] = "3"
        cluster.start("%s %d" % (name, at), SCRIPT, "sync", **meeting(port, **own))
    for name in ("server 0", "server 1", "trainer 0"):
        log = cluster.expect(name, 1)
        assert "RuntimeError" in log and "missing: trainer 1; there are: " in log


def test_nobody_at_the_address(cluster):
    away = {"PADDLE_MASTER": "192.0.2.77:1", "FLAGS_wait_server_ready_timeout": "1", "PADDLEWHEEL_INSECURE": "1"}
    own = {**meeting(1), **away, "TRAINING_ROLE": "TRAINER"}
    cluster.start("trainer", SCRIPT, "sync", **own)
    log = cluster.expect("trainer", 1)
    assert "RuntimeError: no process answered at the rendezvous 192.0.2.77:1" in log


def test_ctrl_c_at_the_rendezvous(cluster):
    port = free_port()
    cluster.start("trainer", SCRIPT, "sync", **meeting(port, PADDLE_TRAINER_NUM="1"))
    cluster.wait_for("trainer", "rendezvous at")
    cluster.signal("trainer", signal.SIGINT)
    assert cluster.wait("trainer", limit=10) != 0
    assert "KeyboardInterrupt" in cluster.log("trainer")


def test_the_process_at_the_address_is_started_again(cluster):
    """It is a server: it comes back with its number, the others tell it their addresses, and the job recovers."""
    port = free_port()
    job = os.path.join(HERE, "jobs", "recovering.py")
    flags = {"FLAGS_snapshot_dir": "snapshots", "FLAGS_snapshot_secs": "0.2"}

    def start(name, **own):
        cluster.start(name, job, "sync", "200", "model", **meeting(port, **flags, **own))

    start("server 0", PADDLE_SERVER_NUM="1")
    cluster.wait_for("server 0", "rendezvous at")
    start("server 1", PADDLE_SERVER_NUM="1")
    for at in (0, 1):
        start("trainer %d" % at, PADDLE_TRAINER_NUM="1")
    cluster.wait_for("server 0", "is kept: ")
    cluster.kill("server 0")
    # As Kubernetes does: the same environment again.
    start("server 0", PADDLE_SERVER_NUM="1")
    (cluster.folder / "hurry").touch()
    for name in ("trainer 0", "trainer 1", "server 0", "server 1"):
        cluster.expect(name)


@pytest.mark.parametrize(
    "given, missing",
    [
        ({"SLURM_PROCID": "0"}, "SLURM_NTASKS"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "SLURM_STEP_ID"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE"),
        ({"PMI_SIZE": "2"}, "PMI_RANK"),
        ({"JOB_COMPLETION_INDEX": "0"}, "PADDLE_TRAINERS_NUM"),
        ({"JOBSET_NAME": "a"}, "REPLICATED_JOB_NAME"),
        ({"VC_TASK_INDEX": "0"}, "VC_WORKER_HOSTS"),
        ({"PADDLE_MASTER": "a:1"}, "PADDLE_NNODES"),
    ],
)
def test_half_of_an_environment(monkeypatch, given, missing):
    from paddlewheel.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker

    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="%s is not set" % missing):
        PaddleCloudRoleMaker().generate_role()


#: Open MPI asks root whether it means it, and counts cores.
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def installed(command):
    """The path of an `mpirun`, or no test."""
    path = shutil.which(command)
    if path is None:
        pytest.skip("%s is not installed: apt-get install openmpi-bin mpich" % command)
    return path


@pytest.mark.parametrize("command", ["mpirun.openmpi", "mpirun.mpich"])
def test_mpirun(cluster, command):
    """`mpirun -np 4`: even ranks serve, odd ones train."""
    path = installed(command)
    root = {**AS_ROOT, "PADDLE_PORT": str(free_port())}
    # The output of a rank comes at once: ranks share the output.
    cluster.shell("mpirun", "env -u PYTHONUNBUFFERED %s -np 4 python %s sync" % (path, SCRIPT), **root)
    log = cluster.expect("mpirun")
    losses = [float(text) for text in re.findall(r"last ([-.e\d]+)", log)]
    assert log.count("server ended") == 2 and log.count("total [3.0]") == 2, log
    assert len(losses) == 2 and max(losses) < 0.5, log


#: Prints the variables of a process of a job about logs and access.
TOLD = """
import os
names = ["LOG", "LOG_FORMAT", "TLS", "TLS_CERT", "TLS_NAME", "SECRET_FILE"]
# As one text: ranks share the output.
print(" ".join(["told"] + [str(os.environ.get("PADDLEWHEEL_" + name)) for name in names]) + "\\n", end="")
"""
LAUNCH = "python -m paddlewheel launch_ps --on %s --log_format json --worker_num 2 --server_num 1 "


@pytest.mark.parametrize("command", ["mpirun.openmpi", "mpirun.mpich"])
def test_ranks_are_told_about_logs_and_encryption(cluster, command):
    path = installed(command)
    (cluster.folder / "told.py").write_text(TOLD)
    (cluster.folder / "secret").write_text("a secret of sixteen bytes")
    line = LAUNCH % "mpi" + "--mpirun %s --tls --tls_name job --secret_file secret told.py" % path
    cluster.shell("launcher", line, PADDLEWHEEL_LOG="server=debug", **AS_ROOT)
    told = "told server=debug json 1 None job %s\n" % (cluster.folder / "secret")
    log = cluster.expect("launcher")
    assert log.count(told) == 3, log
    # Lines of ranks stay as they are; those of the launcher are JSON.
    own = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert own and all(line["role"] == "launcher" for line in own), log


#: Writes down what it is asked, and says that the job is complete.
KUBECTL = """#!/bin/sh
echo "$@" >> calls
case "$1 $2" in
"create secret") cat > /dev/null; echo "manifest of $4";;
"apply -f") if [ "$3" = - ]; then sed 's/^/applied /' >> calls; else cp "$3" job.yaml; fi;;
"get job/told-trainer") echo "Complete CompletionsReached";;
esac
"""


def test_pods_are_told_about_logs_and_encryption(cluster):
    shim = cluster.folder / "bin" / "kubectl"
    shim.write_text(KUBECTL)
    shim.chmod(0o755)
    files = [os.path.join(TLS_FILES, name) for name in ("good.pem", "process.key", "ours.pem")]
    certificate = "--tls_cert %s --tls_key %s --tls_ca %s" % tuple(files)
    cluster.shell("launcher", LAUNCH % "k8s" + "--image i %s told.py" % certificate, GLOG_v="2")
    cluster.expect("launcher")
    calls = (cluster.folder / "calls").read_text().splitlines()
    assert "create secret generic told-secret --from-file=secret=/dev/stdin" in calls
    given = "--from-file=tls.crt=%s --from-file=tls.key=%s --from-file=ca.crt=%s" % tuple(files)
    assert "create secret generic told-tls --dry-run=client --output=yaml " + given in calls
    assert "applied manifest of told-tls" in calls
    manifest = (cluster.folder / "job.yaml").read_text()
    for line in (
        'name: PADDLEWHEEL_LOG_FORMAT, value: "json"',
        'name: GLOG_v, value: "2"',
        'name: PADDLEWHEEL_TLS_CERT, value: "/etc/paddlewheel/tls/tls.crt"',
        "name: tls, secret: {secretName: told-tls}",
    ):
        assert manifest.count(line) == 2, (line, manifest)
    (cluster.folder / "calls").unlink()
    # A bad certificate is found before anything is submitted.
    gone = certificate.replace("good.pem", "gone.pem")
    cluster.shell("gone", LAUNCH % "k8s" + "--image i %s told.py" % gone)
    assert "gone.pem" in cluster.expect("gone", 1)
    assert not (cluster.folder / "calls").exists()


def test_options_of_another_engine_are_refused(cluster):
    (cluster.folder / "told.py").write_text(TOLD)
    cluster.shell("launcher", LAUNCH % "mpi" + "--partition p told.py")
    assert "--partition is not for jobs on mpi" in cluster.expect("launcher", 2)
