"""The cases of docs/guides/stuck.md, provoked one by one."""

import contextlib
import os
import re
import socket

from clusters import Relay, free_endpoints, free_port, server_variables, trainer_variables
from conftest import PROGRAMS

SCRIPT = os.path.join(PROGRAMS, "fleet_regression.py")
SOON = {"FLAGS_wait_server_ready_timeout": "2"}


def server(cluster, endpoints, at=0, trainers=1, mode="sync", **more):
    variables = {**server_variables(endpoints, at, trainers), **more}
    cluster.start("server %d" % at, SCRIPT, mode, **variables)


def trainer(cluster, endpoints, at=0, trainers=1, mode="sync", **more):
    variables = {**trainer_variables(endpoints, at, trainers), **more}
    cluster.start("trainer %d" % at, SCRIPT, mode, **variables)


def not_ready(cluster, endpoint):
    """A trainer names the process that it waits for, and gives up in time."""
    log = cluster.expect("trainer 0", 1)
    assert "server not ready, wait 3 sec to retry...\n" in log
    assert "not ready endpoints:['%s']" % endpoint in log
    assert re.search(r"RuntimeError: servers not ready after \d s: %s" % re.escape(endpoint), log)
    return log


def test_a_server_that_is_not_started(cluster):
    endpoints = free_endpoints(1)
    trainer(cluster, endpoints, **SOON)
    not_ready(cluster, endpoints[0])


def test_a_wrong_port_in_the_list(cluster):
    right, wrong = free_endpoints(2)
    server(cluster, [right])
    cluster.wait_for("server 0", "Server listening on " + right)
    trainer(cluster, [wrong], **SOON)
    not_ready(cluster, wrong)


def test_a_host_that_nobody_knows(cluster):
    endpoint = "no-such-host.invalid:6174"
    trainer(cluster, [endpoint], **SOON)
    assert "cannot resolve the host of ['%s']" % endpoint in not_ready(cluster, endpoint)


def test_a_server_that_is_not_in_the_list(cluster):
    endpoints = free_endpoints(1)
    server(cluster, endpoints, PADDLE_PORT="1")
    log = cluster.expect("server 0", 1)
    assert "127.0.0.1:1, which is not one of the servers " + endpoints[0] in log


def test_a_port_that_another_process_has(cluster):
    endpoints = free_endpoints(1)
    with socket.create_server(("127.0.0.1", int(endpoints[0].rpartition(":")[2]))):
        server(cluster, endpoints, FLAGS_rpc_retry_bind_port="1")
        log = cluster.expect("server 0", 1)
    assert "cannot listen on " + endpoints[0] in log


def test_a_proxy_is_said(cluster):
    endpoints = free_endpoints(1)
    server(cluster, endpoints)
    trainer(cluster, endpoints, http_proxy="http://192.0.2.1:3128")
    log = cluster.expect("trainer 0")
    assert "warning: http_proxy set: trainers and servers speak to each other directly" in log
    assert "last " in log, "it trains all the same"
    cluster.expect("server 0")


def test_a_firewall_that_drops_packets(cluster):
    """A port that takes no connection, and does not say so."""
    port = free_port()
    with socket.socket() as silent, contextlib.ExitStack() as others:
        silent.bind(("127.0.0.1", port))
        silent.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(silent.getsockname())
        trainer(cluster, ["127.0.0.1:%d" % port], FLAGS_wait_server_ready_timeout="4")
        not_ready(cluster, "127.0.0.1:%d" % port)


def test_a_trainer_that_is_missing(cluster):
    endpoints = free_endpoints(1)
    server(cluster, endpoints, trainers=2)
    trainer(cluster, endpoints, trainers=2, FLAGS_rpc_deadline="3000")
    log = cluster.expect("trainer 0", 1)
    assert re.search(r"waited \d+ ms for .* from server %s; it waits for trainer 1" % endpoints[0], log), log
    assert "; trainer 1 has not joined the job, and the server is alive" in log and "is away" not in log, log


def test_a_connection_that_is_half_open(cluster):
    """The server's machine is cut off: nothing arrives, and nothing is refused."""
    endpoints = free_endpoints(1)
    relay = Relay(endpoints[0])
    with contextlib.closing(relay):
        server(cluster, endpoints, trainers=2)
        cluster.wait_for("server 0", "Server listening on")
        # The second trainer does not come: the first waits when the connection is cut.
        trainer(cluster, [relay.endpoint], trainers=2)
        cluster.wait_for("server 0", "trainer 0 joined")
        relay.hold()
        log = cluster.expect("trainer 0", 1)
    assert "server %s is gone: no answer for" % relay.endpoint in log, log


def test_programs_that_differ(cluster):
    endpoints = free_endpoints(1)
    server(cluster, endpoints, trainers=2)
    trainer(cluster, endpoints, at=1, trainers=2, mode="geo")
    log = cluster.expect("trainer 1", 1)
    assert "this trainer belongs to another job" in log, log


def test_a_slow_reader_is_seen(child, tmp_path):
    (tmp_path / "part").write_text("1 0.5 1 1.5\n" * 120)
    (tmp_path / "slow.py").write_text(SLOW)
    result = child("-m", "paddlewheel", "run", "slow.py")
    assert result.returncode == 0, result.stderr
    share = re.search(r"IO percent: ([\d.]+)", result.stderr + result.stdout)
    assert share and float(share.group(1)) > 50, result.stderr


SLOW = """
import paddle.fluid as fluid

x = fluid.layers.data("x", [1])
y = fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fluid.optimizer.SGD(0.1).minimize(loss)
dataset = fluid.DatasetFactory().create_dataset()
dataset.set_use_var([x, y])
dataset.set_pipe_command("sleep 2; cat")
dataset.set_batch_size(1)
dataset.set_filelist(["part"])
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
exe.train_from_dataset(fluid.default_main_program(), dataset, debug=True)
"""
