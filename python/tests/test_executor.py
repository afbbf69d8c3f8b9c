"""Running programs: results, errors, other threads, Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import conftest
import paddlewheel.fluid as fluid


def mean_of_x():
    x = fluid.layers.data("x", [2])
    return x, fluid.layers.mean(x)


def ones(n=3, dtype="float32"):
    return {"x": np.ones((n, 2), dtype)}


def test_fetches_in_order():
    x, mean = mean_of_x()
    exe = fluid.Executor(fluid.CPUPlace())
    value, again = exe.run(feed=ones(), fetch_list=[mean, "x"])
    assert value.tolist() == [1.0] and again.shape == (3, 2)
    assert exe.run(feed=ones()) == []
    assert exe.run(feed=[ones()], fetch_list=mean)[0].tolist() == [1.0]
    (tensor,) = exe.run(feed=ones(), fetch_list=[mean], return_numpy=False)
    assert isinstance(tensor, fluid.LoDTensor)


def test_refuses_wrong_feeds():
    _, mean = mean_of_x()
    exe = fluid.Executor()
    with pytest.raises(TypeError, match="feed requires dict as its Parameter"):
        exe.run(feed=5)
    with pytest.raises(AssertionError, match="Not compiled with data parallel"):
        exe.run(feed=[ones(), ones()])
    with pytest.raises(RuntimeError, match="LoD"):
        exe.run(feed={"x": [[1.0, 2.0]]})
    with pytest.raises((ValueError, RuntimeError)):
        exe.run(feed=ones(dtype="int64"), fetch_list=[mean])
    with pytest.warns(UserWarning, match="The variable z is not found in program"):
        exe.run(feed=dict(ones(), z=np.ones(1)))


def test_names_the_data_that_was_not_fed():
    _, mean = mean_of_x()
    with pytest.raises((ValueError, RuntimeError), match="x"):
        fluid.Executor().run(fetch_list=[mean])


def test_refuses_wrong_fetches_and_programs():
    mean_of_x()
    exe = fluid.Executor()
    with pytest.raises(TypeError, match="The item in fetch_list should be str, variable"):
        exe.run(feed=ones(), fetch_list=[3])
    with pytest.raises(fluid.core.EnforceNotMet, match="nothing"):
        exe.run(feed=ones(), fetch_list=["nothing"])
    with pytest.raises(TypeError, match="Executor requires Program as its Parameter"):
        exe.run("program")


def test_says_when_parameters_are_not_there():
    x, _ = mean_of_x()
    y = fluid.layers.fc(x, 1)
    with pytest.raises(fluid.core.EnforceNotMet, match="fc_0"):
        fluid.Executor().run(feed=ones(), fetch_list=[y])


def test_warns_of_a_program_without_operators():
    with pytest.warns(UserWarning, match="no operators in the program to be executed"):
        assert fluid.Executor().run(fluid.Program()) == []


def test_closed_means_closed():
    exe = fluid.Executor()
    exe.close()
    exe.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Executor"):
        exe.run(fluid.default_startup_program())


def test_cuda_falls_back_with_one_line(child):
    script = "import paddlewheel.fluid as f; [f.Executor(f.CUDAPlace(0)) for _ in range(2)]"
    result = child("-c", script)
    assert result.returncode == 0 and result.stderr.count("no CUDA") == 1


def test_compiled_programs_run():
    _, mean = mean_of_x()
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    compiled.with_data_parallel(loss_name=mean.name, places=[fluid.CPUPlace()])
    exe = fluid.Executor()
    assert exe.run(compiled, feed=ones(), fetch_list=[mean])[0].tolist() == [1.0]
    with pytest.raises(AssertionError, match="Already compiled"):
        compiled.with_data_parallel()
    with pytest.raises(TypeError):
        fluid.CompiledProgram(3)
    parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=mean.name)
    assert parallel.run(feed=ones(), fetch_list=[mean.name])[0].tolist() == [1.0]


def test_a_list_of_feeds_says_how_many_places_there_are(monkeypatch):
    x, mean = mean_of_x()
    words = fluid.layers.data("words", [1], dtype="int64", lod_level=1)
    program = fluid.default_main_program()
    exe = fluid.Executor()
    monkeypatch.delenv("CPU_NUM", raising=False)
    compiled = fluid.CompiledProgram(program).with_data_parallel(loss_name=mean.name)
    zeros = {"x": np.zeros((1, 2), "float32")}
    (value,) = exe.run(compiled, feed=[ones(3), zeros], fetch_list=[mean])
    assert value.tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="same size as places"):
        exe.run(compiled, feed=[ones()] * 3)
    with pytest.raises(TypeError, match="should be a dict"):
        exe.run(compiled, feed=[ones(), 3])
    sequences = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], fluid.CPUPlace())
    parts = [dict(ones(), words=sequences)] * 2
    (joined,) = exe.run(compiled, feed=parts, fetch_list=[words], return_numpy=False)
    assert joined.recursive_sequence_lengths() == [[2, 1, 2, 1]]


def test_bytes_of_other_machines_are_understood():
    _, mean = mean_of_x()
    foreign = {"x": np.full((2, 2), 3, ">f4")}
    assert fluid.Executor().run(feed=foreign, fetch_list=[mean])[0].tolist() == [3.0]
    with pytest.raises(TypeError, match="place"):
        fluid.Executor("cpu")


def test_check_nan_inf_names_the_operator():
    x, mean = mean_of_x()
    fluid.set_flags({"FLAGS_check_nan_inf": True})
    try:
        exe = fluid.Executor()
        with pytest.raises(fluid.core.EnforceNotMet, match="mean"):
            exe.run(feed={"x": np.full((1, 2), np.nan, "float32")}, fetch_list=[mean])
    finally:
        fluid.set_flags({"FLAGS_check_nan_inf": False})


def heavy(layers=40, width=700):
    x = fluid.layers.data("x", [width])
    y = x
    for _ in range(layers):
        y = fluid.layers.fc(y, width, bias_attr=False)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe, fluid.default_main_program(), {"x": np.ones((600, width), "float32")}


def test_other_threads_go_on_during_a_run():
    exe, program, feed = heavy()
    exe.run(program, feed=feed)
    ticks, running = [], threading.Event()
    running.set()

    def tick():
        while running.is_set():
            ticks.append(time.perf_counter())
            program.global_block().ops  # The program can be looked at meanwhile.

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    exe.run(program, feed=feed)
    end = time.perf_counter()
    running.clear()
    thread.join()
    inside = [tick for tick in ticks if start < tick < end]
    assert len(inside) > 10, (len(inside), end - start)


def test_threads_may_share_an_executor():
    _, mean = mean_of_x()
    exe, program, scope = fluid.Executor(), fluid.default_main_program(), fluid.global_scope()
    results = []

    def work():
        for _ in range(50):
            (value,) = exe.run(program, feed=ones(), fetch_list=[mean.name], scope=scope)
            results.append(value.item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [1.0] * 200


ENDLESS = """
import numpy as np
import paddlewheel.fluid as fluid
x = fluid.layers.data("x", [700])
y = x
for _ in range(3000):
    y = fluid.layers.fc(y, 700, param_attr="w", bias_attr=False)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.ones((600, 700), "float32")}
print("running", flush=True)
while True:
    exe.run(feed=feed)
"""


def test_ctrl_c_ends_a_run_in_the_middle():
    environment = dict(os.environ)
    paths = [conftest.PACKAGES, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "running\n"
    threading.Event().wait(1.5)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, errors = process.communicate(timeout=30)
    # The run alone would take 1.7 Tflop, some twenty seconds of a core.
    assert time.monotonic() - start < 5.0
    assert process.returncode != 0 and "KeyboardInterrupt" in errors, errors
