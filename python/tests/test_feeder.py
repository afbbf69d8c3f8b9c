"""From samples to tensors."""

import numpy as np
import pytest

import paddlewheel.fluid as fluid

PLACE = fluid.CPUPlace()


def data(name, shape, dtype="float32", lod_level=0):
    return fluid.layers.data(name, shape, dtype=dtype, lod_level=lod_level)


def feed(variables, samples):
    result = fluid.DataFeeder(variables, PLACE).feed(samples)
    return {name: (np.array(tensor), tensor.lod()) for name, tensor in result.items()}


def test_casts_and_stacks():
    x, y = data("x", [13]), data("y", [1], "int64")
    result = feed([x, "y"], [(np.zeros(13), 1), (np.ones(13), 2)])
    assert result["x"][0].dtype == np.float32 and result["x"][0].shape == (2, 13)
    assert result["y"][0].tolist() == [[1], [2]] and result["y"][0].dtype == np.int64
    assert result["x"][1] == []


def test_reshapes_only_when_the_rank_differs():
    image = data("image", [1, 2, 3])
    assert feed([image], [(np.zeros(6),)] * 2)["image"][0].shape == (2, 1, 2, 3)
    assert feed([image], [(np.zeros((1, 3, 2)),)])["image"][0].shape == (1, 1, 3, 2)
    text = r"Reshape error. What is defined in data layer is \(-1, 1, 2, 3\), but receive \(2, 5\)"
    with pytest.raises(ValueError, match=text):
        feed([image], [(np.zeros(5),)] * 2)


def test_sequences():
    words = data("words", [1], "int64", lod_level=1)
    array, lod = feed([words], [([1, 2],), ([3],)])["words"]
    assert array.tolist() == [[1], [2], [3]] and lod == [[0, 2, 3]]
    deep = data("deep", [1], "int64", lod_level=2)
    array, lod = feed([deep], [([[1, 2], [3]],), ([[4]],)])["deep"]
    assert array.ravel().tolist() == [1, 2, 3, 4] and lod == [[0, 2, 3], [0, 2, 3, 4]]


def test_refuses_what_does_not_fit():
    x, words = data("x", [2]), data("words", [1], "int64", lod_level=1)
    text = r"The number of fields in data \(3\) does not match len\(feed_list\) \(1\)"
    with pytest.raises(AssertionError, match=text):
        feed([x], [(1, 2, 3)])
    with pytest.raises(TypeError):
        feed([words], [(1,)])
    with pytest.raises(ValueError):
        feed([words], [(["a"],)])
    with pytest.raises(ValueError):
        feed([x], [(np.zeros(2),), (np.zeros(3),)])
    with pytest.raises(TypeError):
        feed([x], 5)
    with pytest.raises(TypeError, match="Feed list should contain a list of variable"):
        fluid.DataFeeder([5], PLACE)
    with pytest.raises(ValueError, match="var nothing not in this block"):
        fluid.DataFeeder(["nothing"], PLACE)


def test_several_places():
    feeder = fluid.DataFeeder([data("x", [1])], PLACE)
    batches = [[(float(n),)] for n in range(5)]
    assert len(list(feeder.feed_parallel(batches[:2], 2))) == 2
    with pytest.raises(ValueError, match="must be same"):
        feeder.feed_parallel(batches[:2], 3)
    groups = list(feeder.decorate_reader(lambda: iter(batches), True, 2)())
    assert [len(group) for group in groups] == [2, 2]
    with pytest.raises(ValueError, match="cannot fit for devices"):
        list(feeder.decorate_reader(lambda: iter(batches), True, 2, False)())
    assert len(list(feeder.decorate_reader(lambda: iter(batches), False)())) == 5


def test_create_lod_tensor():
    tensor = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], PLACE)
    assert np.array(tensor).tolist() == [[1], [2], [3]] and tensor.lod() == [[0, 2, 3]]
    assert np.array(fluid.create_lod_tensor(tensor, [[1, 2]], PLACE)).shape == (3, 1)
    nested = fluid.create_lod_tensor([[[1, 2], [3, 4]], [[5, 6]]], [[2, 1]], PLACE)
    assert nested.shape() == [3, 2, 1]
    with pytest.raises(AssertionError, match="data and recursive_seq_lens do not match"):
        fluid.create_lod_tensor([[1, 2], [3]], [[2, 2]], PLACE)
    with pytest.raises(fluid.core.EnforceNotMet, match="recursive_sequence_lengths info is inva"):
        fluid.create_lod_tensor(np.zeros((3, 2)), [[2, 2]], PLACE)
    with pytest.raises(TypeError, match="LoDTensor, a Numpy array or a list"):
        fluid.create_lod_tensor(5, [[2]], PLACE)


def test_create_random_int_lodtensor():
    tensor = fluid.create_random_int_lodtensor([[2, 3]], [4], PLACE, 0, 5)
    array = np.array(tensor)
    assert array.shape == (5, 4) and array.min() >= 0 and array.max() <= 5
    assert tensor.recursive_sequence_lengths() == [[2, 3]]
    with pytest.raises(AssertionError, match="base_shape should be a list"):
        fluid.create_random_int_lodtensor([[2]], 4, PLACE, 0, 5)
