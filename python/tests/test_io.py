"""Files: saved and loaded here, and those that Fluid 1.8.5 wrote."""

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import paddlewheel.fluid as fluid
from conftest import saved_in
from paddlewheel.fluid import io

GOLDEN = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "testing", "golden", "files"
)
FIT = os.path.join(GOLDEN, "fit")


def model():
    """A linear model with momentum, run once through its startup program."""
    x = fluid.layers.data("x", [13])
    y = fluid.layers.data("y", [1])
    predict = fluid.layers.fc(x, 1)
    error = predict - y
    loss = fluid.layers.mean(error * error)
    fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, predict


def tensor(name):
    return fluid.global_scope().find_var(name).get_tensor()


def value(name):
    return np.array(tensor(name))


def put(name, number):
    tensor(name).set(np.full_like(value(name), number))


PARAMS = ["fc_0.b_0", "fc_0.w_0"]
STATE = ["fc_0.b_0_velocity_0", "fc_0.w_0_velocity_0", "learning_rate_0"]


def test_each_variable_has_a_file(tmp_path):
    exe, _ = model()
    put("fc_0.w_0", 2.0)
    assert io.save_persistables(exe, str(tmp_path / "all")) is None
    assert saved_in(tmp_path / "all") == sorted(PARAMS + STATE)
    io.save_params(exe, str(tmp_path / "params"))
    assert saved_in(tmp_path / "params") == PARAMS
    assert (tmp_path / "params" / "fc_0.w_0").stat().st_size == 78
    put("fc_0.w_0", 0.0)
    io.load_persistables(exe, tmp_path / "all")
    assert (value("fc_0.w_0") == 2.0).all()


def test_one_file_for_all(tmp_path):
    exe, _ = model()
    before = value("fc_0.w_0")
    io.save_params(exe, str(tmp_path), filename="params")
    assert saved_in(tmp_path) == ["params"]
    put("fc_0.w_0", 0.0)
    io.load_params(exe, str(tmp_path), filename="params")
    np.testing.assert_array_equal(value("fc_0.w_0"), before)


def test_without_a_directory_there_are_bytes():
    exe, _ = model()
    before = value("fc_0.w_0")
    saved = io.save_params(exe, None)
    assert isinstance(saved, bytes)
    put("fc_0.w_0", 0.0)
    io.load_params(exe, None, filename=saved)
    np.testing.assert_array_equal(value("fc_0.w_0"), before)
    with pytest.raises(fluid.core.EnforceNotMet):
        io.load_params(exe, None, filename=b"nonsense")


def test_variables_may_be_chosen(tmp_path):
    exe, _ = model()
    weight = fluid.default_main_program().all_parameters()[0]
    io.save_vars(exe, str(tmp_path / "a"), vars=[weight, "fc_0.b_0"])
    assert saved_in(tmp_path / "a") == PARAMS
    io.save_vars(exe, str(tmp_path / "b"), predicate=lambda v: v.name.endswith("velocity_0"))
    assert saved_in(tmp_path / "b") == STATE[:2]
    io.save_vars(exe, str(tmp_path / "c"), vars=[])
    assert not (tmp_path / "c").exists()
    put("fc_0.b_0", 3.0)
    io.load_vars(exe, str(tmp_path / "a"), predicate=lambda v: v.name == "fc_0.b_0")
    assert value("fc_0.b_0") == [0.0]

    def broken(var):
        raise KeyError(var.name)

    with pytest.raises(KeyError):
        io.save_vars(exe, str(tmp_path / "d"), predicate=broken)


def test_saving_refuses(tmp_path):
    exe, predict = model()
    here = str(tmp_path)
    for wrong, error, text in [
        (lambda: io.save_params(None, here), AttributeError, "run"),
        (lambda: io.save_params(exe, 3), TypeError, None),
        (lambda: io.save_params(exe, here, "main"), TypeError, "main_program is invalid"),
        (lambda: io.save_persistables(exe, here, "main"), TypeError, "main_program is invalid"),
        (lambda: io.save_vars(exe, here, predicate=3), TypeError, "callable"),
        (lambda: io.save_vars(exe, here, vars=["nope"]), ValueError, "nope"),
        (lambda: io.save_vars(exe, here, vars=[predict]), RuntimeError, "not initialized"),
        (lambda: io.save_params(exe, here, file="a"), TypeError, "file"),
    ]:
        with pytest.raises(error, match=text):
            wrong()
    with fluid.scope_guard(fluid.Scope()):
        with pytest.raises(fluid.core.EnforceNotMet, match=r"Variable X\(fc_0.b_0\) is not init"):
            io.save_params(exe, here)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        io.save_params(exe, str(tmp_path / "file" / "below"))
    assert saved_in(tmp_path) == ["file"]


