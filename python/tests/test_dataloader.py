"""Readers in a thread of their own."""

import threading
import time

import numpy as np
import pytest

import paddlewheel as paddle
import paddlewheel.fluid as fluid


def samples(n):
    return lambda: ((np.full(2, i, "float32"), i) for i in range(n))


def two_inputs():
    return [fluid.layers.data("x", [2]), fluid.layers.data("y", [1], dtype="int64")]


def loader(feed_list, **options):
    return fluid.io.DataLoader.from_generator(feed_list=feed_list, capacity=2, **options)


def test_iterable_gives_feeds():
    load = loader(two_inputs())
    load.set_sample_generator(samples(5), 2, drop_last=False, places=fluid.CPUPlace())
    batches = list(load())
    assert [len(batch) for batch in batches] == [1, 1, 1]
    assert np.array(batches[2][0]["y"]).tolist() == [[4]]
    assert len(list(load)) == 3, "each loop is a pass"


def test_several_places_get_a_feed_each():
    load = loader(two_inputs())
    load.set_sample_list_generator(paddle.batch(samples(5), 1), places=fluid.cpu_places(2))
    assert [len(group) for group in load] == [2, 2]
    lists = loader(two_inputs(), return_list=True, drop_last=False)
    lists.set_sample_list_generator(paddle.batch(samples(5), 1), places=fluid.cpu_places(2))
    assert [len(group) for group in lists] == [2, 2, 1]


def test_batch_generator_and_run():
    x, y = two_inputs()
    total = fluid.layers.mean(x)
    load = loader([x, y])
    batch = [np.ones((3, 2), "float32"), np.ones((3, 1), "int64")]
    load.set_batch_generator(lambda: iter([batch] * 2), places=fluid.CPUPlace())
    exe = fluid.Executor()
    values = [exe.run(feed=feed, fetch_list=[total])[0].item() for feed in load()]
    assert values == [1.0, 1.0]


def test_wrong_use_is_refused():
    x, y = two_inputs()
    with pytest.raises(Exception, match="Feed list must be given"):
        fluid.io.DataLoader.from_generator(capacity=4)
    with pytest.raises(ValueError, match="capacity"):
        fluid.io.DataLoader.from_generator(feed_list=[x])
    with pytest.raises(AssertionError, match="start"):
        loader([x]).start()
    with pytest.raises(AssertionError, match="has not set yet"):
        iter(loader([x]))
    with pytest.raises(AssertionError, match="not iterable"):
        iter(loader([x], iterable=False))
    load = loader([x, y])
    load.set_batch_generator(lambda: iter([[1]]), places=fluid.CPUPlace())
    with pytest.raises(ValueError, match="1 fields but feed_list has 2"):
        list(load)


def test_an_error_of_the_generator_reaches_the_loop():
    def broken():
        yield np.zeros(2), 1
        raise KeyError("in the generator")

    load = loader(two_inputs())
    load.set_sample_generator(broken, 1, places=fluid.CPUPlace())
    with pytest.raises(KeyError, match="in the generator"):
        list(load)


def test_a_loop_that_is_left_ends_the_thread():
    before = threading.active_count()
    load = loader(two_inputs())
    load.set_sample_generator(samples(10**9), 1, places=fluid.CPUPlace())
    for _ in load:
        break
    deadline = threading.Event()
    for _ in range(100):
        if threading.active_count() <= before:
            return
        deadline.wait(0.05)
    raise AssertionError("the thread is still there")


def test_not_iterable_runs_until_the_end_of_a_pass():
    x, y = two_inputs()
    total = fluid.layers.mean(x)
    load = loader([x, y], iterable=False)
    load.set_sample_generator(samples(4), 2)
    exe = fluid.Executor()
    for _ in range(2):
        load.start()
        values = []
        with pytest.raises(fluid.core.EOFException):
            while True:
                values.append(exe.run(fetch_list=[total])[0].item())
        assert values == [0.5, 2.5]
        load.reset()


