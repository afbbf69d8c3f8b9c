"""Arrays of numpy, however they lie in memory, on every way in; and what comes out again."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import paddlewheel.fluid as fluid

TYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
#: The types that layers.assign and the feeds of the tests below compute with.
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
    # The form of pandas.read_csv(..)[columns].values.
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


def test_what_is_fed_to_a_persistable_variable_stays():
    state = fluid.data("state", [1])
    state.persistable = True
    block = fluid.default_main_program().global_block()
    block.append_op("scale", {"X": state}, {"Out": state}, {"bias": 1.0})
    executor = fluid.Executor()
    got = [executor.run(feed=feed, fetch_list=[state])[0] for feed in ({"state": -1.0}, None, None)]
    assert [float(value) for value in got] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", ["double", "float", "f8", float, np.double, np.dtype("float64")])
def test_a_variable_takes_numpys_names_of_types(dtype):
    fp64 = fluid.core.VarDesc.VarType.FP64
    block = fluid.default_main_program().global_block()
    assert fluid.layers.data("a", [1], dtype=dtype).dtype == fp64
    assert fluid.data("b", [1], dtype).dtype == fp64
    assert block.create_var(name="c", shape=[1], dtype=dtype).dtype == fp64
    assert block.create_parameter(name="d", shape=[1], dtype=dtype).dtype == fp64
    assert fluid.layers.create_array(dtype).dtype == fp64
    assert fluid.data("e", [1]).astype(dtype).dtype == fp64


def test_names_that_layers_do_not_take_are_refused():
    with pytest.raises(ValueError, match="dtype must be any of"):
        fluid.layers.fill_constant([1], "double", 1.0)


@pytest.mark.parametrize(
    "shape", [np.array([3, 2]), np.array([3, 2], "int32"), [np.int64(3), np.int64(2)], [np.int32(3), 2]]
)
def test_numbers_of_numpy_are_attributes(shape):
    x = fluid.data("x", [2, 3])
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="out", dtype="float32")
    op = block.append_op("reshape", {"X": x}, {"Out": out}, {"shape": shape})
    assert out.shape == (3, 2) and op.attr("shape") == [3, 2]
    assert fluid.layers.reshape(x, shape).shape == (3, 2)


@pytest.mark.parametrize("scale", [np.float32(2), np.float64(2), np.array(2.0), np.array([2.0]), np.int64(2)])
def test_a_number_of_numpy_is_a_number(scale):
    x = fluid.data("x", [1])
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="out", dtype="float32")
    block.append_op("scale", {"X": x}, {"Out": out}, {"scale": scale, "bias_after_scale": np.bool_(True)})
    assert float(fluid.Executor().run(feed={"x": 3.0}, fetch_list=[out])[0]) == 6.0


def test_a_list_of_tensors_is_fetched():
    x = fluid.layers.fill_constant([2, 2], "float32", 1.0)
    array = fluid.layers.array_write(x, fluid.layers.fill_constant([1], "int64", 0))
    fluid.layers.array_write(x * 2.0, fluid.layers.fill_constant([1], "int64", 1), array)
    executor = fluid.Executor()
    for _ in range(2):
        ((first, second), whole) = executor.run(fetch_list=[array, x])
        np.testing.assert_array_equal(first, np.ones((2, 2)))
        np.testing.assert_array_equal(second, np.full((2, 2), 2.0))
        np.testing.assert_array_equal(whole, first)
    ((first, _),) = executor.run(fetch_list=[array], return_numpy=False)
    assert isinstance(first, fluid.LoDTensor) and first.shape() == [2, 2]


def test_an_axis_may_be_computed():
    x, y = fluid.data("x", [2, 2]), fluid.data("y", [2, 3])
    x.stop_gradient = False
    out = fluid.layers.concat([x, y], axis=fluid.layers.fill_constant([1], "int32", 1))
    assert out.shape == (-1, -1)
    (grad,) = fluid.gradients([out], [x])
    feed = {"x": np.ones((2, 2), "float32"), "y": np.zeros((2, 3), "float32")}
    got, grad = fluid.Executor().run(feed=feed, fetch_list=[out, grad])
    np.testing.assert_array_equal(got, [[1, 1, 0, 0, 0]] * 2)
    np.testing.assert_array_equal(grad, np.ones((2, 2)))


#: x[…] of a variable k that holds 2, and what numpy says.
PLACES = {
    "one": (lambda x, k: x[k], lambda x: x[2]),
    "from": (lambda x, k: x[k:], lambda x: x[2:]),
    "to": (lambda x, k: x[:k], lambda x: x[:2]),
    "one of one": (lambda x, k: x[k, 1], lambda x: x[2, 1:2]),
    "both": (lambda x, k: x[0:k, 1:], lambda x: x[0:2, 1:]),
    "one and from": (lambda x, k: x[k, k:], lambda x: x[2, 2:]),
    "the last": (lambda x, k: x[k - 3.0], lambda x: x[-1]),
    "of numpy": (lambda x, k: x[np.array([1])], lambda x: x[1]),
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("place", PLACES)
def test_a_place_may_be_computed(place, dtype):
    x = fluid.data("x", [4, 3])
    numbers = np.arange(12, dtype="float32").reshape(4, 3)
    by_variable, by_numpy = PLACES[place]
    part = by_variable(x, fluid.layers.fill_constant([1], dtype, 2))
    got = fluid.Executor().run(feed={"x": numbers}, fetch_list=[part])[0]
    np.testing.assert_array_equal(got, by_numpy(numbers))


def test_labels_of_a_rank_loss_may_be_a_vector():
    label, left, right = fluid.data("l", [-1]), fluid.data("a", [-1, 1]), fluid.data("b", [-1, 1])
    out = fluid.layers.rank_loss(label, left, right)
    assert out.shape == (-1,)
    numbers = np.array([0.2, 0.4, 0.9], "float32")
    feed = {"l": numbers, "a": numbers[:, None], "b": numbers[:, None] * 2}
    got = fluid.Executor().run(feed=feed, fetch_list=[out])[0]
    # The numbers of Fluid 1.8.5.
    np.testing.assert_allclose(got, [0.63813895, 0.6730153, 1.1511538], rtol=1e-6)


def test_check_nan_inf_takes_effect_at_once():
    x = fluid.data("x", [1])
    out = fluid.layers.log(x)
    executor = fluid.Executor()
    assert np.isnan(executor.run(feed={"x": -1.0}, fetch_list=[out])[0])
    fluid.set_flags({"FLAGS_check_nan_inf": True})
    try:
        with pytest.raises(fluid.core.EnforceNotMet, match="contains NaN or Inf"):
            executor.run(feed={"x": -1.0}, fetch_list=[out])
    finally:
        fluid.set_flags({"FLAGS_check_nan_inf": False})
    assert np.isnan(executor.run(feed={"x": -1.0}, fetch_list=[out])[0])


def test_a_variable_is_filled_by_its_initializer():
    block = fluid.default_main_program().global_block()
    constant = fluid.initializer.Constant(3.0)
    block.create_var(name="v", shape=[2], dtype="float32", persistable=True, initializer=constant)
    made = block.create_parameter(
        name="w",
        shape=[2],
        dtype="float32",
        initializer=constant,
        regularizer=fluid.regularizer.L2Decay(0.5),
        optimize_attr={"learning_rate": 0.5},
    )
    again = block.create_parameter(name="w", shape=[2], dtype="float32", initializer=constant)
    assert again.name == made.name and [op.type for op in block.ops] == ["fill_constant"] * 2
    assert made.optimize_attr == {"learning_rate": 0.5} and "L2(0.5)" in repr(made.regularizer)
    for value in fluid.Executor().run(fetch_list=["v", "w"]):
        np.testing.assert_array_equal(value, [3.0, 3.0])


def test_the_regularizer_of_a_parameter_is_heard():
    block = fluid.default_main_program().global_block()
    made = block.create_parameter(
        name="w", shape=[1], dtype="float32", regularizer=fluid.regularizer.L2Decay(0.5)
    )
    fluid.global_scope().var("w").get_tensor().set(np.array([1.0], "float32"))
    x = fluid.data("x", [1])
    fluid.optimizer.SGD(1.0).minimize(fluid.layers.mean(x * made))
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    executor.run(feed={"x": 0.0})
    assert float(executor.run(feed={"x": 0.0}, fetch_list=["w"])[0]) == 0.25


def test_an_initializer_must_be_one():
    block = fluid.default_main_program().global_block()
    with pytest.raises(TypeError, match="not callable"):
        block.create_parameter(name="w", shape=[1], dtype="float32", initializer=3)


def test_a_number_as_a_tensor():
    kinds = fluid.core.VarDesc.VarType
    assert fluid.executor._as_lodtensor(1.0, fluid.CPUPlace(), kinds.INT32)._dtype() == kinds.INT32
    with pytest.raises(AssertionError, match="dtype"):
        fluid.executor._as_lodtensor(1, fluid.CPUPlace())
    with pytest.raises(RuntimeError, match="LoD information"):
        fluid.executor._as_lodtensor([1], fluid.CPUPlace(), "float32")


def test_rows_are_made_by_hand():
    rows = fluid.core.SelectedRows([0, 4, 7], 10)
    rows.get_tensor().set(np.ones((3, 2), "float32"), fluid.CPUPlace())
    assert rows.rows() == [0, 4, 7] and rows.height() == 10
    np.testing.assert_array_equal(np.array(rows.get_tensor()), np.ones((3, 2)))


def test_places_know_themselves():
    tensor = fluid.LoDTensor()
    tensor._set_dims([2, 3])
    address = tensor._mutable_data(fluid.CPUPlace(), fluid.core.VarDesc.VarType.FP32)
    assert address == tensor._mutable_data(fluid.CPUPlace()) and address % 4 == 0
    assert tensor._place()._equals(fluid.CPUPlace())
    assert not tensor._place()._equals(fluid.CUDAPlace(0))
    assert fluid.CPUPlace()._type() != fluid.CUDAPlace(0)._type()
