"""Jobs on several machines; here each of them is an address of this one."""

import os

import pytest

from clusters import Cluster, free_port
from conftest import HERE

JOB = os.path.join(HERE, "jobs", "recovering.py")
HOSTS = ("127.0.0.2", "127.0.0.3")


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def test_a_machine_that_comes_back_after_the_end_does_not_wait_for_the_others(cluster, tmp_path):
    port = free_port(*HOSTS)
    (tmp_path / "hurry").touch()

    def launch(host):
        where = ["--cluster_node_ips", ",".join(HOSTS), "--node_ip", host, "--start_port", str(port)]
        command = ["-m", "paddlewheel", "launch_ps", *where, "--worker_num", "1", "--server_num", "1"]
        folders = ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.2", "--log_dir", "logs"]
        cluster.start(host, *command, *folders, JOB, "sync", "40", "model")

    for host in HOSTS:
        launch(host)
    for host in HOSTS:
        assert cluster.wait(host) == 0, cluster.logs()
    # It died before it could note that the job has finished.
    (tmp_path / "snapshots" / "finished.127.0.0.3").unlink()
    launch(HOSTS[1])
    assert cluster.wait(HOSTS[1]) == 0, cluster.logs()
    assert "the job is over" in cluster.log(HOSTS[1]), cluster.logs()
    assert (tmp_path / "snapshots" / "finished.127.0.0.3").exists()