def test_loading_refuses(tmp_path):
    exe, _ = model()
    missing = str(tmp_path / "nope")
    with pytest.raises(RuntimeError, match="Load operator fail to open file .*nope/fc_0.b_0"):
        io.load_params(exe, missing)
    with pytest.raises(fluid.core.EnforceNotMet, match="LoadCombine operator fails to open"):
        io.load_params(exe, missing, filename="all")
    io.save_params(exe, str(tmp_path), filename="all")
    with pytest.raises(RuntimeError, match="partial data"):
        io.load_vars(exe, str(tmp_path), vars=["fc_0.w_0"], filename="all")
    with open(tmp_path / "all", "r+b") as file:
        file.truncate(60)
    before = value("fc_0.b_0")
    with pytest.raises(RuntimeError):
        io.load_params(exe, str(tmp_path), filename="all")
    np.testing.assert_array_equal(value("fc_0.b_0"), before)
    with pytest.raises(ValueError, match="without a dirname"):
        io.load_params(exe, None)


def test_a_wrong_shape_is_refused(tmp_path):
    exe, _ = model()
    tensor("fc_0.w_0").set(np.zeros((2, 1), "float32"))
    io.save_params(exe, str(tmp_path))
    with pytest.raises(RuntimeError, match="Variable's shape does not match"):
        io.load_params(exe, str(tmp_path))


def test_an_inference_model_predicts_the_same(tmp_path):
    exe, predict = model()
    rows = np.random.RandomState(0).rand(5, 13).astype("float32")
    loss_feed = {"x": rows, "y": np.zeros((5, 1), "float32")}
    test = fluid.default_main_program().clone(for_test=True)
    (expected,) = exe.run(test, feed=loss_feed, fetch_list=[predict.name])
    n_ops = len(fluid.default_main_program().global_block().ops)
    fetches = io.save_inference_model(str(tmp_path), ["x"], [predict], exe)
    assert fetches == ["save_infer_model/scale_0.tmp_0"]
    assert len(fluid.default_main_program().global_block().ops) == n_ops
    assert saved_in(tmp_path) == ["__model__"] + PARAMS
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = io.load_inference_model(str(tmp_path), exe)
        assert feeds == ["x"] and [target.name for target in targets] == fetches
        (found,) = exe.run(program, feed={feeds[0]: rows}, fetch_list=targets)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_file_names_of_a_model(tmp_path):
    exe, predict = model()
    save = io.save_inference_model
    save(str(tmp_path), "x", predict, exe, model_filename="m", params_filename="p")
    assert saved_in(tmp_path) == ["m", "p"]
    loaded = io.load_inference_model(str(tmp_path), exe, "m", "p")
    assert isinstance(loaded, list) and len(loaded) == 3
    with pytest.warns(UserWarning, match="program_only"):
        save(str(tmp_path / "only"), ["x"], [predict], exe, program_only=True)
    assert saved_in(tmp_path / "only") == ["__model__"]
    save(str(tmp_path / "train"), ["x"], [predict], exe, export_for_deployment=False)
    assert "__model__.main_program" in saved_in(tmp_path / "train")


def test_models_refuse(tmp_path):
    exe, predict = model()
    save, here = io.save_inference_model, str(tmp_path)
    for wrong, error, text in [
        (lambda: save(here, [3], [predict], exe), ValueError, "'feed_var_names' should be"),
        (lambda: save(here, ["x"], ["fc_0.tmp_1"], exe), ValueError, "'target_vars' should be"),
        (lambda: save(here, ["xx"], [predict], exe), ValueError, "xx"),
        (lambda: save(here, ["x"], [predict], exe, "main"), TypeError, "main_program is invalid"),
        (lambda: save(here, ["x"], [predict], None), AttributeError, "run"),
        (lambda: io.load_inference_model(here + "/nope", exe), ValueError, "no directory named"),
        (lambda: io.load_inference_model(here, exe), FileNotFoundError, "__model__"),
    ]:
        with pytest.raises(error, match=text):
            wrong()
    (tmp_path / "__model__").write_bytes(b"\xff\xff\xff")
    with pytest.raises(RuntimeError, match="__model__"):
        io.load_inference_model(here, exe)


