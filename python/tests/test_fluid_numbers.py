"""Numbers of Fluid 1.8.5, recorded from it, where ours once differed in silence."""

import subprocess
import sys

import numpy
import pytest

import paddlewheel.fluid as fluid
from paddlewheel.fluid import clip, layers, optimizer

X = numpy.array([[1, 2], [-1, 0.5]], "float32")


@pytest.fixture(autouse=True)
def alone():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        with fluid.scope_guard(fluid.Scope()):
            yield


def executor():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe


SCHEDULES = {
    "noam": (lambda: layers.noam_decay(100, 10, 1.0), [0.003162, 0.006325, 0.009487]),
    "exponential": (lambda: layers.exponential_decay(0.1, 1, 0.5), [0.1, 0.05, 0.025]),
    "natural": (lambda: layers.natural_exp_decay(0.1, 1, 0.5), [0.1, 0.060653, 0.036788]),
    "inverse": (lambda: layers.inverse_time_decay(0.1, 1, 0.5), [0.1, 0.066667, 0.05]),
    "polynomial": (lambda: layers.polynomial_decay(0.1, 10, 0.01, 1.0), [0.1, 0.091, 0.082]),
    "cycle": (lambda: layers.polynomial_decay(0.1, 2, 0.01, 1.0, cycle=True), [0.1, 0.055, 0.01]),
    "piecewise": (lambda: layers.piecewise_decay([1, 3], [0.1, 0.05, 0.025]), [0.1, 0.05, 0.05]),
    "cosine": (lambda: layers.cosine_decay(0.1, 2, 10), [0.1, 0.1, 0.097553]),
    "warmup": (lambda: layers.linear_lr_warmup(0.1, 3, 0.01, 0.1), [0.01, 0.04, 0.07]),
    "both": (
        lambda: layers.linear_lr_warmup(layers.exponential_decay(0.1, 1, 0.5), 3, 0.01, 0.1),
        [0.01, 0.04, 0.07],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("way", ["program", "parsed", "compiled", "saved"])
def test_evaluating_does_not_advance_the_learning_rate(name, way, tmp_path):
    schedule, expected = SCHEDULES[name]
    x = layers.data("x", [2])
    loss = layers.mean(layers.fc(x, 1, param_attr=fluid.initializer.Constant(0.5)))
    rate = schedule()
    optimizer.SGD(rate).minimize(loss)
    main = fluid.default_main_program()
    test = main
    if way == "parsed":
        test = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    test = test.clone(for_test=True)
    assert [op.type for op in test.global_block().ops] == ["mul", "elementwise_add", "mean"]
    assert test.num_blocks == 1
    used = {"fc_0.b_0", "fc_0.tmp_0", "fc_0.tmp_1", "fc_0.w_0", "mean_0.tmp_0", "x"}
    assert set(test.global_block().vars) == used
    exe, fetch = executor(), [loss.name]
    if way == "compiled":
        test = fluid.CompiledProgram(test).with_data_parallel(places=fluid.cpu_places(2))
    if way == "saved":
        fluid.io.save_inference_model(str(tmp_path), ["x"], [loss], exe)
        test, _, fetch = fluid.io.load_inference_model(str(tmp_path), exe)
        assert "increment" not in [op.type for op in test.global_block().ops]
    rates = []
    for _ in range(3):
        rates.append(exe.run(main, {"x": X}, [rate])[0][0])
        for _ in range(3):
            exe.run(test, {"x": X}, fetch)
    numpy.testing.assert_allclose(rates, expected, rtol=1e-4)


def test_without_a_gradient_of_a_loss_nothing_is_left_out():
    layers.mean(layers.fc(layers.data("x", [2]), 1))
    layers.exponential_decay(0.1, 1, 0.5)
    main = fluid.default_main_program()
    kinds = [op.type for op in main.global_block().ops]
    assert [op.type for op in main.clone(for_test=True).global_block().ops] == kinds


def test_a_clone_for_testing_stays_a_part_of_its_job():
    # Blocks that only a schedule needs go; the program apart from its blocks stays.
    loss = layers.mean(layers.fc(layers.data("x", [2]), 1))
    optimizer.SGD(layers.piecewise_decay([1], [0.1, 0.05])).minimize(loss)
    main = fluid.default_main_program()
    main.random_seed = 7
    assert main.num_blocks > 1
    assert main.clone(for_test=True).random_seed == 7


@pytest.mark.parametrize(
    "begin, step, expected",
    [(1, 1, [1, 2, 3]), (1, 2, [2, 4, 6]), (0, 3, [2, 5, 8]), (5, 2, [6, 8, 10]), (10, -1, [8, 7, 6])],
)
def test_step_counters_count_as_in_fluid(begin, step, expected):
    counter = layers.autoincreased_step_counter(begin=begin, step=step)
    exe, main = executor(), fluid.default_main_program()
    assert [int(exe.run(main, fetch_list=[counter])[0][0]) for _ in range(3)] == expected


# Recorded: a ragged slot of ids, one of numbers, a dense one, another of ids.
LINES = [
    "3 0 5 0 2 0.0 1.5 2 0.5 0 1 0",
    "1 0 1 0.0000005 2 0 0 1 7",
    "2 -1 0 3 -0.5 1e-6 -1e-7 2 1 2 2 0 0",
]
DENSE = [0.5, 0, 0, 0, 1, 2]
FED = {
    "InMemoryDataset": {
        "a": ([5, 0, -1], [1, 1, 1]),
        "f": ([1.5, 0, -0.5], [1, 1, 1]),
        "d": (DENSE, None),
        "c": ([0, 7, 0], [1, 1, 1]),
    },
    "QueueDataset": {
        "a": ([0, 5, 0, 0, -1, 0], [3, 1, 2]),
        "f": ([0, 1.5, 5e-7, -0.5, 1e-6, -1e-7], [2, 1, 3]),
        "d": (DENSE, None),
        "c": ([0, 7, 0, 0], [1, 1, 2]),
    },
}


@pytest.mark.parametrize("kind", FED)
@pytest.mark.parametrize("command", ["cat", "exec cat"])
def test_zeros_of_datasets_are_those_of_fluid(kind, command, tmp_path):
    path = tmp_path / "part"
    path.write_text("\n".join(LINES) + "\n")
    slots = [
        layers.data("a", [1], dtype="int64", lod_level=1),
        layers.data("f", [1], dtype="float32", lod_level=1),
        layers.data("d", [2], dtype="float32"),
        layers.data("c", [1], dtype="int64", lod_level=1),
    ]
    dataset = fluid.DatasetFactory().create_dataset(kind)
    dataset.set_use_var(slots)
    dataset.set_batch_size(3)
    dataset.set_pipe_command(command)
    dataset.set_filelist([str(path)])
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
    (batch,) = dataset.batches()
    for name, (values, lengths) in FED[kind].items():
        tensor = batch[name]
        numpy.testing.assert_allclose(numpy.array(tensor).ravel(), values)
        if lengths is not None:
            assert tensor.recursive_sequence_lengths() == [lengths]


def weights(make, prepare=None):
    """The parameters after three steps."""
    with fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup):
            x = layers.data("x", [2])
            start = lambda name, value: fluid.ParamAttr(
                name=name, initializer=fluid.initializer.Constant(value)
            )
            hidden = layers.fc(x, 2, param_attr=start("w1", 0.5), bias_attr=fluid.ParamAttr(name="b1"))
            out = layers.fc(hidden, 1, param_attr=start("w2", -0.3), bias_attr=False)
            loss = layers.mean(layers.square(out - 3.0))
            if prepare is not None:
                prepare()
            make().minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for _ in range(3):
            exe.run(main, {"x": X})
        found = [fluid.global_scope().find_var(name).get_tensor() for name in ("w1", "b1", "w2")]
        return numpy.concatenate([numpy.array(tensor).ravel() for tensor in found])


FTRL = [
    ((0, 0, -0.5), [0.349706, 0.349706, 0.313532, 0.313532, -0.189224, -0.189224, -0.118796, -0.118796]),
    ((0, 0.5, -0.5), [0.349706, 0.349706, 0.313532, 0.313532, -0.189224, -0.189224, -0.118796, -0.118796]),
    ((0.1, 0.5, -0.5), [0.303340, 0.303340, 0.308577, 0.308577, -0.181892, -0.181892, -0.117812, -0.117812]),
    ((0.1, 0, -0.5), [0.303340, 0.303340, 0.308577, 0.308577, -0.181892, -0.181892, -0.117812, -0.117812]),
    ((0.1, 0.5, -0.8), [0.089323, 0.089323, 0.391571, 0.391571, -0.123363, -0.123363, -0.229423, -0.229423]),
]


@pytest.mark.parametrize("settings, expected", FTRL)
def test_ftrl_is_that_of_the_code(settings, expected):
    l1, l2, power = settings
    found = weights(lambda: optimizer.Ftrl(0.1, l1=l1, l2=l2, lr_power=power))
    numpy.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.fixture
def as_documented():
    fluid.set_flags({"FLAGS_as_documented": True})
    yield
    fluid.set_flags({"FLAGS_as_documented": False})


def test_ftrl_is_that_of_the_documents_with_the_flag(as_documented):
    found = weights(lambda: optimizer.Ftrl(0.1, l1=0, l2=0.5))
    documented = [0.271083, 0.271083, 0.303260, 0.303260, -0.180297, -0.180297, -0.120008, -0.120008]
    numpy.testing.assert_allclose(found, documented, atol=2e-6)


UNCLIPPED = [0.442012, 0.442012, 0.520548, 0.520548, 0.051231, 0.051231, 0.396565, 0.396565]
CLIPS = [clip.GradientClipByValue(0.05), clip.GradientClipByNorm(0.1), clip.GradientClipByGlobalNorm(0.1)]


@pytest.mark.parametrize("by", CLIPS, ids=str)
@pytest.mark.parametrize("names", [["w1"], ["w1", "b1"], ["w2"]], ids=str)
def test_a_clip_of_some_parameters_clips_none_and_says_so(by, names):
    with pytest.warns(UserWarning, match="need_clip"):
        found = weights(lambda: optimizer.SGD(0.1), lambda: clip.set_gradient_clip(by, names))
    numpy.testing.assert_allclose(found, UNCLIPPED, atol=2e-6)


def test_the_last_clip_is_that_of_all():
    def prepare():
        clip.set_gradient_clip(clip.GradientClipByGlobalNorm(0.1), ["w1", "w2"])
        clip.set_gradient_clip(clip.GradientClipByNorm(0.05), ["b1"])

    found = weights(lambda: optimizer.SGD(0.1), prepare)
    expected = [0.498886, 0.498886, 0.490029, 0.490029, -0.007308, -0.007308, -0.281309, -0.281309]
    numpy.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_clip_of_some_parameters_with_the_flag(as_documented):
    found = weights(
        lambda: optimizer.SGD(0.1),
        lambda: clip.set_gradient_clip(clip.GradientClipByNorm(0.1), ["w1"]),
    )
    expected = [0.496714, 0.496714, 0.506867, 0.506867, 0.116026, 0.116026, 0.546726, 0.546726]
    numpy.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("steps, expected", [(None, 0.679029), ("int", 0.679029), ("float", 0.563755)])
def test_moving_averages_are_those_of_the_code(steps, expected):
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0))
    loss = layers.mean(layers.fc(layers.data("x", [1]), 1, param_attr=weight, bias_attr=False))
    optimizer.SGD(0.1).minimize(loss)
    if steps is not None:
        steps = layers.cast(layers.autoincreased_step_counter(), steps + "64" if steps == "int" else "float32")
    average = optimizer.ExponentialMovingAverage(0.9, thres_steps=steps)
    average.update()
    exe = executor()
    for _ in range(5):
        exe.run(feed={"x": numpy.ones((1, 1), "float32")})
    with average.apply(exe):
        numpy.testing.assert_allclose(value("w"), [expected], atol=2e-6)


