"""A job gets another number of servers while it runs, or when it is started again; its model has the bits of a job that had that number from
the start."""

import os
import re
import signal

import pytest
from test_recovery import Job, job  # noqa: F401  (a fixture)


def calm(job, name, n_servers, **variables):  # noqa: F811
    """The files and observations of a job that has this number of servers all the time."""
    calm = job(name, "sync", snapshots=False, n_servers=n_servers, **variables)
    calm.finish()
    return calm.saved()


def scale(scaled, n_servers, code=0):
    """Asks for another number of servers; returns the output of the command."""
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", str(n_servers))
    assert scaled.cluster.wait("scale") == code, scaled.logs()
    return scaled.cluster.log("scale")


def took_over(scaled, log):
    """Bytes that a new server had read, and put into its tables, before the old ones had ended, and after."""
    found = re.search(r"of which (\d+) bytes were read before and (\d+) now", scaled.log(log))
    assert found, scaled.logs()
    return int(found[1]), int(found[2])


def keep_waiting(scaled, server):
    """A new server does not begin until the file is removed, so no trainer turns to the others, which stand by."""
    file = scaled.folder / ("no_turn.%d" % server)
    file.touch()
    return file


def standing_by(job):  # noqa: F811
    """A job of which a new server stands by, and the file that keeps another one from its turn."""
    scaled = job("scaled", "sync", PACE="0.02")
    scaled.wait_for_step(30, n_cuts=1)
    held = keep_waiting(scaled, 0)
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", "3")
    scaled.wait_for("standing by", lambda: "stands by" in scaled.log("serverlog.2.1"))
    return scaled, held


def trainers(job):  # noqa: F811
    return [job.pid("trainer.%d" % rank) for rank in (0, 1)]


@pytest.mark.parametrize("before, after, variables", [(2, 3, {}), (3, 1, {}), (2, 3, {"PLAIN": "1"}), (3, 2, {"PLAIN": "1"})])
def test_a_running_job_gets_another_number_of_servers(job, before, after, variables):  # noqa: F811
    scaled = job("scaled", "sync", n_servers=before, **variables)
    scaled.wait_for_step(60, n_cuts=1)
    living = trainers(scaled)
    assert "the job has %d servers" % after in scale(scaled, after), scaled.logs()
    scaled.finish()
    # They did not wait for the old ones to end before they filled their tables.
    before, now = took_over(scaled, "serverlog.0.1")
    assert before > now, scaled.logs()
    assert not list((scaled.folder / "snapshots").glob("standby.*"))
    assert trainers(scaled) == living, scaled.logs()
    assert "the job has %d servers now" % after in scaled.log("workerlog.1"), scaled.logs()
    assert scaled.saved() == calm(job, "calm", after, **variables), scaled.logs()


def test_a_job_that_changed_its_size_survives_deaths_and_changes_it_again(job):  # noqa: F811
    scaled = job("scaled", "sync", PACE="0.02")
    scaled.wait_for_step(20)
    scale(scaled, 3)
    scaled.signal("trainer.0")
    scaled.wait_for_step(60)
    scaled.signal("server.2")
    scaled.wait_for_step(100)
    scale(scaled, 1)
    scaled.signal("trainer.1")
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 1), scaled.logs()


@pytest.mark.parametrize("victim", ["trainer.0", "server.0"])
def test_who_dies_while_the_size_changes_is_started_again(job, victim):  # noqa: F811
    scaled = job("scaled", "sync", PACE="0.01")
    scaled.wait_for_step(60, n_cuts=1)
    pid = scaled.pid(victim)
    held = keep_waiting(scaled, 2)
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", "3")
    scaled.wait_for("standing by", lambda: "stands by" in scaled.log("serverlog.0.1"))
    os.kill(pid, signal.SIGKILL)
    held.unlink()
    assert scaled.cluster.wait("scale") == 0, scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 3), scaled.logs()


def test_a_trainer_with_the_list_of_the_old_servers_finds_the_new_ones(job):  # noqa: F811
    """It is started again before the old servers have ended, and looks for servers after that."""
    scaled = job("scaled", "sync", PACE="0.01")
    scaled.wait_for_step(60, n_cuts=1)
    start, turn = scaled.folder / "no_start.0", keep_waiting(scaled, 2)
    start.touch()
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", "3")
    scaled.wait_for("standing by", lambda: "stands by" in scaled.log("serverlog.0.1"))
    os.kill(scaled.pid("trainer.0"), signal.SIGKILL)
    scaled.wait_for("its next start", (scaled.folder / "held.0").exists)
    turn.unlink()
    scaled.wait_for("their turn", (scaled.folder / "snapshots" / "servers").exists)
    start.unlink()
    assert scaled.cluster.wait("scale") == 0, scaled.logs()
    scaled.finish()
    assert "the servers of the job are others now" in scaled.log("workerlog.0"), scaled.logs()
    assert scaled.saved() == calm(job, "calm", 3), scaled.logs()