def test_parameters_by_name():
    exe, predict = model()
    main = fluid.default_main_program()
    weight = main.all_parameters()[0]
    np.testing.assert_array_equal(io.get_parameter_value(weight, exe), value("fc_0.w_0"))
    assert io.get_parameter_value_by_name("fc_0.b_0", exe) == [0.0]
    with pytest.raises(AssertionError, match="not parameter"):
        io.get_parameter_value(predict, exe)
    with pytest.raises(ValueError, match="nope"):
        io.get_parameter_value_by_name("nope", exe)
    names = lambda found: sorted(var.name for var in found)
    assert names(io.get_program_parameter(main)) == PARAMS
    assert names(io.get_program_persistable_vars(main)) == sorted(PARAMS + STATE)


def test_pickled_state(tmp_path):
    exe, _ = model()
    main, prefix = fluid.default_main_program(), str(tmp_path / "s" / "model")
    put("fc_0.w_0", 2.0)
    fluid.save(main, prefix)
    assert saved_in(tmp_path / "s") == ["model.pdmodel", "model.pdopt", "model.pdparams"]
    with open(prefix + ".pdparams", "rb") as file:
        assert (pickle.load(file, encoding="latin1")["fc_0.w_0"] == 2.0).all()
    put("fc_0.w_0", 0.0)
    fluid.load(main, prefix + ".pdparams", exe)
    assert (value("fc_0.w_0") == 2.0).all()
    state = fluid.load_program_state(prefix)
    assert sorted(state) == sorted(PARAMS + STATE)
    state["fc_0.w_0"][:] = 5.0
    fluid.set_program_state(main, state)
    assert (value("fc_0.w_0") == 5.0).all()
    with pytest.warns(UserWarning, match="There are: other"):
        fluid.set_program_state(main, {"other": np.zeros(1)})


def test_pickled_state_refuses(tmp_path):
    exe, _ = model()
    main, prefix = fluid.default_main_program(), str(tmp_path / "model")
    fluid.save(main, prefix)
    shape = {"fc_0.w_0": np.zeros((2, 1), "float32")}
    dtype = {"fc_0.w_0": np.zeros((13, 1), "float64")}
    for wrong, error, text in [
        (lambda: fluid.save(main, str(tmp_path) + "/"), AssertionError, "directory/name"),
        (lambda: fluid.save(3, prefix), TypeError, "main_program"),
        (lambda: fluid.load(main, str(tmp_path / "zz"), exe), FileNotFoundError, "zz.pdparams"),
        (lambda: fluid.load(main, prefix, 3), AttributeError, "run"),
        (lambda: fluid.load_program_state(str(tmp_path / "zz")), FileNotFoundError, "zz"),
        (lambda: fluid.set_program_state(main, 3), TypeError, None),
        (lambda: fluid.set_program_state(main, {"fc_0.w_0": 3}), TypeError, "arrays"),
        (lambda: fluid.set_program_state(main, shape), AssertionError, "shape does not match"),
        (lambda: fluid.set_program_state(main, dtype), AssertionError, "type does not match"),
    ]:
        with pytest.raises(error, match=text):
            wrong()
    with fluid.scope_guard(fluid.Scope()):
        with pytest.raises(AssertionError, match="make sure run startup program"):
            fluid.set_program_state(main, {})
    os.remove(prefix + ".pdopt")
    with pytest.raises(AssertionError, match="Optimizer file .* not exits"):
        fluid.load(main, prefix)
    with open(prefix + ".pdparams", "wb") as file:
        pickle.dump({}, file, protocol=2)
    with pytest.raises(RuntimeError, match="model.pdparams: .* were saved, but .* are there"):
        fluid.load(main, prefix)
    os.remove(str(tmp_path / ".paddlewheel"))
    with pytest.raises(AssertionError, match="Can not find"):
        fluid.load(main, prefix)


def test_load_takes_what_the_other_functions_saved(tmp_path):
    exe, _ = model()
    main = fluid.default_main_program()
    put("fc_0.w_0", 2.0)
    io.save_params(exe, str(tmp_path / "dir"))
    io.save_params(exe, str(tmp_path), filename="all")
    for path, vars in [("dir", None), ("all", main.all_parameters()), ("all", PARAMS)]:
        put("fc_0.w_0", 0.0)
        fluid.load(main, str(tmp_path / path), exe, vars)
        assert (value("fc_0.w_0") == 2.0).all()
        assert sorted(fluid.load_program_state(str(tmp_path / path), vars)) == PARAMS
    with pytest.raises(ValueError, match="var_list"):
        fluid.load(main, str(tmp_path / "all"), exe)
    with pytest.raises(ValueError, match="var_list"):
        fluid.load_program_state(str(tmp_path / "all"))