@pytest.mark.parametrize("given", [[], (), None], ids=str)
def test_no_list_of_parameters_is_all_of_them(given):
    loss = layers.mean(layers.fc(layers.data("x", [2]), 1))
    ops, pairs = optimizer.SGD(0.1).minimize(loss, parameter_list=given)
    assert (len(ops), len(pairs)) == (2, 2)


def test_minimizing_what_has_no_parameters_says_so():
    loss = layers.mean(layers.data("x", [2]))
    with pytest.warns(UserWarning, match="no parameter"):
        assert optimizer.SGD(0.1).minimize(loss) == ([], [])


# Batches of two samples with the number of the batch, on four places; recorded.
READ = {
    ("eval", 1): [[0]],
    ("eval", 3): [[0, 1, 2]],
    ("eval", 4): [[0, 1, 2, 3]],
    ("eval", 6): [[0, 1, 2, 3], [4, 5]],
    ("eval", 9): [[0, 1, 2, 3], [4, 5, 6, 7], [8]],
    ("train", 1): [],
    ("train", 6): [[0, 1, 2, 3]],
    ("train", 9): [[0, 1, 2, 3], [4, 5, 6, 7]],
}


@pytest.mark.parametrize("phase, n", READ)
@pytest.mark.parametrize("named", [False, True])
def test_the_last_batches_of_a_loader_on_four_places(phase, n, named):
    x = layers.data("x", [1])
    loader = fluid.io.DataLoader.from_generator([x], capacity=8, iterable=False, drop_last=False)
    weight = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    out = layers.fc(x, 1, param_attr=weight, bias_attr=False)
    loss = layers.mean(out)
    if phase == "train":
        optimizer.SGD(0.0).minimize(loss)
    name = loss.name if named or phase == "train" else None
    places = fluid.cpu_places(4)
    program = fluid.CompiledProgram(fluid.default_main_program())
    program.with_data_parallel(name, places=places)
    batches = lambda: ([numpy.full((2, 1), at, "float32")] for at in range(n))
    loader.set_batch_generator(batches, places=places)
    exe = executor()
    for _ in range(2):
        loader.start()
        read = []
        with pytest.raises(fluid.core.EOFException):
            while True:
                read.append(exe.run(program, fetch_list=[out.name])[0].ravel() * 2)
        loader.reset()
        expected = [numpy.repeat(group, 2) for group in READ[phase, n]]
        assert [group.tolist() for group in read] == [group.tolist() for group in expected]


