"""Mistakes on the command line, and jobs that end otherwise than meant: the words of the launcher."""

import os
import re
import signal

import pytest

from clusters import LIMIT, free_port, wait_until
from mistakes import has_all, has_no_panic

OK = "print('through')\n"
WAITS = "import time\nprint('started', flush=True)\ntime.sleep(1000)\n"

#: Command line, exit code, words.
LINES = {
    "no sub-command": ([], 2, ["Usage: paddlewheel <COMMAND>", "launch_ps"]),
    "a sub-command with a typing error": (
        ["lanch_ps", "train.py"],
        2,
        ["unrecognized subcommand 'lanch_ps'", "tip: ", "'launch_ps'"],
    ),
    "a sub-command that nobody has": (["evaluate"], 2, ["unrecognized subcommand 'evaluate'", "Usage"]),
    "run without a script": (["run"], 2, ["required arguments were not provided", "<SCRIPT>"]),
    "no script": (["launch_ps"], 2, ["required arguments were not provided", "<SCRIPT>", "Usage: paddlewheel launch_ps"]),
    "a script that is not there": (["launch_ps", "trian.py"], 1, ["cannot find trian.py"]),
    "an option with a typing error": (
        ["launch_ps", "--woker_num", "2", "train.py"],
        2,
        ["unexpected argument '--woker_num'", "a similar argument exists: '--worker_num'"],
    ),
    "an option of the other launcher": (
        ["launch", "--worker_num", "2", "train.py"],
        2,
        ["unexpected argument '--worker_num'"],
    ),
    "an option without a value": (["launch_ps", "--worker_num"], 2, ["a value is required for '--worker_num <N>'"]),
    "a number as a word": (
        ["launch_ps", "--server_num", "two", "train.py"],
        2,
        ["'two' for '--server_num <N>'", "a number from 0 to 10000"],
    ),
    "a port that is none": (
        ["launch_ps", "--start_port", "99999", "train.py"],
        2,
        ["'99999' for '--start_port <P>'", "a port from 1 to 65535"],
    ),
    "no servers": (["launch_ps", "--server_num", "0", "train.py"], 2, ["at least one server"]),
    "no workers": (["launch_ps", "--worker_num", "0", "train.py"], 2, ["at least one trainer"]),
    "the address of another machine": (
        ["launch_ps", "--node_ip", "192.0.2.7", "train.py"],
        1,
        ["192.0.2.7 (from --node_ip)", "not an address of this machine", "a launcher on each machine"],
    ),
    "end points of other machines": (
        ["launch_ps", "--endpoints", "192.0.2.7:6170", "train.py"],
        1,
        ["192.0.2.7 (from --endpoints)", "not an address of this machine", "--node_ip"],
    ),
    "a machine that is not one of the job's": (
        ["launch_ps", "--cluster_node_ips", "10.0.0.1,10.0.0.2", "--node_ip", "10.0.0.3", "train.py"],
        2,
        ["--node_ip 10.0.0.3 is not one of the nodes 10.0.0.1,10.0.0.2"],
    ),
    "a host that nobody knows": (
        ["launch_ps", "--endpoints", "no-such-host.invalid:6170", "train.py"],
        1,
        ["`no-such-host.invalid` cannot be resolved", "--endpoints", "give its address"],
    ),
    "one end point twice": (
        ["launch_ps", "--endpoints", "127.0.0.1:7170,127.0.0.1:7170", "train.py"],
        2,
        ["--endpoints names 127.0.0.1:7170 twice", "a port of its own"],
    ),
    "an end point without a port": (
        ["launch_ps", "--endpoints", "127.0.0.1", "train.py"],
        2,
        ["`127.0.0.1` is not an end point", "`host:port`"],
    ),
    "another number of servers than end points": (
        ["launch_ps", "--server_num", "2", "--endpoints", "127.0.0.1:7170", "train.py"],
        2,
        ["--server_num is 2", "--endpoints names 1"],
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_command_line(child, tmp_path, line):
    arguments, code, words = LINES[line]
    (tmp_path / "train.py").write_text(OK)
    result = child("-m", "paddlewheel", *arguments)
    assert result.returncode == code, result.stderr
    has_all(result.stderr, words)
    has_no_panic(result.stderr, result.stdout)
    assert not (tmp_path / "logs").exists(), "nothing was started"


def test_a_port_that_is_taken(child, tmp_path):
    import socket

    (tmp_path / "train.py").write_text(OK)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        line = ["launch_ps", "--endpoints", "127.0.0.1:%d" % port, "train.py"]
        result = child("-m", "paddlewheel", *line)
    assert result.returncode == 1
    has_all(result.stderr, ["port %d is in use" % port, "give another with --endpoints"])


def test_both_versions_are_told(child):
    said = child("-m", "paddlewheel", "--version").stdout
    assert re.fullmatch(r"paddlewheel \d+\.\d+\.\d+, answers to Fluid 1\.8\.5\n", said), said


def start(cluster, name, script, *options):
    """Starts a launcher in the folder of the test; waits until its worker has started."""
    (cluster.folder / "train.py").write_text(script)
    options = ["--worker_num", "1", "--server_num", "1", *options]
    cluster.start(name, "-m", "paddlewheel", "launch_ps", *options, "train.py")


def test_two_jobs_do_not_write_into_each_others_logs(cluster):
    """Even if both name the same folder."""
    start(cluster, "first", WAITS, "--log_dir", "logs")
    log = cluster.folder / "logs" / "workerlog.0"
    wait_until("the first job", lambda: log.exists() and "started" in log.read_text(), LIMIT, cluster.logs)
    start(cluster, "second", OK.replace("through", "second"), "--log_dir", "logs")
    wait_until("a line", lambda: "those of this one go to" in cluster.log("second"), LIMIT, cluster.logs)
    folder = re.search(r"go to (logs/job\.\d+)\n", cluster.log("second")).group(1)
    other = cluster.folder / folder / "workerlog.0"
    wait_until("the second job", lambda: other.exists() and other.read_text(), LIMIT, cluster.logs)
    assert other.read_text() == "second\n" and log.read_text() == "started\n"


SERVES = """
import os, time
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
fleet.init(role_maker.PaddleCloudRoleMaker())
x = fluid.data("x", [None, 2])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), fluid.DistributeTranspilerConfig()).minimize(loss)
print("pid", os.getpid(), flush=True)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    time.sleep(1000)
"""


def test_a_server_that_somebody_ends_is_to_blame(cluster):
    start(cluster, "launcher", SERVES)
    log = cluster.folder / "logs" / "serverlog.0"
    so = lambda: log.exists() and "Server listening" in log.read_text()  # noqa: E731
    wait_until("the server", so, LIMIT, cluster.logs)
    os.kill(int(re.search(r"pid (\d+)", log.read_text()).group(1)), signal.SIGTERM)
    said = cluster.expect("launcher", 1, limit=LIMIT)
    assert re.search(r"server 0 \(pid \d+\) was ended by a signal from outside of this job", said), said
    assert "worker 0 (pid" not in said
    assert "this server ends because it was told to by signal 15 (SIGTERM)" in said
