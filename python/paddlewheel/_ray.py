"""Processes of a job on a Ray cluster, for `launch_ps --on ray`.

    _ray.py place NAME SERVERS TRAINERS CPUS SECONDS    reserves room, prints where servers may listen, keeps
                                                        the room until its input ends
    _ray.py run SERVERS script [arguments]              runs one process of the job in an actor, prints what
                                                        it says and ends as it does

The launcher decides what is started, and when again; this only passes it on to Ray, which is Python.
"""

import os
import signal
import sys
import time

#: Seconds between two looks at an actor that has nothing to say.
PAUSE = 0.05
#: Seconds within which a cluster answers.
ANSWER = 10
#: Variables that a process of the job needs, by the beginnings of their names.
OURS = ("PADDLE", "FLAGS_", "TRAINING_ROLE", "POD_IP", "PYTHON", "GLOG_", "OMP_")


def connect():
    """Joins the cluster of RAY_ADDRESS, or the one of this machine."""
    import socket

    import ray

    address = os.environ.get("RAY_ADDRESS", "auto")
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        # Ray itself would try for minutes.
        socket.create_connection((host, int(port)), ANSWER).close()
    ray.init(address=address, namespace="paddlewheel", logging_level="ERROR", log_to_driver=False)
    return ray


def free_place(_):
    """An address of this machine, and a free port."""
    import socket

    import ray

    host = ray.util.get_node_ip_address()
    with socket.socket() as one:
        one.bind((host, 0))
        return host, one.getsockname()[1]


def place(name, n_servers, n_trainers, cpus, limit):
    """Reserves room for all processes."""
    try:
        ray = connect()
    except (ImportError, OSError) as error:
        address = os.environ.get("RAY_ADDRESS", "auto")
        print("the cluster of Ray at RAY_ADDRESS={} cannot be reached: {}".format(address, error))
        return 1
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    bundles = [{"CPU": cpus}] * (n_servers + n_trainers)
    group = ray.util.placement_group(bundles, strategy="SPREAD", name=name)
    if not group.wait(limit):
        has = ray.cluster_resources().get("CPU", 0)
        text = "Ray has no room for {} processes with {} processors each; the cluster has {:g} processors"
        print(text.format(len(bundles), cpus, has))
        return 1
    look = ray.remote(num_cpus=cpus)(free_place)
    found = [
        look.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at)).remote(at)
        for at in range(n_servers)
    ]
    for host, port in ray.get(found):
        print("server {}:{}".format(host, port))
    print("ready", flush=True)
    sys.stdin.read()
    return 0


class Process:
    """A process of the job, inside of an actor. It ends with the actor."""

    def __init__(self, command, folder, variables):
        import ctypes
        import subprocess

        kill_with_parent = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # noqa: E731
        environment = dict(os.environ, **variables)
        pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.child = subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=kill_with_parent, **pipe)
        os.set_blocking(self.child.stdout.fileno(), False)

    def look(self):
        """Its output since the last look, and its exit code if it has ended."""
        code = self.child.poll()
        text = self.child.stdout.read()
        return text or b"", code

    def end(self):
        """Asks it to end."""
        self.child.send_signal(signal.SIGTERM)


def run(n_servers, command):
    """Runs a process of the job in its part of the reservation; returns its exit code."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    ray = connect()
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.get_placement_group("paddlewheel-{}".format(os.getppid()))
    is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
    at = int(os.environ["PADDLE_PSERVER_ID"]) if is_server else n_servers + int(os.environ["PADDLE_TRAINER_ID"])
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at)
    cpus = group.bundle_specs[at]["CPU"]
    actor = ray.remote(Process).options(num_cpus=cpus, scheduling_strategy=strategy, max_restarts=0)
    variables = {name: value for name, value in os.environ.items() if name.startswith(OURS)}
    process = actor.remote(command, os.getcwd(), variables)
    try:
        while True:
            if asked:
                asked.clear()
                ray.get(process.end.remote())
            text, code = ray.get(process.look.remote())
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
            if code is not None:
                return code
            if not text:
                time.sleep(PAUSE)
    except ray.exceptions.RayActorError as error:
        print("the actor of this process is gone:", error, flush=True)
        return -signal.SIGKILL


def main(arguments):
    """Returns the exit code; one that is killed is told by the same signal."""
    if arguments[0] == "place":
        return place(arguments[1], *map(int, arguments[2:]))
    script = arguments[2:]
    command = [sys.executable, "-u", *script] if script[0].endswith(".py") else script
    code = run(int(arguments[1]), command)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