def two_losses():
    x, z = layers.data("x", [2]), layers.data("z", [2])
    weight = lambda name: fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.5))
    first = layers.mean(layers.fc(x, 1, param_attr=weight("w1"), bias_attr=False))
    second = layers.mean(layers.fc(z, 1, param_attr=weight("w2"), bias_attr=False))
    return first, second


def value(name):
    return numpy.array(fluid.global_scope().find_var(name).get_tensor()).ravel().tolist()


def test_pruning_needs_no_feeds_of_what_is_not_fetched():
    first, _ = two_losses()
    exe = executor()
    (found,) = exe.run(feed={"x": X}, fetch_list=[first], use_prune=True)
    numpy.testing.assert_allclose(found, [0.625])
    with pytest.raises(RuntimeError, match="z"):
        exe.run(feed={"x": X}, fetch_list=[first])
    with pytest.warns(UserWarning, match="pruned"):
        exe.run(feed={"x": X, "z": X}, fetch_list=[first], use_prune=True)


def test_pruning_keeps_what_changes_parameters():
    first, second = two_losses()
    optimizer.SGD(0.1).minimize(first)
    optimizer.SGD(0.1).minimize(second)
    exe = executor()
    exe.run(feed={"x": X, "z": X}, fetch_list=[first], use_prune=True)
    assert value("w1") != [0.5, 0.5] and value("w2") != [0.5, 0.5]


