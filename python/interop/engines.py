"""Runs one unchanged Fleet script on the real Slurm, with the real `mpirun` and on the real Ray, and kills tasks.

    python engines.py

Slurm is a cluster of one node, made for this run in a temporary folder. An engine that is not installed is
skipped, with a line that says so. Prints a line for each check; ends with a non-zero status if one fails.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(os.path.dirname(HERE), "tests")
SCRIPT = os.path.join(TESTS, "programs", "fleet_regression.py")
#: It saves what depends on every bit of every step, and writes its role to files.
RECOVERING = os.path.join(TESTS, "jobs", "recovering.py")
STEPS = "300"
LIMIT = 180


def wait_until(what, so, limit=LIMIT):
    deadline = time.monotonic() + limit
    while not so():
        assert time.monotonic() < deadline, "not within %s s: %s" % (limit, what)
        time.sleep(0.05)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(**more):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PADDLE", "OMPI"))}
    own["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), own["PATH"], "/usr/sbin"])
    own.pop("PYTHONUNBUFFERED", None)  # The output of a rank comes at once.
    own.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    # Machines have names of their own, also if there is one: the job needs a secret.
    own.update(OMPI_MCA_rmaps_base_oversubscribe="1", PADDLEWHEEL_SECRET="the secret of this job", **more)
    return own


class Slurm:
    """A cluster of this machine, with processes of its own."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.conf = os.path.join(folder, "slurm.conf")

    def __enter__(self):
        os.chmod(self.folder, 0o755)
        at = lambda *names: os.path.join(self.folder, *names)  # noqa: E731
        for name in ("run", "state", "spool", "keys"):
            os.mkdir(at(name), 0o700 if name == "keys" else 0o755)
        with open(at("keys", "key"), "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(at("keys", "key"), 0o400)
        host, ports = socket.gethostname().split(".")[0], (free_port(), free_port())
        with open(self.conf, "w") as file:
            file.write(CONF.format(folder=self.folder, host=host, ports=ports))
        munge = ["--force", "--foreground", "--key-file=" + at("keys", "key"), "--socket=" + at("run", "munge")]
        munge += ["--log-file=" + at("keys", "log"), "--pid-file=" + at("run", "munged.pid")]
        self.start("munged", *munge, "--seed-file=" + at("keys", "seed"))
        wait_until("munge", lambda: os.path.exists(at("run", "munge")), 30)
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        idle = ["sinfo", "--noheader", "--format=%T"]
        run = lambda: subprocess.run(idle, env=self.env(), capture_output=True, text=True)  # noqa: E731
        wait_until("a node that is idle", lambda: run().stdout.strip() == "idle", 60)
        return self

    def env(self, **more):
        return environment(SLURM_CONF=self.conf, **more)

    def start(self, name, *arguments):
        log = open(os.path.join(self.folder, name + ".out"), "wb")
        command = [shutil.which(name, path=self.env()["PATH"]), *arguments]
        self.processes.append(subprocess.Popen(command, env=self.env(), stdout=log, stderr=log))

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


CONF = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def run(command, folder, env):
    """Runs a command to its end; returns the exit code and all it said."""
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT
    )
    return done.returncode, done.stdout


def learns(command, folder, env):
    """Two servers and two trainers of the unchanged script."""
    code, said = run([*command, "paddlewheel", "run", SCRIPT, "sync"], folder, env)
    losses = [float(text) for text in re.findall(r"last ([-.e\d]+)", said)]
    assert code == 0 and said.count("server ended") == 2, said
    assert len(losses) == 2 and max(losses) < 0.5 and said.count("total [3.0]") == 2, said


