"""Passes over datasets: training, printing, handlers, and errors."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import conftest
import paddlewheel.fluid as fluid

RECORD = "\tlod: {}\n\tdim: 1\n\tlayout: NCHW\n\tdtype: float\n\tdata: ["


def line(at):
    a, b = at % 7 / 7, at % 3 / 3
    return "2 {} {} 1 {}\n".format(a, b, 2 * a - b)


@pytest.fixture
def files(tmp_path):
    """Two files of 40 samples."""
    for part in range(2):
        (tmp_path / "part-{}".format(part)).write_text("".join(map(line, range(part, part + 40))))
    return [str(tmp_path / "part-0"), str(tmp_path / "part-1")]


def linear(files, threads=1, kind="QueueDataset"):
    """y = fc(x), trained by SGD; returns the loss and a dataset of batches of 4."""
    x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 1])
    zero = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
    loss = fluid.layers.reduce_mean(
        fluid.layers.square_error_cost(fluid.layers.fc(x, 1, param_attr=zero), y)
    )
    fluid.optimizer.SGD(0.1).minimize(loss)
    dataset = fluid.DatasetFactory().create_dataset(kind)
    dataset.set_use_var([x, y])
    dataset.set_batch_size(4)
    dataset.set_thread(threads)
    dataset.set_filelist(files)
    return loss, dataset


def started():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe


def weights():
    return np.array(fluid.global_scope().find_var("w").get_tensor()).ravel()


@pytest.mark.parametrize("threads", [1, 2])
def test_trains_on_every_sample(files, threads):
    _, dataset = linear(files, threads)
    exe = started()
    for _ in range(40):
        assert exe.train_from_dataset(fluid.default_main_program(), dataset) is None
        assert exe.last_pass[:2] == (20, 80) and len(exe.last_pass[3]) == threads
    assert np.abs(weights() - [2, -1]).max() < 0.05


def test_samples_in_memory_are_trained_on_again_and_again(files):
    _, dataset = linear(files, 2, "InMemoryDataset")
    exe = started()
    with pytest.raises(RuntimeError, match="load_into_memory"):
        exe.train_from_dataset(dataset=dataset)
    dataset.load_into_memory()
    for _ in range(40):
        dataset.local_shuffle()
        exe.train_from_dataset(dataset=dataset)
    assert np.abs(weights() - [2, -1]).max() < 0.05


def test_prints_as_fluid_does(files, capsys):
    loss, dataset = linear(files)
    exe = started()
    exe.train_from_dataset(
        dataset=dataset, fetch_list=[loss], fetch_info=["Epoch 0 loss "], print_period=7
    )
    records = capsys.readouterr().out.split("Epoch 0 loss \t{}\t".format(loss.name))
    assert records[0] == "" and len(records) == 3, "batches 7 and 14 of 20"
    for record in records[1:]:
        assert record.startswith(RECORD) and record.endswith("]\n\t\n")
        assert float(record[len(RECORD) : -4]) > 0
    exe.train_from_dataset(dataset=dataset, fetch_list=[loss])
    assert capsys.readouterr().out == "", "fewer batches than print_period"
    exe.train_from_dataset(dataset=dataset, fetch_list=[loss], print_period=20)
    assert capsys.readouterr().out.startswith("{0}\t{0}\t".format(loss.name))


def test_debug_says_where_the_time_goes(files, capsys):
    _, dataset = linear(files)
    dataset.set_batch_size(1)
    dataset.set_filelist(files * 3)
    started().train_from_dataset(dataset=dataset, debug=True)
    said = capsys.readouterr().err
    assert "[mul], op_mean_time:[" in said and "mean read time: " in said
    assert "IO percent: " in said and " instances/s" in said


def test_a_handler_gets_values(files):
    loss, dataset = linear(files)
    seen = []

    class Handler(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            seen.append((threading.current_thread(), res_dict))

    block = fluid.default_main_program().global_block()
    handler = Handler({"w": block.var("w"), "loss": loss}, period_secs=1)
    started().train_from_dataset(dataset=dataset, fetch_handler=handler)
    thread, values = seen[-1]
    assert thread is threading.main_thread()
    assert values["w"].ravel().tolist() == weights().tolist() and values["loss"].shape == (1,)


def test_what_a_handler_raises_ends_the_pass(files):
    loss, dataset = linear(files)

    class Handler(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        started().train_from_dataset(dataset=dataset, fetch_handler=Handler({"loss": loss}))


def test_infers_on_every_sample(files):
    loss, dataset = linear(files, 2)
    test_program = fluid.default_main_program().clone(for_test=True)._prune([loss])
    exe = started()
    exe.infer_from_dataset(test_program, dataset)
    assert exe.last_pass[1] == 80 and weights().tolist() == [0, 0]


def test_auc_counts_every_sample_of_every_thread(tmp_path):
    names = []
    for part in range(4):
        names.append(str(tmp_path / str(part)))
        rows = ["2 {} {} 1 {}\n".format(at % 9 / 9, 1 - at % 9 / 9, at % 2) for at in range(100)]
        (tmp_path / str(part)).write_text("".join(rows))
    guess, label = fluid.data("guess", [None, 2]), fluid.data("label", [None, 1], "int64")
    _, _, states = fluid.layers.auc(guess, label)
    dataset = fluid.DatasetFactory().create_dataset()
    dataset.set_use_var([guess, label])
    dataset.set_batch_size(3)
    dataset.set_thread(4)
    dataset.set_filelist(names)
    started().train_from_dataset(dataset=dataset)
    counts = [np.array(fluid.global_scope().find_var(v.name).get_tensor()).sum() for v in states[2:]]
    assert counts == [200, 200]


def test_inference_counts_from_zero_and_leaves_the_counters_of_training(tmp_path, capsys):
    (tmp_path / "train").write_text("2 0.9 0.1 1 1\n2 0.1 0.9 1 0\n" * 50)
    (tmp_path / "held-out").write_text("".join(
        "2 {} {} 1 {}\n".format(1 - at % 10 / 10, at % 10 / 10, int(at % 10 > 4 or at % 20 == 2))
        for at in range(100)
    ))
    guess, label = fluid.data("guess", [None, 2]), fluid.data("label", [None, 1], "int64")
    area, _, states = fluid.layers.auc(guess, label)
    mean = fluid.layers.reduce_mean(fluid.layers.cast(label, "float32"))
    dataset = fluid.DatasetFactory().create_dataset()
    dataset.set_use_var([guess, label])
    dataset.set_batch_size(7)
    dataset.set_filelist([str(tmp_path / "train")])
    exe = started()
    exe.train_from_dataset(dataset=dataset)
    counts = lambda: [np.array(fluid.global_scope().find_var(v.name).get_tensor()) for v in states]
    before = counts()
    fluid.io.save_persistables(exe, str(tmp_path / "model"))
    started()
    fluid.io.load_persistables(exe, str(tmp_path / "model"))
    dataset.set_filelist([str(tmp_path / "held-out")])
    metrics = {"AUC": area, "clicks": mean, "guess": guess}
    for _ in range(2):
        got = exe.infer_from_dataset(
            dataset=dataset, fetch_list=metrics.values(), fetch_info=metrics.keys()
        )
        p, y = np.arange(100) % 10, (np.arange(100) % 10 > 4) | (np.arange(100) % 20 == 2)
        pairs = p[y][:, None] - p[~y][None, :]
        assert got[0][0] == pytest.approx(((pairs > 0) + (pairs == 0) / 2).mean(), abs=1e-9)
        assert got[1][0] == pytest.approx(y.mean()) and got[2].shape == (100, 2)
        said = capsys.readouterr().out
        assert said.count("AUC\t") == 1 and said.count("clicks\t") == 1 and "guess" not in said
        assert all((a == b).all() for a, b in zip(before, counts()))
    # A script that sets the counters to zero has them continue from there, as in Fluid.
    for state in states:
        tensor = fluid.global_scope().find_var(state.name).get_tensor()
        tensor.set(np.zeros(tensor.shape(), "int64"), fluid.CPUPlace())
    exe.infer_from_dataset(dataset=dataset)
    assert [one.sum() for one in counts()[2:]] == [55, 45]


def test_refuses_what_cannot_be(files):
    loss, dataset = linear(files)
    exe = started()
    for wrong in (None, 1, files):
        with pytest.raises(RuntimeError, match="dataset is need and should be initialized"):
            exe.train_from_dataset(dataset=wrong)
    with pytest.raises(AssertionError):
        exe.train_from_dataset(dataset=dataset, fetch_list=[loss], fetch_info=["a", "b"])
    with pytest.raises(fluid.core.EnforceNotMet, match="nowhere"):
        exe.train_from_dataset(dataset=dataset, fetch_list=["nowhere"])
    exe.close()
    with pytest.raises(RuntimeError, match="closed Executor"):
        exe.train_from_dataset(dataset=dataset)


def test_parameters_that_were_never_filled_are_named(files):
    _, dataset = linear(files, 2)
    with pytest.raises(fluid.core.EnforceNotMet, match="startup"):
        fluid.Executor().train_from_dataset(dataset=dataset)


ENDLESS = """
import paddlewheel.fluid as fluid
x = fluid.data("x", [None, 2])
fluid.layers.mean(x)
dataset = fluid.DatasetFactory().create_dataset()
dataset.set_use_var([x])
dataset.set_pipe_command("while :; do echo 2 1 1; done")
dataset.set_thread(2)
dataset.set_filelist(["/dev/null", "/dev/zero"])
print("ready", flush=True)
fluid.Executor().train_from_dataset(dataset=dataset)
"""


def test_ctrl_c_ends_a_pass_and_its_commands():
    paths = [conftest.PACKAGES, os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))),
    )
    assert process.stdout.readline() == b"ready\n"
    deadline = time.monotonic() + 30
    while not children(process.pid):
        assert time.monotonic() < deadline, "no command was started"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0 and b"KeyboardInterrupt" in said, said


def children(pid):
    """Processes that a process has started."""
    listed = pathlib.Path("/proc/{}/task".format(pid)).glob("*/children")
    return "".join(path.read_text() for path in listed).split()