@pytest.mark.parametrize("form", ["pair", "ops"])
@pytest.mark.parametrize("compiled", [False, True])
def test_ops_in_a_fetch_list_are_the_only_ones_that_change_parameters(form, compiled):
    first, second = two_losses()
    pair = optimizer.SGD(0.1).minimize(first)
    optimizer.SGD(0.1).minimize(second)
    exe, program = executor(), fluid.default_main_program()
    if compiled:
        program = fluid.CompiledProgram(program).with_data_parallel(first.name, places=fluid.cpu_places(2))
    ops = pair if form == "pair" else pair[0]
    for _ in range(2):
        (found,) = exe.run(program, feed={"x": X}, fetch_list=[ops, first.name])
    numpy.testing.assert_allclose(value("w1"), [0.5, 0.25], atol=1e-6)
    assert value("w2") == [0.5, 0.5]


def test_pruning_starts_from_what_is_fed():
    first, _ = two_losses()
    hidden = "fc_0.tmp_0"
    exe = executor()
    fed = {hidden: numpy.full((2, 1), 3, "float32")}
    assert exe.run(feed=fed, fetch_list=[first], use_prune=True)[0] == [3.0]
    with pytest.raises(ValueError, match="associated operator"):
        exe.run(feed={"x": X}, fetch_list=["w1"], use_prune=True)
    with pytest.raises(TypeError, match="not an optimize_op"):
        exe.run(feed={"x": X}, fetch_list=[fluid.default_main_program().global_block().ops[0]])


