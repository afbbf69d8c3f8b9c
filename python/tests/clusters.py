"""Real processes on free ports with logs to wait for; whatever happens, none is left behind."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["paddlewheel"].__file__)))
ALIAS = os.path.join(PACKAGES, "paddlewheel", "_alias")
#: Long enough for two slow cores; a longer wait is a failure.
LIMIT = 60

# Below the ports that the system gives to outgoing connections; processes begin at different places.
_ports = itertools.count(os.getpid() * 7919)


def free_port(*hosts):
    """A free port at these addresses; no two calls give the same."""
    for at in itertools.islice(_ports, 20000):
        port = 10000 + at % 20000
        if all(_is_free(host, port) for host in hosts or ("127.0.0.1",)):
            return port
    raise AssertionError("no free port")


def _is_free(host, port):
    with socket.socket() as taken:
        try:
            taken.bind((host, port))
        except OSError:
            return False
        return True


def free_endpoints(n):
    """Free end points of 127.0.0.1."""
    return ["127.0.0.1:%d" % free_port() for _ in range(n)]


def is_alive(pid):
    """Whether a process runs; one that has ended and was not asked for is gone."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until(what, so, limit=LIMIT, context=str):
    """Waits until something is so; returns it."""
    deadline = time.monotonic() + limit
    while True:
        found = so()
        if found:
            return found
        assert time.monotonic() < deadline, "not within %s s: %s\n%s" % (limit, what, context())
        time.sleep(0.01)


class Cluster:
    """The processes of a test, by name, each at the head of a group of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        shims = folder / "bin"
        shims.mkdir()
        python = shims / "python"
        python.write_text('#!/bin/sh\nexec "%s" "$@"\n' % sys.executable)
        python.chmod(0o755)

    def start(self, name, *arguments, **variables):
        """Starts Python; its output goes to its log."""
        self._start(name, [sys.executable, "-u", *arguments], variables)

    def shell(self, name, text, **variables):
        """Runs lines of a shell in which `python` is this Python."""
        self._start(name, ["/bin/sh", "-c", text], variables)

    def _start(self, name, command, variables):
        environment = {**os.environ, **variables}
        environment["PYTHONPATH"] = os.pathsep.join([PACKAGES, ALIAS])
        environment["PATH"] = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        environment["PYTHONUNBUFFERED"] = "1"
        with open(self._path(name), "ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                env=environment,
                cwd=str(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _path(self, name):
        return str(self.folder / (name + ".log"))

    def log(self, name):
        """The output of a process so far."""
        with open(self._path(name), errors="replace") as file:
            return file.read()

    def logs(self):
        """The output of all, for the message of a failed test."""
        return "\n".join("--- %s\n%s" % (name, self.log(name)) for name in self.processes)

    def pid(self, name):
        """The number of a process."""
        return self.processes[name].pid

    def wait_for(self, name, text, limit=LIMIT):
        """Waits for a text in a log."""

        def said():
            # Asked before the log is read: the output of an ended process is complete.
            has_ended = self.processes[name].poll() is not None
            if text in self.log(name):
                return True
            assert not has_ended, "%s ended without `%s`\n%s" % (name, text, self.logs())
            return False

        wait_until("`%s` of %s" % (text, name), said, limit, self.logs)

    def wait(self, name, limit=LIMIT):
        """The exit code of a process, as soon as it has ended."""
        process = self.processes[name]
        ended = lambda: process.poll() is not None  # noqa: E731
        wait_until("the end of " + name, ended, limit, self.logs)
        return process.returncode

    def expect(self, name, code=0, limit=LIMIT):
        """Waits for an end with this exit code; returns the log."""
        found = self.wait(name, limit)
        assert found == code, "%s: exit code %s\n%s" % (name, found, self.logs())
        return self.log(name)

    def is_running(self, name):
        """Whether a process has not ended."""
        return self.processes[name].poll() is None

    def signal(self, name, number):
        """Sends a signal to a process alone."""
        self.processes[name].send_signal(number)

    def kill(self, name):
        """`kill -9`."""
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    def close(self):
        """Ends the processes that are left, with all they have started."""
        for process in self.processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def cloud(endpoints, trainers):
    """The variables that all processes of a job share."""
    return {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_TRAINERS_NUM": str(trainers),
    }


def server_variables(endpoints, at, trainers):
    """The variables of a server."""
    host, _, port = endpoints[at].rpartition(":")
    own = {"TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}
    return {**cloud(endpoints, trainers), **own}


def trainer_variables(endpoints, at, trainers):
    """The variables of a trainer."""
    own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(at)}
    return {**cloud(endpoints, trainers), **own}


class Relay:
    """A port that passes bytes on to another one, until it is told to hold back what clients send."""

    def __init__(self, to):
        self._to = to
        self._held = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.n_held = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self):
        """From now on no bytes of clients arrive; those of servers still do."""
        self._held.set()

    def close(self):
        """Takes no more connections."""
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._connect(client)

    def _connect(self, client):
        host, _, port = self._to.rpartition(":")
        try:
            server = socket.create_connection((host, int(port)))
        except OSError:
            # No process listens yet: the client learns that.
            client.close()
            return
        for pair in ((client, server, True), (server, client, False)):
            threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, sink, may_hold):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if may_hold and self._held.is_set():
                    self.n_held += len(data)
                else:
                    sink.sendall(data)
        # Both directions end together, also for the thread that waits in the other one.
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


SHORT_JOB = '''
import numpy, paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

fleet.init(role_maker.PaddleCloudRoleMaker())
loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy()).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    for _ in range(%d):
        exe.run(fleet.main_program, feed={"x": numpy.ones((2, 4), "float32")}, fetch_list=[loss])
    fleet.stop_worker()
'''


def short_job(n_steps):
    """The script of a sync job whose trainers make so many steps."""
    return SHORT_JOB % n_steps
