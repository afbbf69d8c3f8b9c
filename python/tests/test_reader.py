"""Readers made of readers."""

import itertools
import pickle
import random

import pytest

import paddlewheel as paddle


def numbers(n):
    return lambda: iter(range(n))


def test_batch():
    assert list(paddle.batch(numbers(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(paddle.batch(numbers(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="batch_size=0"):
        paddle.batch(numbers(5), 0)


def test_shuffle_gives_all_samples_in_pieces():
    random.seed(1)
    samples = list(paddle.reader.shuffle(numbers(10), 4)())
    assert sorted(samples) == list(range(10)) and samples != list(range(10))
    assert set(samples[:4]) == {0, 1, 2, 3} and set(samples[8:]) == {8, 9}


def test_small_decorators():
    reader = paddle.reader
    assert list(reader.map_readers(lambda a, b: a * b, numbers(3), numbers(3))()) == [0, 1, 4]
    assert list(reader.chain(numbers(2), numbers(2))()) == [0, 1, 0, 1]
    assert list(reader.firstn(numbers(9), 3)()) == [0, 1, 2]
    kept = reader.cache(numbers(3))
    assert list(kept()) == list(kept()) == [0, 1, 2]
    assert list(reader.Fake()(numbers(3), 4)()) == [0, 0, 0, 0]


def test_compose():
    compose = paddle.reader.compose
    pairs = lambda: iter([(1, 2), (3, 4)])
    assert list(compose(numbers(2), pairs)()) == [(0, 1, 2), (1, 3, 4)]
    with pytest.raises(paddle.reader.ComposeNotAligned):
        list(compose(numbers(2), numbers(3))())
    assert len(list(compose(numbers(2), numbers(3), check_alignment=False)())) == 2


def test_buffered_carries_errors():
    def broken():
        yield 1
        raise KeyError("in the reader")

    assert list(paddle.reader.buffered(numbers(100), 3)()) == list(range(100))
    read = paddle.reader.buffered(broken, 3)()
    assert next(read) == 1
    with pytest.raises(KeyError, match="in the reader"):
        next(read)


@pytest.mark.parametrize("order", [False, True])
def test_xmap(order):
    mapped = paddle.reader.xmap_readers(lambda n: n * n, numbers(50), 4, 3, order)
    results = list(mapped())
    expected = [n * n for n in range(50)]
    assert (results if order else sorted(results)) == expected


def test_xmap_carries_errors_and_can_be_left():
    def square(n):
        if n == 20:
            raise ZeroDivisionError("mapper")
        return n * n

    with pytest.raises(ZeroDivisionError):
        list(paddle.reader.xmap_readers(square, numbers(50), 4, 3, True)())
    endless = paddle.reader.xmap_readers(abs, itertools.count, 2, 3)
    assert len(list(itertools.islice(endless(), 5))) == 5


def test_multiprocess():
    reader = paddle.reader.multiprocess_reader([numbers(5), numbers(5)])
    assert sorted(reader()) == sorted(list(range(5)) * 2)


def test_pipe():
    assert list(paddle.reader.PipeReader("printf 'a\\nb\\nc'").get_line()) == ["a", "b", "c"]


def test_split_and_cluster_files(tmp_path):
    common = paddle.dataset.common
    common.split(numbers(7), 3, suffix=str(tmp_path / "%05d.pickle"))
    pattern = str(tmp_path / "*.pickle")
    assert list(common.cluster_files_reader(pattern, 2, 0)()) == [0, 1, 2, 6]
    assert list(common.cluster_files_reader(pattern, 2, 1)()) == [3, 4, 5]
    with open(tmp_path / "00002.pickle", "rb") as file:
        assert pickle.load(file) == [6]


@pytest.mark.parametrize("size", [0, 1, -1])
def test_a_buffer_of_nothing_shuffles_nothing(size):
    assert list(paddle.reader.shuffle(lambda: iter(range(5)), size)()) == [0, 1, 2, 3, 4]