def sum_of_two():
    x, z = layers.data("x", [2]), layers.data("z", [2])
    weight = fluid.initializer.Constant(0.5)
    return layers.fc(layers.elementwise_add(x, z), 1, param_attr=weight, bias_attr=False, name="h")


@pytest.mark.parametrize("feeds", [["x"], "x", []], ids=str)
def test_a_saved_model_that_lacks_a_feed_says_so(feeds, tmp_path):
    out = sum_of_two()
    exe = executor()
    with pytest.warns(UserWarning, match=r"z must be fed to compute"):
        fluid.io.save_inference_model(str(tmp_path), feeds, out, exe)
    program, names, fetch = fluid.io.load_inference_model(str(tmp_path), exe)
    with pytest.raises(RuntimeError, match="was not fed"):
        exe.run(program, {name: X for name in names}, fetch)


def test_a_folder_of_another_net_is_not_damaged(tmp_path):
    sum_of_two()
    exe = executor()
    fluid.io.save_persistables(exe, str(tmp_path), fluid.default_main_program())
    other, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(other, startup):
        layers.fc(layers.data("x", [3]), 1, name="other")
    exe.run(startup)
    with pytest.raises(RuntimeError) as told:
        fluid.io.load_persistables(exe, str(tmp_path), other)
    text = str(told.value)
    assert "another model" in text and "damaged" not in text
    assert "other.w_0 [3, 1]" in text and "other.b_0 [1]" in text and "h.w_0 [2, 1]" in text


@pytest.mark.parametrize("kind", ["py_reader", "loader"])
def test_a_reader_that_was_not_started_says_start(kind):
    if kind == "py_reader":
        reader = layers.py_reader(capacity=4, shapes=[[-1, 2]], dtypes=["float32"])
        x = layers.read_file(reader)
        reader.decorate_tensor_provider(lambda: iter([[X]]))
    else:
        x = layers.data("x", [2])
        reader = fluid.io.DataLoader.from_generator([x], capacity=4, iterable=False)
        reader.set_batch_generator(lambda: iter([[X]]))
    loss = layers.mean(x)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(RuntimeError, match=r"call start\(\) of the reader"):
        exe.run(fetch_list=[loss])
    reader.start()
    numpy.testing.assert_allclose(exe.run(fetch_list=[loss])[0], [0.625])


RECURSES = """
import sys, numpy
import paddlewheel.fluid as fluid
from paddlewheel.fluid import layers
main = fluid.default_main_program()
i = layers.fill_constant([1], "int64", 0)
n = layers.fill_constant([1], "int64", 3)
cond = layers.less_than(i, n)
loop = layers.While(cond)
with loop.block():
    layers.increment(i, 1, in_place=True)
    layers.less_than(i, n, cond=cond)
op = [op for op in main.global_block().ops if op.type == "while"][0]
how, block = sys.argv[1], int(sys.argv[2])
if how == "int":
    op.desc._set_attr("sub_block", block)
elif how == "block":
    op.desc.set_block_attr("sub_block", main.block(block).desc)
else:
    op.desc.set_blocks_attr("sub_block", [main.block(block).desc])
try:
    if how == "int":
        main = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    fluid.Executor(fluid.CPUPlace()).run(main, fetch_list=[i.name])
except Exception as error:
    print("refused:", type(error).__name__, error)
"""


@pytest.mark.parametrize("how", ["int", "block", "blocks"])
def test_a_block_that_runs_itself_is_refused_and_kills_nothing(how):
    run = subprocess.run(
        [sys.executable, "-c", RECURSES, how, "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout
    assert "refused:" in run.stdout


PRINTS = """
import sys
import paddlewheel.fluid as fluid
from paddlewheel.fluid import layers
x = layers.fill_constant([1], "float32", 1)
layers.Print(x, message="\\x1b]0;owned\\x07\\x1b[2Jhello")
program = fluid.Program.parse_from_string(fluid.default_main_program().desc.serialize_to_string())
fluid.Executor(fluid.CPUPlace()).run(program)
"""


def test_a_print_op_of_a_file_has_no_power_over_a_terminal():
    out = subprocess.check_output([sys.executable, "-c", PRINTS], timeout=60)
    assert b"\\x1b]0;owned\\x07\\x1b[2Jhello" in out
    assert not any(byte < 32 and byte not in b"\n\t" for byte in out)