def model(folder):
    """The bits of a saved model."""
    found = hashlib.sha256()
    for name in sorted(os.listdir(os.path.join(folder, "model"))):
        path = os.path.join(folder, "model", name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found.update(name.encode() + file.read())
    return found.hexdigest()


def pid(folder, name):
    with open(os.path.join(folder, name + ".pid")) as file:
        return int(file.read())


def new_folder(root, name):
    folder = os.path.join(root, name)
    os.mkdir(folder)
    return folder


class Batch:
    """A batch job as `paddlewheel render slurm` prints it."""

    def __init__(self, slurm, folder):
        self.slurm, self.folder = slurm, folder
        options = ["--name", "job", "--memory", "100Mi", "--snapshot_secs", "0.2"]
        command = ["paddlewheel", "render", "slurm", *options, RECOVERING, "sync", STEPS, "model"]
        code, text = run(command, folder, slurm.env())
        assert code == 0, text
        with open(os.path.join(folder, "job.sh"), "w") as file:
            file.write(text)
        code, said = run(["sbatch", "--parsable", "job.sh"], folder, slurm.env())
        assert code == 0, said
        self.number = said.strip()

    def log(self):
        path = os.path.join(self.folder, "job-%s.log" % self.number)
        if not os.path.exists(path):
            return ""
        with open(path, errors="replace") as file:
            return file.read()

    def state(self):
        code, said = run(["scontrol", "show", "job", self.number], self.folder, self.slurm.env())
        return re.search(r"JobState=(\w+)", said).group(1) if code == 0 else ""

    def finish(self):
        hurry(self.folder)
        wait_until("the end of the job", lambda: self.state() not in ("PENDING", "RUNNING", "COMPLETING"))
        assert self.state() == "COMPLETED", "%s\n%s" % (self.state(), self.log())


def hurry(folder):
    with open(os.path.join(folder, "hurry"), "w"):
        pass


def slurm_checks(root):
    with Slurm(new_folder(root, "slurm")) as slurm:
        yield "slurm: srun -n 4", lambda: learns(["srun", "-n", "4"], new_folder(root, "srun"), slurm.env())

        def half():
            # The batch script itself, without srun.
            folder = new_folder(root, "half")
            text = "#!/bin/sh\n#SBATCH -n 4\n#SBATCH --output=out\npaddlewheel run %s sync\n" % SCRIPT
            with open(os.path.join(folder, "half.sh"), "w") as file:
                file.write(text)
            code, said = run(["sbatch", "--wait", "half.sh"], folder, slurm.env())
            with open(os.path.join(folder, "out")) as file:
                log = file.read()
            assert code != 0 and "start the script with srun" in log, said + log

        yield "slurm: a batch script without srun is told so", half
        undisturbed = new_folder(root, "batch")
        yield "slurm: the printed batch script trains", lambda: Batch(slurm, undisturbed).finish()
        for victim in ("trainer.1", "server.0"):

            def killed(victim=victim):
                job = Batch(slurm, new_folder(root, "killed " + victim))
                wait_until("a snapshot", lambda: "is kept: " in job.log(), 60)
                os.kill(pid(job.folder, victim), signal.SIGKILL)
                wait_until("another start", lambda: "start 0 of job failed" in job.log(), 60)
                job.finish()
                assert model(job.folder) == model(undisturbed), "other bits\n" + job.log()

            yield "slurm: %s is killed, the job goes on and ends with the same bits" % victim, killed
        yield from follow_checks(root, "slurm", slurm.env, "--memory", "100Mi")


class Followed:
    """A job that `launch_ps --on` submits and follows."""

    def __init__(self, folder, env, *options):
        self.folder = folder
        # Files of a killed process have its role; the job does not end before `hurry`.
        own = ["paddlewheel", "launch_ps", *options, "--snapshot_secs", "0.2", "--max_restarts", "3"]
        with open(os.path.join(folder, "launcher"), "wb") as log:
            command = [*own, RECOVERING, "sync", STEPS, "model"]
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)

    def said(self):
        with open(os.path.join(self.folder, "launcher"), errors="replace") as file:
            return file.read()

    def logs(self):
        """The output of all processes."""
        texts = [self.said()]
        logs = os.path.join(self.folder, "logs", "latest")
        for name in sorted(os.listdir(logs)) if os.path.isdir(logs) else []:
            path = os.path.join(logs, name)
            if os.path.isfile(path):
                with open(path, errors="replace") as file:
                    texts.append(file.read())
        return "\n".join(texts)

    def wait_for(self, text):
        wait_until(text, lambda: text in self.logs() or self.process.poll() is not None, 90)
        assert text in self.logs(), self.logs()[-6000:]

    def finish(self):
        hurry(self.folder)
        assert self.process.wait(LIMIT) == 0, self.logs()[-6000:]