def test_files_of_fluid_load():
    exe, _ = model()
    io.load_persistables(exe, os.path.join(FIT, "separate"))
    separate = value("fc_0.w_0")
    assert np.abs(separate).sum() > 0
    put("fc_0.w_0", 0.0)
    io.load_persistables(exe, os.path.join(FIT, "combined"), filename="all.bin")
    np.testing.assert_array_equal(value("fc_0.w_0"), separate)
    put("fc_0.w_0", 0.0)
    fluid.load(fluid.default_main_program(), os.path.join(FIT, "pickled", "model"), exe)
    np.testing.assert_array_equal(value("fc_0.w_0"), separate)
    state = fluid.load_program_state(os.path.join(FIT, "params"))
    np.testing.assert_array_equal(state["fc_0.w_0"], separate)


@pytest.mark.parametrize(
    "folder, names", [("inference", ()), ("inference_combined", ("model.bin", "params.bin"))]
)
def test_models_of_fluid_predict(folder, names):
    exe = fluid.Executor(fluid.CPUPlace())
    program, feeds, targets = io.load_inference_model(os.path.join(FIT, folder), exe, *names)
    rows = np.random.RandomState(1).rand(3, 13).astype("float32")
    (found,) = exe.run(program, feed={feeds[0]: rows}, fetch_list=targets)
    expected = rows.dot(value("fc_0.w_0")) + value("fc_0.b_0")
    np.testing.assert_allclose(found, expected, rtol=1e-5)


FULL_DISK = """
import os, resource
import paddlewheel.fluid as fluid

x = fluid.data("x", [None, 300])
fluid.layers.fc(x, 300, param_attr="large", bias_attr="small")
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fluid.io.save_persistables(exe, "model")
saved = open("model/large", "rb").read()
exe.run(fluid.default_startup_program())
# Larger files cannot be written from now on, as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
try:
    fluid.io.save_persistables(exe, "model")
except OSError as error:
    print(error)
assert open("model/large", "rb").read() == saved
assert sorted(os.listdir("model")) == [".paddlewheel", "large", "small"]
assert os.path.isfile("model/.paddlewheel")
"""


def test_a_full_disk_is_an_error_and_the_old_file_stays(child):
    ended = child("-c", FULL_DISK)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("cannot write model/large: "), ended.stdout


def test_other_programs_find_only_files_that_they_can_load(tmp_path):
    """Programs take each folder in a model's folder for an epoch, and each file for a variable."""
    exe, _ = model()
    for epoch in range(2):
        io.save_persistables(exe, str(tmp_path / "increment" / str(epoch)))
        io.save_persistables(exe, str(tmp_path / "increment" / str(epoch)))
    epochs = [name for name in os.listdir(str(tmp_path / "increment"))]
    assert sorted(epochs) == ["0", "1"]
    for epoch in epochs:
        folder = tmp_path / "increment" / epoch
        assert not [path for path in folder.rglob("*") if path.is_dir()]
        names = [path.name for path in folder.iterdir()]
        block = fluid.Program().global_block()
        for name in names:
            var = block.create_var(name=name, persistable=True)
            io.load_vars(exe, str(folder), vars=[var])
        assert ".paddlewheel" not in fluid.load_program_state(str(folder))
        again = tmp_path / "again" / epoch
        io.save_persistables(exe, str(again), block.program)
        assert sorted(path.name for path in again.iterdir()) == sorted(names)


KILLED = """
import resource, signal
import paddlewheel.fluid as fluid

x = fluid.data("x", [None, 300])
fluid.layers.fc(x, 300, param_attr="large", bias_attr="small")
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fluid.io.save_persistables(exe, "model")
# The system ends the process in the middle of a file.
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
fluid.io.save_persistables(exe, "model")
"""


def test_programs_that_list_a_folder_do_not_see_what_a_killed_save_left(child, tmp_path):
    """Neither those that take each folder for an epoch, nor those that load each file."""
    ended = child("-c", KILLED)
    assert ended.returncode == -signal.SIGXFSZ, ended.stderr
    model = tmp_path / "model"
    for folder in (model, tmp_path):
        assert [path.name for path in folder.iterdir() if path.is_dir() and path != model] == []
    assert sorted(path.name for path in model.iterdir()) == [".paddlewheel", "large", "small"]
    saved = (model / "large").read_bytes()
    assert sorted(fluid.load_program_state(str(model))) == ["large", "small"]
    for path in model.iterdir():
        main = fluid.Program()
        var = main.global_block().create_var(name=path.name, persistable=True, dtype="float32")
        fluid.io.load_vars(fluid.Executor(fluid.CPUPlace()), str(model), main, vars=[var])
    assert (model / "large").read_bytes() == saved
    # The next save removes it; that may be one of another test, which has the same place.
    torn = ".paddlewheel.saving-*/stage-*/file.large"
    for _ in range(5):
        left = [file for path in tmp_path.parents for file in path.glob(torn) if file.stat().st_size == 100000]
        if left:
            break
        assert child("-c", KILLED).returncode == -signal.SIGXFSZ
    assert left, "nothing was left to be found"
    assert child("-c", KILLED.partition("# The system")[0]).returncode == 0
    assert not [file for file in left if file.exists()]


