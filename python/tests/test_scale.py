"""A job gets another number of servers while it runs, or when it is started again; its model has the bits of a job that had that number from
the start."""

import signal

import pytest
from test_recovery import Job, job  # noqa: F401  (a fixture)


def calm(job, name, n_servers):  # noqa: F811
    """What a job saves and sees that has this number of servers all the time."""
    calm = job(name, "sync", snapshots=False, n_servers=n_servers)
    calm.finish()
    return calm.saved()


@pytest.mark.parametrize("before, after", [(2, 3), (3, 1)])
def test_a_running_job_gets_another_number_of_servers(job, before, after):  # noqa: F811
    scaled = job("scaled", "sync", n_servers=before)
    scaled.wait_for_step(60)
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", str(after))
    assert scaled.cluster.wait("scale") == 0, scaled.logs()
    assert "the job has %d servers" % after in scaled.cluster.log("scale"), scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", after), scaled.logs()


@pytest.mark.parametrize("before, after", [(2, 3), (3, 2)])
def test_a_job_goes_on_with_another_number_of_servers(job, before, after):  # noqa: F811
    resumed = job("resumed", "sync", n_servers=before)
    resumed.wait_for_step(60, n_cuts=1)
    resumed.cluster.signal("launcher", signal.SIGTERM)
    assert resumed.cluster.wait("launcher") == 0, resumed.logs()
    resumed.n_servers = after
    resumed.start("--resume", "snapshots")
    resumed.finish()
    assert resumed.saved() == calm(job, "calm", after), resumed.logs()