#: Says what a process of a job was told.
TOLD = """
import os
told = [os.environ.get("PADDLEWHEEL_" + name, "nothing") for name in ("LOG_FORMAT", "TLS", "LOG")]
has_secret = "PADDLEWHEEL_SECRET" in os.environ or "PADDLEWHEEL_SECRET_FILE" in os.environ
print(" ".join(["told", *told, str(has_secret)]) + "\\n", end="", flush=True)
"""


def follow_checks(root, engine, env, *options):
    """A job on an engine, one whose trainer is killed, and one that is ended by a signal."""
    options = ["--on", engine, *options]

    def told():
        folder = new_folder(root, "told %s" % (options[-1].replace("/", "_") + engine))
        with open(os.path.join(folder, "told.py"), "w") as file:
            file.write(TOLD)
        own = [*options, "--log_format", "json", "--tls", "--worker_num", "2", "--server_num", "1", "told.py"]
        code, said = run(["paddlewheel", "launch_ps", *own], folder, {**env(), "PADDLEWHEEL_LOG": "server=debug"})
        logs = os.path.join(folder, "logs", "latest")
        texts = [open(os.path.join(logs, name), errors="replace").read() for name in os.listdir(logs)]
        n = "".join(texts).count("told json 1 server=debug True")
        assert (code, n) == (0, 3), (code, n, said, texts)

    yield "--on %s: processes are told about logs and TLS" % engine, told
    undisturbed = new_folder(root, "on %s" % (options[-1].replace("/", "_") + engine))
    yield "--on %s: a job" % engine, lambda: Followed(undisturbed, env(), *options).finish()

    def killed():
        job = Followed(new_folder(root, os.path.basename(undisturbed) + " killed"), env(), *options)
        job.wait_for("is kept: ")
        first = pid(job.folder, "trainer.1")
        os.kill(first, signal.SIGKILL)
        wait_until("another trainer 1", lambda: pid(job.folder, "trainer.1") != first, 90)
        job.finish()
        assert model(job.folder) == model(undisturbed), "other bits\n" + job.logs()[-6000:]

    yield "--on %s: a killed trainer comes back, the bits are the same" % engine, killed

    def ended():
        job = Followed(new_folder(root, os.path.basename(undisturbed) + " ended"), env(), *options)
        job.wait_for("is kept: ")
        job.process.send_signal(signal.SIGTERM)
        code = job.process.wait(LIMIT)
        assert code == 75, (code, job.logs()[-6000:])
        wait_until("the end of trainer 1", lambda: not os.path.exists("/proc/%d" % pid(job.folder, "trainer.1")), 60)
        again = Followed(job.folder, env(), *options)
        again.finish()
        assert model(job.folder) == model(undisturbed), "other bits\n" + again.logs()[-6000:]

    yield "--on %s: a signal ends the job, the same command goes on to the same bits" % engine, ended


@contextlib.contextmanager
def ray_cluster(folder):
    """A cluster of this machine; yields its address."""
    port, program = free_port(), os.path.join(os.path.dirname(sys.executable), "ray")
    command = [program, "start", "--head", "--block", "--num-cpus", "8", "--port", str(port)]
    command += ["--include-dashboard", "false", "--node-ip-address", "127.0.0.1", "--temp-dir", folder]
    with open(os.path.join(folder, "out"), "wb") as log:
        head = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
    try:
        address = "127.0.0.1:%d" % port
        ask = [program, "status", "--address", address]
        up = lambda: subprocess.run(ask, env=environment(), capture_output=True).returncode == 0  # noqa: E731
        wait_until("Ray", up, 90)
        yield address
    finally:
        head.terminate()
        try:
            head.wait(30)
        except subprocess.TimeoutExpired:
            head.kill()
            head.wait()