def saved_model(folder, **files):
    x = fluid.layers.data("x", [4])
    out = fluid.layers.fc(fluid.layers.fc(x, 2), 2)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    io.save_inference_model(str(folder), ["x"], [out], exe, **files)
    return exe


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_model_in_other_files_is_loaded_with_their_names(tmp_path, is_listed):
    together, alone, named = tmp_path / "together", tmp_path / "alone", tmp_path / "named"
    exe = saved_model(together, params_filename="all.params")
    saved_model(alone)
    saved_model(named, model_filename="net", params_filename="weights")
    for folder in (together, alone, named):
        if not is_listed:
            (folder / ".paddlewheel").unlink()

    def refused(folder, **files):
        with pytest.raises(Exception) as error:
            io.load_inference_model(str(folder), exe, **files)
        assert "damaged" not in str(error.value)
        return str(error.value)

    said = refused(together)
    assert "It has __model__, all.params." in said and 'params_filename="all.params"' in said
    assert 'params_filename="all.params"' in refused(together, params_filename="other")
    said = refused(alone, params_filename="all.params")
    assert ".w_0, fc_" in said and "load without params_filename" in said
    said = refused(named)
    assert "The folder has net, weights" in said and "model_filename=" in said
    assert 'params_filename="weights"' in refused(named, model_filename="net")
    for folder, files in [(together, {"params_filename": "all.params"}), (alone, {})]:
        assert io.load_inference_model(str(folder), exe, **files)[1] == ["x"]


def test_variables_in_one_file_are_loaded_with_its_name(tmp_path):
    exe = saved_model(tmp_path / "model")
    io.save_persistables(exe, str(tmp_path / "all"), filename="everything")
    with pytest.raises(Exception, match='filename="everything"'):
        io.load_persistables(exe, str(tmp_path / "all"))


#: Saves again and again, each time other numbers; prints which save is done.
SAVES = """
import itertools, numpy, sys
import paddlewheel.fluid as fluid
main = fluid.Program()
names = ["v%d" % k for k in range(20)] + ["inner/v"]
for name in names:
    main.global_block().create_var(name=name, shape=[1000], persistable=True, dtype="float32")
exe = fluid.Executor(fluid.CPUPlace())
for turn in itertools.count():
    for name in names:
        fluid.global_scope().var(name).get_tensor().set(numpy.full([1000], turn, "float32"), fluid.CPUPlace())
    fluid.io.save_persistables(exe, "model", main)
    print(turn, flush=True)
"""


def test_no_moment_of_a_save_shows_a_folder(tmp_path):
    """Programs take each folder inside a model's folder for an epoch, also after a kill."""
    model = tmp_path / "model"
    n_left = 0
    for turn in range(25):
        saving = subprocess.Popen([sys.executable, "-c", SAVES], cwd=str(tmp_path), stdout=subprocess.PIPE, text=True)
        done = int(saving.stdout.readline())
        # Kills at other moments of the second save, some hundred times as many as there are changes of the disk.
        seen, until = set(), time.monotonic() + 0.001 * turn
        while time.monotonic() < until:
            seen |= {entry.name for entry in os.scandir(model) if entry.is_dir()}
        saving.kill()
        done += len(saving.stdout.read().split())
        saving.wait()
        entries = list(os.scandir(model))
        seen |= {entry.name for entry in entries if entry.is_dir()}
        assert seen <= {"inner"}, seen
        ours = {entry.name for entry in entries} - {"inner", ".paddlewheel"} - {"v%d" % k for k in range(20)}
        assert all(name.startswith(".paddlewheel.commit.") for name in ours), ours
        n_left += bool(ours)
        state = io.load_program_state(str(model))
        assert len({float(value[0]) for name, value in state.items() if not name.startswith(".")}) == 1
        assert sorted(entry.name for entry in os.scandir(model) if entry.name.startswith(".")) == [".paddlewheel"]
    assert n_left < 25