def test_the_same_command_goes_on_with_a_job_that_changed_its_size(job):  # noqa: F811
    """The launcher dies when the list names the new servers: some of them may not have taken over everything."""
    scaled = job("scaled", "sync", PACE="0.01")
    scaled.wait_for_step(60, n_cuts=1)
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", "3")
    scaled.wait_for("their turn", (scaled.folder / "snapshots" / "servers").exists)
    scaled.cluster.signal("launcher", signal.SIGKILL)
    scaled.cluster.wait("launcher")
    scaled.cluster.wait("scale")
    scaled.start()
    scaled.wait_for("the launcher", lambda: not (scaled.folder / "snapshots" / "servers").exists())
    assert "the job has 3 servers already" in scale(scaled, 3), scaled.logs()
    assert "the job has 1 servers" in scale(scaled, 1), scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 1), scaled.logs()


def test_an_answer_to_an_earlier_request_is_none_to_this_one(job):  # noqa: F811
    """A launcher that was just started has not changed anything, and does not say that it has."""
    scaled = job("scaled", "sync", PACE="0.01")
    scaled.wait_for_step(20, n_cuts=1)
    folder = scaled.folder / "snapshots"
    (folder / "scale").write_text("servers 3 request %032x\n" % 5)
    (folder / "scale.answer").write_text("request %032x done the job has 3 servers\n" % 7)
    scaled.cluster.signal("launcher", signal.SIGKILL)
    scaled.cluster.wait("launcher")
    scaled.start()
    scaled.wait_for("the launcher", lambda: not (folder / "scale").exists())
    assert "the job has 1 servers" in scale(scaled, 1), scaled.logs()
    assert "servers 1\n" in (folder / "job").read_text()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 1), scaled.logs()


def test_who_dies_while_it_stands_by_leaves_nothing(job):  # noqa: F811
    scaled, held = standing_by(job)
    aside = scaled.folder / "snapshots" / "standby.server.2"
    assert list(aside.glob("base.*")), scaled.logs()
    os.kill(scaled.pid("server.2"), signal.SIGKILL)
    assert scaled.cluster.wait("scale") == 1, scaled.logs()
    assert "the job keeps its servers: a new server failed" in scaled.cluster.log("scale"), scaled.logs()
    held.unlink()
    assert not list((scaled.folder / "snapshots").glob("standby.*"))
    assert "the job has 1 servers" in scale(scaled, 1), scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 1), scaled.logs()


def test_a_new_server_that_dies_at_its_turn_takes_over_again(job):  # noqa: F811
    scaled = job("scaled", "sync", PACE="0.01")
    scaled.wait_for_step(60, n_cuts=1)
    scaled.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", "3")
    scaled.wait_for("their turn", (scaled.folder / "snapshots" / "servers").exists)
    os.kill(scaled.pid("server.2"), signal.SIGKILL)
    assert scaled.cluster.wait("scale") == 0, scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 3), scaled.logs()


def test_a_launcher_that_dies_while_servers_stand_by_goes_on_without_them(job):  # noqa: F811
    scaled, held = standing_by(job)
    scaled.cluster.signal("launcher", signal.SIGKILL)
    scaled.cluster.wait("launcher")
    assert scaled.cluster.wait("scale") == 1, scaled.logs()
    assert list((scaled.folder / "snapshots").glob("standby.*")), "they are left over"
    held.unlink()
    scaled.start()
    scaled.finish()
    assert not list((scaled.folder / "snapshots").glob("standby.*"))
    assert scaled.saved() == calm(job, "calm", 2), scaled.logs()


def test_new_servers_that_fail_change_nothing(job):  # noqa: F811
    scaled = job("scaled", "sync")
    scaled.wait_for_step(60)
    (scaled.folder / "no_servers").touch()
    assert "the job keeps its servers: a new server failed" in scale(scaled, 3, code=1), scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(job, "calm", 2), scaled.logs()


@pytest.mark.parametrize("before, after", [(2, 3), (3, 2)])
def test_a_job_goes_on_with_another_number_of_servers(job, before, after):  # noqa: F811
    resumed = job("resumed", "sync", n_servers=before)
    resumed.wait_for_step(60, n_cuts=1)
    resumed.cluster.signal("launcher", signal.SIGTERM)
    assert resumed.cluster.wait("launcher") == 75, resumed.logs()
    resumed.n_servers = after
    resumed.start("--resume", "snapshots")
    resumed.finish()
    assert resumed.saved() == calm(job, "calm", after), resumed.logs()
