"""Programs on several places: compared with the real Fluid, and the errors of its table."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest

import paddlewheel.fluid as fluid

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "tools"))

import parallel_runs  # noqa: E402

FLUIDS = json.loads((HERE / "fixtures" / "parallel.json").read_text())


@pytest.fixture(autouse=True)
def two_places(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")


@pytest.mark.parametrize("case, net, n_places, as_lists", list(parallel_runs.cases()))
def test_trains_as_fluid_does(case, net, n_places, as_lists):
    ours, theirs = parallel_runs.train(fluid, net, n_places, as_lists), FLUIDS[case]
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6, atol=1e-6)
    assert ours["state"].keys() == theirs["state"].keys()
    for name, value in theirs["state"].items():
        np.testing.assert_allclose(ours["state"][name], value, rtol=1e-5, atol=1e-6)


def regression(optimizer=None):
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    predict = fluid.layers.fc(x, 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predict, y))
    test = fluid.default_main_program().clone(for_test=True)
    (optimizer or fluid.optimizer.SGD(0.1)).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe, test, predict, loss


def batch(n, seed=1):
    rng = np.random.RandomState(seed)
    return {"x": rng.rand(n, 4).astype("float32"), "y": rng.rand(n, 1).astype("float32")}


def compiled(loss, **options):
    program = fluid.CompiledProgram(fluid.default_main_program())
    return program.with_data_parallel(loss_name=loss.name, **options)


def weight():
    return np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor())


def gradient(feed, w, b=0.0):
    """Of the mean squared error of one place."""
    wrong = feed["x"] @ w + b - feed["y"]
    return 2 * feed["x"].T @ wrong / len(wrong)


def test_uneven_parts_give_the_mean_of_the_means():
    exe, _, _, loss = regression()
    parts, before = [batch(32), batch(16, seed=2)], weight()
    program = compiled(loss)
    (losses,) = exe.run(program, feed=parts, fetch_list=[loss])
    assert losses.shape == (2,)
    mean = (gradient(parts[0], before) + gradient(parts[1], before)) / 2
    np.testing.assert_allclose(weight(), before - 0.1 * mean, rtol=1e-5)
    with pytest.raises(ValueError, match="same size as places"):
        exe.run(program, feed=parts + [batch(8)], fetch_list=[loss])


def test_whole_parts_equal_one_place():
    exe, _, _, loss = regression()
    # Chosen weights: a drawn one may come so near to 0 that its last bits count.
    start, feed = np.arange(1, weight().size + 1, dtype="f4").reshape(weight().shape), batch(8)
    fluid.global_scope().find_var("fc_0.w_0").get_tensor().set(start, fluid.CPUPlace())
    exe.run(compiled(loss), feed=feed, fetch_list=[loss])
    apart = weight()
    assert not np.array_equal(apart, start)
    fluid.global_scope().find_var("fc_0.w_0").get_tensor().set(start, fluid.CPUPlace())
    fluid.global_scope().find_var("fc_0.b_0").get_tensor().set(np.zeros(1, "f4"), fluid.CPUPlace())
    exe.run(fluid.default_main_program(), feed=feed)
    np.testing.assert_allclose(weight(), apart, rtol=1e-6)


def test_runs_repeat_to_the_bit():
    def once():
        results = parallel_runs.train(fluid, "mlp", 3, False)
        return json.dumps(results, sort_keys=True)

    assert once() == once()


def test_values_of_all_places():
    exe, _, predict, loss = regression()
    program, feed = compiled(loss), batch(5)
    fetch = [predict, "fc_0.w_0", "fc_0.b_0@GRAD", "learning_rate_0", "x"]
    values = exe.run(program, feed=feed, fetch_list=fetch)
    assert [v.shape for v in values] == [(5, 1), (8, 1), (2,), (2,), (5, 4)]
    assert values[2][0] == values[2][1], "gradients are those added up"
    lists = exe.run(program, feed=feed, fetch_list=[predict, loss], return_merged=False)
    assert [[v.shape for v in places] for places in lists] == [[(3, 1), (2, 1)], [(1,), (1,)]]
    tensors = exe.run(
        program, feed=feed, fetch_list=[loss], return_merged=False, return_numpy=False
    )
    assert isinstance(tensors[0][1], fluid.LoDTensor)


def test_too_few_samples():
    exe, test, predict, loss = regression()
    program = compiled(loss)
    with pytest.raises(fluid.core.EnforceNotMet, match=re.escape("number(1) of samples[x]")):
        exe.run(program, feed=batch(1), fetch_list=[loss])
    infer = fluid.CompiledProgram(test).with_data_parallel()
    feed = {"x": batch(1)["x"], "y": batch(1)["y"]}
    assert exe.run(infer, feed=feed, fetch_list=[predict])[0].shape == (1, 1)
    assert exe.run(infer, feed=batch(4), fetch_list=[predict])[0].shape == (4, 1)


@pytest.mark.parametrize("strategy, factor", [("CoeffNumDevice", 0.5), ("One", 1.0)])
def test_scale_of_the_loss(strategy, factor):
    exe, _, _, loss = regression()
    options = fluid.BuildStrategy()
    kinds = fluid.BuildStrategy.GradientScaleStrategy
    options.gradient_scale_strategy = getattr(kinds, strategy)
    parts, before = [batch(4), batch(4, seed=2)], weight()
    exe.run(compiled(loss, build_strategy=options), feed=parts)
    total = gradient(parts[0], before) + gradient(parts[1], before)
    np.testing.assert_allclose(weight(), before - 0.1 * factor * total, rtol=1e-5)


def test_a_fed_scale_of_the_loss():
    exe, _, _, loss = regression()
    options = fluid.BuildStrategy()
    kinds = fluid.BuildStrategy.GradientScaleStrategy
    options.gradient_scale_strategy = kinds.Customized
    program = compiled(loss, build_strategy=options)
    name, before = loss.name + "@GRAD", weight()
    parts = [dict(batch(4), **{name: np.array([1.0], "float32")})]
    parts.append(dict(batch(4, seed=2), **{name: np.array([3.0], "float32")}))
    exe.run(program, feed=parts)
    total = gradient(parts[0], before) + 3 * gradient(parts[1], before)
    np.testing.assert_allclose(weight(), before - 0.1 * total, rtol=1e-5)
    with pytest.raises(fluid.core.EnforceNotMet, match=re.escape(name)):
        exe.run(program, feed=batch(4))


def test_what_follows_the_update_sees_it():
    exe, _, _, loss = regression()
    after = fluid.layers.reduce_sum(fluid.default_main_program().global_block().var("fc_0.w_0"))
    grad = fluid.default_main_program().global_block().var("fc_0.w_0@GRAD")
    doubled = fluid.layers.scale(grad, 2.0)
    feed, before = batch(6), weight()
    after, doubled = exe.run(compiled(loss), feed=feed, fetch_list=[after, doubled])
    np.testing.assert_allclose(after, [weight().sum()] * 2, rtol=1e-6)
    np.testing.assert_allclose(doubled[:4], 2 * gradient(feed, before), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(doubled[:4], doubled[4:], rtol=0)


def test_two_optimizers_in_one_program():
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    first = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.1).minimize(first)
    second = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 1)))
    fluid.optimizer.Adam(0.1).minimize(second)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    names = ["fc_0.w_0", "fc_1.w_0"]

    def read():
        scope = fluid.global_scope()
        return [np.array(scope.find_var(name).get_tensor()) for name in names]

    start = read()
    exe.run(compiled(first), feed=batch(8))
    apart = read()
    exe.run(fluid.default_startup_program())
    for name, value in zip(names, start):
        fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
    exe.run(fluid.default_main_program(), feed=batch(8))
    # The second loss of the program starts with one on a single place, with a half on each of two.
    np.testing.assert_allclose(read(), apart, rtol=1e-5)


def test_statistics_of_each_place_are_kept():
    x = fluid.data("x", [None, 2])
    loss = fluid.layers.mean(fluid.layers.batch_norm(fluid.layers.fc(x, 2)))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    train = compiled(loss)
    feed = {"x": np.arange(8, dtype="float32").reshape(4, 2)}
    for _ in range(2):
        (means,) = exe.run(
            train, feed=feed, fetch_list=["batch_norm_0.w_1"], return_merged=False
        )
    assert not np.array_equal(means[0], means[1])
    saved = fluid.global_scope().find_var("batch_norm_0.w_1").get_tensor()
    np.testing.assert_array_equal(saved, means[0])
    shared = fluid.CompiledProgram(test).with_data_parallel(share_vars_from=train)
    (seen,) = exe.run(
        shared, feed=feed, fetch_list=["batch_norm_0.w_1"], return_merged=False
    )
    np.testing.assert_array_equal(seen, means)


def test_wrong_use():
    exe, test, predict, loss = regression()
    main = fluid.default_main_program()
    with pytest.raises(AssertionError, match="loss name should be set"):
        fluid.CompiledProgram(main).with_data_parallel()
    train = compiled(loss)
    early = fluid.CompiledProgram(test).with_data_parallel(share_vars_from=train)
    with pytest.raises(ValueError, match="not compiled and executed"):
        exe.run(early, feed=batch(4))
    exe.run(train, feed=batch(4))
    with pytest.raises(ValueError, match="different scope"):
        exe.run(train, feed=batch(4), scope=fluid.Scope())
    with pytest.raises(TypeError, match="should be a dict"):
        exe.run(train, feed=[1, 2])
    with pytest.raises(ValueError, match="float64"):
        exe.run(train, feed=dict(batch(4), x=batch(4)["x"].astype("float64")))
    with pytest.raises(fluid.core.EnforceNotMet, match="cannot be found"):
        exe.run(train, feed=batch(4), fetch_list=["nowhere"])
    with pytest.raises(fluid.core.EnforceNotMet, match="y"):
        exe.run(train, feed={"x": batch(4)["x"]}, fetch_list=[loss])
    among = fluid.ParallelExecutor(False, loss_name=loss.name, num_trainers=2)
    with pytest.raises(fluid.core.EnforceNotMet, match="has met no other trainers"):
        among.run([loss.name], feed=batch(4))
    with pytest.raises(AssertionError, match="should be ParallelExecutor"):
        fluid.ParallelExecutor(False, loss_name=loss.name, share_vars_from=3)
    nowhere = fluid.CompiledProgram(test).with_data_parallel(places=[])
    with pytest.raises(ValueError, match="place to run on"):
        exe.run(nowhere, feed=batch(4))
    assert np.isfinite(exe.run(train, feed=batch(4), fetch_list=[loss])[0]).all()


def test_parallel_executors_share():
    exe, test, predict, loss = regression()
    train = fluid.ParallelExecutor(False, loss_name=loss.name)
    infer = fluid.ParallelExecutor(False, main_program=test, share_vars_from=train)
    assert train.device_count == infer.device_count == 2
    train.run([loss.name], feed=batch(4))
    (values,) = infer.run([predict.name], feed_dict=batch(4))
    np.testing.assert_allclose(values, batch(4)["x"] @ weight() + bias(), rtol=1e-5)
    train.drop_local_exe_scopes()


def bias():
    return np.array(fluid.global_scope().find_var("fc_0.b_0").get_tensor())


def test_readers_give_each_place_a_batch():
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    loader = fluid.io.DataLoader.from_generator([x, y], capacity=4, iterable=False)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    loader.set_batch_generator(lambda: (tuple(batch(n).values()) for n in (3, 2, 4, 1, 5)))
    program, sizes = compiled(loss), []
    loader.start()
    with pytest.raises(fluid.core.EOFException):
        while True:
            parts = exe.run(program, fetch_list=["x"], return_merged=False)[0]
            sizes.append([len(part) for part in parts])
    loader.reset()
    assert sizes == [[3, 2], [4, 1]], "a batch without a partner ends the pass"


def test_a_list_of_feeds_says_how_many_places_there_are(child):
    script = HERE / "programs" / "uneven_places.py"
    result = child("-m", "paddlewheel", "run", str(script), environment={"CPU_NUM": "2"})
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"losses \S+ \S+\n", result.stdout)
    free = "import os; os.environ.pop('CPU_NUM', None)\n" + script.read_text()
    again = child("-c", free, alias=True)
    assert (again.returncode, again.stdout) == (0, result.stdout), again.stderr
    result = child("-m", "paddlewheel", "run", str(script), environment={"CPU_NUM": "3"})
    assert "ValueError: Feed a list of tensor" in result.stderr


def test_errors_leave_parameters_in_place():
    exe, _, _, loss = regression()
    program, before = compiled(loss), weight()
    wrong = batch(6)
    wrong["y"] = wrong["y"][:4]
    with pytest.raises(fluid.core.EnforceNotMet):
        exe.run(program, feed=wrong, fetch_list=[loss])
    np.testing.assert_array_equal(weight(), before)


@pytest.mark.parametrize("kind, n_counted", [("reduces", 16), ("plain", 4), ("job", 16)])
def test_places_share_counters_where_fluids_share_memory(monkeypatch, kind, n_counted):
    monkeypatch.setenv("CPU_NUM", "4")
    x, label = fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")
    guess = fluid.layers.fc(x, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    area, _, states = fluid.layers.auc(guess, label)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    strategy = fluid.BuildStrategy()
    if kind == "reduces":
        strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    # The settings of Fleet: Fluid's places run apart then, and the first one's values are returned.
    strategy.async_mode = kind == "job"
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, build_strategy=strategy
    )
    rng = np.random.RandomState(0)
    feed = {"x": rng.rand(16, 2).astype("float32"), "label": rng.randint(0, 2, (16, 1))}
    (areas,) = exe.run(program, feed=feed, fetch_list=[area])
    assert areas.shape == ((1,) if kind == "job" else (4,))
    counts = [np.array(fluid.global_scope().find_var(v.name).get_tensor()) for v in states[2:]]
    assert sum(count.sum() for count in counts) == n_counted
    if kind == "reduces":
        pos, neg = (count.ravel().astype(float) for count in counts)
        below = np.cumsum(neg) - neg
        assert areas[-1] == pytest.approx((pos * (below + neg / 2)).sum() / pos.sum() / neg.sum())