def ray_checks(root):
    # Ray's sockets have long names below its folder.
    with tempfile.TemporaryDirectory(prefix="r") as folder, ray_cluster(folder) as address:
        yield from follow_checks(root, "ray", lambda: environment(RAY_ADDRESS=address), "--cpus", "1")

        def full():
            env = environment(RAY_ADDRESS="127.0.0.1:%d" % free_port())
            code, said = run(["paddlewheel", "launch_ps", "--on", "ray", RECOVERING], new_folder(root, "no ray"), env)
            assert code == 1 and "RAY_ADDRESS" in said, said

        yield "--on ray: a cluster that is not there", full


def mpi_checks(root, mpirun):
    name = os.path.basename(mpirun)
    command = [mpirun, "-np", "4"]
    own = lambda **more: environment(PADDLE_PORT=str(free_port()), **more)  # noqa: E731
    yield name + ": -np 4", lambda: learns(command, new_folder(root, name), own())
    meets = ["env", "PADDLE_MASTER=127.0.0.1:%d" % free_port()]
    folder = new_folder(root, name + " master")
    yield name + ": ranks that meet at PADDLE_MASTER", lambda: learns([*command, *meets], folder, environment())
    flags = {"FLAGS_snapshot_dir": "snapshots", "FLAGS_snapshot_secs": "0.2"}
    job = [*command, "paddlewheel", "run", RECOVERING, "sync", STEPS, "model"]
    undisturbed = new_folder(root, name + " whole")

    def whole():
        os.mkdir(os.path.join(undisturbed, "snapshots"))
        hurry(undisturbed)
        code, said = run(job, undisturbed, own(**flags))
        assert code == 0, said

    yield name + ": a job with snapshots", whole

    def killed():
        folder, env = new_folder(root, name + " killed"), own(**flags)
        os.mkdir(os.path.join(folder, "snapshots"))
        with open(os.path.join(folder, "log"), "wb") as log:
            process = subprocess.Popen(job, cwd=folder, env=env, stdout=log, stderr=log)
        log = lambda: open(os.path.join(folder, "log"), errors="replace").read()  # noqa: E731
        wait_until("a snapshot", lambda: "is kept: " in log(), 60)
        os.kill(pid(folder, "trainer.1"), signal.SIGKILL)
        assert process.wait(60) != 0, "mpirun says nothing of a killed rank\n" + log()
        hurry(folder)
        code, said = run(job, folder, env)
        assert code == 0, said
        assert model(folder) == model(undisturbed), "other bits\n" + said

    yield name + ": a killed rank ends the job, and the same command goes on to the same bits", killed
    yield from follow_checks(root, "mpi", environment, "--mpirun", mpirun)


def checks(root):
    """Name and function of each check; a function of None is skipped, with a reason in the name."""
    daemons = ["munged", "slurmctld", "slurmd", "srun", "sbatch"]
    missing = [name for name in daemons if shutil.which(name, path=environment()["PATH"]) is None]
    if missing or os.getuid() != 0:
        yield "slurm: needs root and %s" % (" ".join(missing) or "root"), None
    else:
        yield from slurm_checks(root)
    for name in ("mpirun.openmpi", "mpirun.mpich"):
        path = shutil.which(name)
        if path is None:
            yield "%s: not installed (apt-get install openmpi-bin mpich)" % name, None
        else:
            yield from mpi_checks(root, path)
    if importlib.util.find_spec("ray") is None:
        yield "ray: not installed (pip install ray)", None
    else:
        yield from ray_checks(root)


def main():
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory())
        for name, check in checks(root):
            word, why = "ok", ""
            if check is None:
                word = "skip"
            else:
                try:
                    check()
                except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                    word, why = "FAIL", str(error)
            counts[word] += 1
            print("%-4s %s" % (word, name), flush=True)
            if why:
                print("     " + why[-4000:].replace("\n", "\n     "), flush=True)
    print("ENGINES checks=%d failed=%d skipped=%d" % (counts["ok"] + counts["FAIL"], counts["FAIL"], counts["skip"]))
    sys.exit(bool(counts["FAIL"]))


if __name__ == "__main__":
    main()