def test_py_reader():
    reader = fluid.layers.py_reader(4, [[-1, 2], [-1, 1]], ["float32", "int64"])
    x, y = fluid.layers.read_file(fluid.layers.double_buffer(reader))
    assert (x.shape, y.shape) == ((-1, 2), (-1, 1))
    total = fluid.layers.mean(x)
    reader.decorate_paddle_reader(paddle.batch(samples(3), 3))
    reader.start()
    exe = fluid.Executor()
    assert exe.run(fetch_list=[total])[0].item() == 1.0
    with pytest.raises(fluid.core.EOFException):
        exe.run(fetch_list=[total])
    reader.reset()


def test_a_reader_feeds_a_test_program_too():
    x, y = two_inputs()
    total = fluid.layers.mean(x)
    reader = fluid.io.PyReader([x, y], capacity=2, iterable=False)
    reader.decorate_sample_list_generator(paddle.batch(samples(2), 2))
    test = fluid.default_main_program().clone(for_test=True)
    reader.start()
    assert fluid.Executor().run(test, fetch_list=[total])[0].item() == 0.5
    reader.reset()


def six_batches(iterable, drop_last, trains=False):
    """The results of four places for six batches, pass by pass."""
    x = fluid.data("x", [-1, 1])
    loader = fluid.io.DataLoader.from_generator(
        [x], capacity=8, iterable=iterable, drop_last=drop_last
    )
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(1.0)))
    if trains:
        fluid.optimizer.SGD(0.0).minimize(loss)
    places = fluid.cpu_places(4)
    batches = [[np.full((2, 1), at, "float32")] for at in range(6)]
    loader.set_batch_generator(lambda: iter(batches), places=places if iterable else None)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    compiled = compiled.with_data_parallel(loss.name if trains else None, places=places)

    def one_pass():
        if iterable:
            return [executor.run(compiled, feed=feed, fetch_list=[loss])[0] for feed in loader()]
        seen = []
        loader.start()
        try:
            while True:
                seen.append(executor.run(compiled, fetch_list=[loss])[0])
        except fluid.core.EOFException:
            loader.reset()
        return seen

    return [[list(step) for step in one_pass()] for _ in range(2)]


@pytest.mark.parametrize("iterable", [True, False])
def test_the_last_batches_may_leave_places_idle(iterable):
    # As in Fluid 1.8.5, where nothing is trained.
    assert six_batches(iterable, drop_last=False) == [[[0, 1, 2, 3], [4, 5]]] * 2


@pytest.mark.parametrize("iterable", [True, False])
def test_the_last_batches_are_dropped_on_demand(iterable):
    assert six_batches(iterable, drop_last=True) == [[[0, 1, 2, 3]]] * 2


def test_training_needs_a_batch_for_each_place():
    assert six_batches(False, drop_last=False, trains=True) == [[[0, 1, 2, 3]]] * 2


def test_a_reader_says_how_much_was_read_ahead():
    x = fluid.data("x", [-1, 1])
    reader = fluid.io.PyReader([x], capacity=3, iterable=False)
    out = fluid.layers.assign(x)
    reader.decorate_batch_generator(lambda: iter([[np.zeros((1, 1), "float32")]] * 5))
    assert reader.queue.size() == 0
    reader.start()
    deadline = time.monotonic() + 20
    while reader.queue.size() < 3:
        assert time.monotonic() < deadline
    executor, n_runs = fluid.Executor(), 0
    with pytest.raises(fluid.core.EOFException):
        while True:
            executor.run(fetch_list=[out])
            n_runs += 1
    assert n_runs == 5 and reader.queue.size() == 0
    reader.reset()


def test_a_loader_gives_its_batches_one_by_one():
    x = fluid.data("x", [-1, 1])
    loader = fluid.io.PyReader([x], capacity=3)
    loader.decorate_batch_generator(
        lambda: iter([[np.full((1, 1), at, "float32")] for at in range(2)]), fluid.CPUPlace()
    )
    assert [float(np.array(next(loader)[0]["x"])[0, 0]) for _ in range(2)] == [0.0, 1.0]
    with pytest.raises(StopIteration):
        next(loader)
    assert len(list(loader())) == 2
    loader._loader._reset()
    base = fluid.reader.DataLoaderBase()
    for ask in (iter, next):
        with pytest.raises(NotImplementedError):
            ask(base())
