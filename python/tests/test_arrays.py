"""Arrays of numpy, however they lie in memory, on every way in; and what comes out again."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import paddlewheel.fluid as fluid

TYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
#: What layers.assign and the feeds of the tests below compute with.
CARRIED = ["float32", "int32", "int64", "bool"]


def numbers(dtype, shape=(3, 4)):
    """Numbers that show when two of them change places."""
    count = np.arange(np.prod(shape)).reshape(shape)
    return (count % 2 == 0) if dtype == "bool" else count.astype(dtype)


def unaligned(array):
    """The same numbers at an odd address."""
    memory = np.zeros(array.nbytes + 1, "uint8")[1:]
    memory[:] = np.frombuffer(array.tobytes(), "uint8")
    return memory.view(array.dtype).reshape(array.shape)


def readonly(array):
    array = array.copy()
    array.flags.writeable = False
    return array


#: The same array of 3 x 4 as it may lie in memory.
LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "part": lambda a: np.pad(a, 1)[1:-1, 1:-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "byte-swapped Fortran": lambda a: np.asfortranarray(a.astype(a.dtype.newbyteorder())),
    "no rows": lambda a: a[:0],
    "read-only": readonly,
    "unaligned": unaligned,
    "subclass": lambda a: a.view(type("Mine", (np.ndarray,), {})),
}


def by_set(array):
    tensor = fluid.LoDTensor()
    tensor.set(array, fluid.CPUPlace())
    return np.array(tensor)


def by_feed(array):
    x = fluid.data("x", [-1] + list(array.shape[1:]), array.dtype.name)
    fluid.layers.fill_constant([1], "float32", 0.0)  # A program without operators is warned of.
    return fluid.Executor().run(feed={"x": array}, fetch_list=[x])[0]


def by_create_lod_tensor(array):
    tensor = fluid.create_lod_tensor(array, [[len(array)]], fluid.CPUPlace())
    return np.array(tensor)


def by_scope(array):
    variable = fluid.global_scope().var("x")
    variable.get_tensor().set(array, fluid.CPUPlace())
    return np.array(fluid.global_scope().find_var("x").get_tensor())


def by_data_loader(array):
    x = fluid.data("x", [-1] + list(array.shape[1:]), array.dtype.name)
    loader = fluid.io.DataLoader.from_generator([x], capacity=2)
    loader.set_batch_generator(lambda: iter([[array]]), places=fluid.CPUPlace())
    (feed,) = [feed for (feed,) in loader()]
    return np.array(feed["x"])


def by_sample_list(array):
    x = fluid.data("x", [-1] + list(array.shape[1:]), array.dtype.name)
    loader = fluid.io.DataLoader.from_generator([x], capacity=2)
    loader.set_sample_list_generator(lambda: iter([[(row,) for row in array]]), fluid.CPUPlace())
    (feed,) = [feed for (feed,) in loader()]
    return np.array(feed["x"])


def by_feeder(array):
    x = fluid.data("x", [-1] + list(array.shape[1:]), array.dtype.name)
    feeder = fluid.DataFeeder([x], fluid.CPUPlace())
    return np.array(feeder.feed([(row,) for row in array])["x"])


def by_py_reader(array):
    x = fluid.data("x", [-1] + list(array.shape[1:]), array.dtype.name)
    reader = fluid.io.PyReader([x], capacity=2, iterable=False)
    reader.decorate_batch_generator(lambda: iter([[array]]))
    out = fluid.layers.assign(x)
    reader.start()
    return fluid.Executor().run(fetch_list=[out])[0]


def by_data_parallel(array):
    x = fluid.data("x", [-1] + list(array.shape[1:]), array.dtype.name)
    out = fluid.layers.assign(x)
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    compiled = compiled.with_data_parallel(places=fluid.cpu_places(3))
    return fluid.Executor().run(compiled, feed={"x": array}, fetch_list=[out])[0]


def by_assign(array):
    return fluid.Executor().run(fetch_list=[fluid.layers.assign(array)])[0]


def by_initializer(array):
    attr = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(array))
    made = fluid.layers.create_parameter(list(array.shape), array.dtype.name, attr=attr)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    return executor.run(fetch_list=[fluid.layers.assign(made)])[0]


ALL_TYPES = [by_set, by_scope, by_feed, by_create_lod_tensor, by_data_loader, by_sample_list]
WAYS = [(way, dtype) for way in ALL_TYPES + [by_feeder] for dtype in TYPES]
WAYS += [(way, dtype) for way in (by_assign, by_py_reader, by_data_parallel) for dtype in CARRIED]
WAYS += [(by_initializer, dtype) for dtype in ("float32", "int32")]
#: Without rows there is nothing to carry, to share out, or to tell the width by.
NEEDS_ROWS = (by_initializer, by_assign, by_data_parallel, by_sample_list, by_feeder)
CASES = [
    pytest.param(way, dtype, layout, id="-".join([way.__name__, dtype, layout]))
    for way, dtype in WAYS
    for layout in LAYOUTS
    if layout != "no rows" or way not in NEEDS_ROWS
]


@pytest.mark.parametrize("way, dtype, layout", CASES)
def test_an_array_is_the_same_however_it_lies(way, dtype, layout):
    array = LAYOUTS[layout](numbers(dtype))
    out = way(array)
    assert out.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(out, array.astype(dtype))


def test_a_matrix_of_pandas_lies_by_columns():
    # What pandas.read_csv(..)[columns].values is.
    columns = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], "float32").T
    x = fluid.data("x", [-1, 2])
    out = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    got = executor.run(feed={"x": columns}, fetch_list=[out])[0]
    np.testing.assert_array_equal(got, [[11], [22], [33]])


def test_half_floats_may_come_as_their_bits():
    array = np.array([1.5, -2.0], "float16")
    np.testing.assert_array_equal(by_set(array.view("uint16")), array)


@pytest.mark.parametrize("dtype", ["complex64", "uint32", "S3", "O"])
def test_elements_that_cannot_be_fed_are_refused(dtype):
    with pytest.raises(TypeError, match="cannot be fed"):
        by_set(np.ones(2).astype(dtype))


HUGE = np.broadcast_to(np.float32(1), (2**40,))


@pytest.mark.parametrize(
    "way", [by_set, by_scope, by_feed, by_create_lod_tensor, by_data_loader, by_assign]
)
def test_an_array_larger_than_memory_is_an_error(way):
    with pytest.raises(fluid.core.EnforceNotMet, match="no memory for a tensor of shape .*4096 GiB"):
        way(HUGE)


def test_an_initializer_larger_than_memory_is_an_error():
    with pytest.raises(fluid.core.EnforceNotMet, match="no memory"):
        fluid.initializer.NumpyArrayInitializer(HUGE)
    with pytest.raises((fluid.core.EnforceNotMet, MemoryError)):
        fluid.metrics.Accuracy().update(HUGE, 1)


def test_a_tensor_larger_than_memory_is_an_error():
    tensor = fluid.LoDTensor()
    with pytest.raises(fluid.core.EnforceNotMet, match="no memory"):
        tensor._set_dims([2**40])
    with pytest.raises(fluid.core.EnforceNotMet, match="more elements"):
        tensor._set_dims([2**40, 2**40])


def one(shape, value=2.5):
    """An array as runs hand it out."""
    x = fluid.data("x", list(shape))
    fed = {"x": np.full(shape, value, "float32")}
    return fluid.Executor().run(feed=fed, fetch_list=[fluid.layers.assign(x)])[0]


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)])
def test_an_array_of_one_element_is_a_number(shape):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = one(shape)
        assert float(loss) == 2.5 and int(loss) == 2 and complex(loss) == 2.5
        assert type(float(loss)) is float and type(int(loss)) is int
        assert "%f %.1f %d %s" % (loss.mean(), loss, loss, float(loss)) == "2.500000 2.5 2 2.5"
        assert not math.isnan(loss) and not math.isinf(loss) and math.floor(loss) == 2
        assert loss < 3 and not loss > 3
        for made in (loss * 2, loss + loss, -loss, loss / 2, np.sqrt(loss), loss[:], loss.copy()):
            float(made)
        assert float(loss.astype("int64")) == 2 and float(loss.reshape(-1)) == 2.5


def test_parts_of_an_array_are_numbers_too():
    rows = by_feed(np.array([[1.0], [2.0]], "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(row) for row in rows] == [1.0, 2.0]
        assert float(rows[1:]) == 2.0 and float(rows[rows > 1.5]) == 2.0
        assert float(rows.T[0, 0]) == 1.0 and float(np.squeeze(rows[0])) == 1.0


def test_arrays_of_tensors_and_of_metrics_are_numbers_too():
    tensor = fluid.LoDTensor()
    tensor.set(np.array([3.0], "float32"))
    assert float(tensor.__array__()) == 3.0 and float(tensor[0:1]) == 3.0
    assert float(fluid.executor.as_numpy(tensor)) == 3.0
    mean = fluid.average.WeightedAverage()
    mean.add(np.array([2.0]), 1)
    assert float(mean.eval()) == 2.0
    fluid.global_scope().var("v").get_tensor().set(np.array([4.0], "float32"))
    assert float(fluid.executor._fetch_var("v")) == 4.0


@pytest.mark.parametrize("convert", [float, int, complex])
def test_more_elements_are_no_number(convert):
    with pytest.raises(TypeError, match="length-1"):
        convert(by_feed(np.ones((2, 1), "float32")))


def test_what_is_handed_out_is_an_array_like_any_other():
    out = one((2, 2))
    plain = np.full((2, 2), 2.5, "float32")
    assert isinstance(out, np.ndarray) and type(np.asarray(out)) is np.ndarray
    assert type(np.array(out)) is np.ndarray
    assert repr(out) == repr(plain) and str(out) == str(plain)
    assert out.dtype == plain.dtype and out.shape == plain.shape and out.flags.writeable
    assert out.flags.c_contiguous and out.flags.aligned
    assert out.tobytes() == plain.tobytes() and out.tolist() == plain.tolist()
    assert np.array_equal(out, plain) and (out == plain).all()
    out[0, 0] = 7
    assert out[0, 0] == 7


def test_numbers_of_an_array_are_numpys_own():
    out, plain = one((2, 2)), np.full((2, 2), 2.5, "float32")
    for take in (
        lambda a: a[0, 0],
        lambda a: a.sum(),
        lambda a: a.mean(),
        lambda a: a.max(),
        lambda a: a.argmax(),
        lambda a: np.add.reduce(a, None),
        lambda a: np.median(a),
        lambda a: a.reshape(-1)[:1].reshape(()) + 1,
        lambda a: np.dot(a[0], a[1]),
        lambda a: (a > 1).all(),
        lambda a: np.linalg.norm(a),
    ):
        assert type(take(out)) is type(take(plain)), take(out)
        assert take(out) == take(plain)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_needs_numpy_only(protocol):
    out = one((1, 2))
    again = pickle.loads(pickle.dumps(out, protocol))
    assert type(again) is np.ndarray
    np.testing.assert_array_equal(again, out)
    np.testing.assert_array_equal(copy.deepcopy(out), out)


def test_an_array_can_be_written_to():
    out = one((2, 2))
    got = np.add(out, 1, out=out)
    assert got is out and out[0, 0] == 3.5
    out += 1
    assert out[1, 1] == 4.5
    total = np.zeros((), "float32")
    assert np.add.reduce(out.reshape(-1)[:2], out=total) is total and total == 9


@pytest.mark.parametrize(
    "value, expected",
    [(3.0, 6.0), (3, 6.0), (True, 2.0), (np.float64(3), 6.0), (np.int32(3), 6.0), (np.bool_(1), 2.0)],
)
def test_a_number_is_fed_in_the_type_of_its_variable(value, expected):
    x = fluid.data("x", [1])
    out = fluid.Executor().run(feed={"x": value}, fetch_list=[x * 2.0])[0]
    assert out.dtype == np.float32 and out.shape == (1,) and float(out) == expected


@pytest.mark.parametrize("value", ["3", None, [3.0], object()])
def test_what_is_no_number_is_not_fed(value):
    x = fluid.data("x", [1])
    with pytest.raises(RuntimeError, match=r"feed\['x'\] is a"):
        fluid.Executor().run(feed={"x": value}, fetch_list=[x * 2.0])


def test_lengths_given_to_a_tensor_stay():
    tensor = fluid.LoDTensor([[2, 3]])
    assert tensor.recursive_sequence_lengths() == [[2, 3]] and tensor.lod() == [[0, 2, 5]]
    tensor.set(np.zeros((5, 1), "float32"))
    assert tensor.lod() == [[0, 2, 5]] and tensor.has_valid_recursive_sequence_lengths()
    tensor.set(np.zeros((7, 1), "float32"))
    assert tensor.lod() == [[0, 2, 5]] and not tensor.has_valid_recursive_sequence_lengths()


def test_lengths_that_do_not_nest_are_refused():
    with pytest.raises(fluid.core.EnforceNotMet, match="recursive_sequence_lengths info is invalid"):
        fluid.LoDTensor([[1], [3, 4]])


def test_lengths_of_other_rows_are_not_fed():
    x = fluid.data("x", [-1, 1], lod_level=1)
    out = fluid.layers.sequence_pool(x, "sum")
    tensor = fluid.LoDTensor([[2, 3]])
    tensor.set(np.zeros((7, 1), "float32"))
    with pytest.raises(fluid.core.EnforceNotMet, match="lod info is invalid"):
        fluid.Executor().run(feed={"x": tensor}, fetch_list=[out])
