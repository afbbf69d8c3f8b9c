"""Predictions in a process without servers, from whatever a job saved."""

import os
import sys

import numpy as np
import pytest

from clusters import Cluster
from conftest import HERE
from paddlewheel import fluid

JOBS = os.path.join(HERE, "jobs")
SCRIPT = os.path.join(JOBS, "predicting.py")
sys.path.insert(0, JOBS)
import predicting  # noqa: E402

FEEDS = predicting.SLOTS + ["dense"]


@pytest.fixture(scope="module", params=["sync", "async"])
def saved(request, tmp_path_factory):
    """The files that a job of two servers and two workers saved."""
    folder = str(tmp_path_factory.mktemp("predicting"))
    cluster = Cluster(tmp_path_factory.mktemp("job"))
    try:
        sizes = ("--server_num", "2", "--worker_num", "2")
        cluster.start("job", "-m", "paddlewheel", "launch_ps", *sizes, SCRIPT, folder, request.param)
        cluster.expect("job")
    finally:
        cluster.close()
    return folder


def feed(name):
    known = {"known": lambda: predicting.batch(0), "unknown": lambda: predicting.batch(1, unknown=True)}
    made = known[name]()
    del made["label"]
    return made


def own(saved):
    return np.load(saved + "/own.npz")


@pytest.mark.parametrize("ids", ["known", "unknown"])
@pytest.mark.parametrize("model", ["model", "one", "fleet"])
def test_an_inference_model_predicts_what_the_job_predicts(saved, model, ids):
    exe = fluid.Executor(fluid.CPUPlace())
    file = "all" if model == "one" else None
    with fluid.scope_guard(fluid.core.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(
            os.path.join(saved, model), exe, params_filename=file
        )
        assert feeds == FEEDS
        (got,) = exe.run(program, feed=feed(ids), fetch_list=fetches)
    np.testing.assert_allclose(got, own(saved)[ids], atol=1e-6)


def local_net():
    """The net again, with a program for tests."""
    _, _, _, predict, _ = predicting.net()
    return fluid.default_main_program().clone(for_test=True)._prune([predict]), predict


@pytest.mark.parametrize("ids", ["known", "unknown"])
@pytest.mark.parametrize("how", ["persistables", "combined", "state", "load"])
def test_persistables_predict_what_the_job_predicts(saved, how, ids):
    program, predict = local_net()
    exe = fluid.Executor(fluid.CPUPlace())
    folder = saved + "/persistables"
    with fluid.scope_guard(fluid.core.Scope()):
        if how == "persistables":
            fluid.io.load_persistables(exe, folder, program)
        elif how == "combined":
            # Beside the variables of the net, the file has those of the optimizer.
            everything = fluid.Program()
            with fluid.program_guard(everything, fluid.Program()), fluid.unique_name.guard():
                loss = predicting.net()[-1]
                fluid.optimizer.Adam(0.01).minimize(loss)
            fluid.io.load_persistables(exe, saved + "/combined", everything, filename="all")
        elif how == "state":
            state = fluid.io.load_program_state(folder)
            users = state["users"]
            assert users.shape == (2**40, 8) and 0 < len(users) < 2000
            assert users[users.ids].tolist() == users.rows.tolist()
            for var in program.list_vars():
                if var.persistable and var.name in state and var.name not in ("users", "rares", "drawns", "words"):
                    fluid.global_scope().var(var.name).get_tensor().set(state[var.name], fluid.CPUPlace())
            with pytest.warns(UserWarning):
                fluid.io.set_program_state(program, state)
        else:
            fluid.load(program, folder, exe)
        (got,) = exe.run(program, feed=feed(ids), fetch_list=[predict])
    np.testing.assert_allclose(got, own(saved)[ids], atol=1e-6)


def test_a_model_has_no_optimizer_state(saved):
    for model in ("model", "one", "fleet"):
        names = [name for _, _, files in os.walk(os.path.join(saved, model)) for name in files]
        wrong = [name for name in names if "moment" in name or "pow_acc" in name or "WAITING" in name]
        assert names and not wrong


def test_a_loaded_model_is_saved_again(saved, tmp_path):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(saved + "/model", exe)
        fluid.io.save_inference_model(str(tmp_path / "again"), feeds, fetches, exe, program)
    with fluid.scope_guard(fluid.core.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path / "again"), exe)
        (got,) = exe.run(program, feed=feed("unknown"), fetch_list=fetches)
        with pytest.raises(Exception, match="kept by rows"):
            fluid.save(program, str(tmp_path / "state"))
    np.testing.assert_allclose(got, own(saved)["unknown"], atol=1e-6)


def test_a_model_whose_rows_are_damaged_says_so(saved, tmp_path):
    import shutil

    folder = str(tmp_path / "model")
    shutil.copytree(saved + "/model", folder)
    path = folder + "/__lookup_table__/users_0of2"
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff\xff\xff")
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()), pytest.raises(Exception, match="users_0of2"):
        fluid.io.load_inference_model(folder, exe)
