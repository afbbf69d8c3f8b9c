"""Layers that move, make and repeat: their numbers and their refusals."""

import numpy as np
import pytest

import paddlewheel.fluid as fluid
from paddlewheel.fluid import layers
from paddlewheel.fluid.layer_helper import LayerHelper


def run(fetch, feed=None, times=1):
    """The values of variables after the program has run so many times."""
    exe = fluid.Executor(fluid.CPUPlace())
    if fluid.default_startup_program().global_block().ops:
        exe.run(fluid.default_startup_program())
    for _ in range(times):
        got = exe.run(fluid.default_main_program(), feed=feed or {}, fetch_list=list(fetch))
    return got


def cube():
    """A variable of 2 x 3 x 4 with 0, 1, … in it, and its numbers."""
    x = layers.data("x", [2, 3, 4], append_batch_size=False)
    return x, {"x": np.arange(24, dtype="float32").reshape(2, 3, 4)}


def number(value, dtype="int64"):
    """A variable of one number."""
    return layers.fill_constant([1], dtype, value)


def words():
    """Two sequences of two and three rows."""
    x = layers.data("w", [2], lod_level=1)
    rows = np.arange(10, dtype="float32").reshape(5, 2)
    return x, {"w": fluid.create_lod_tensor(rows, [[2, 3]], fluid.CPUPlace())}, rows


SAME = {
    "concat": (lambda x: layers.concat([x, x], axis=1), lambda a: np.concatenate([a, a], 1)),
    "concat_from_the_end": (
        lambda x: layers.concat([x, x], axis=-1),
        lambda a: np.concatenate([a, a], -1),
    ),
    "concat_of_one": (lambda x: layers.concat(x), lambda a: a),
    "sums": (lambda x: layers.sums([x, x]), lambda a: a + a),
    "sum": (lambda x: layers.sum([x, x, x]), lambda a: 3 * a),
    "split": (lambda x: layers.split(x, 2, dim=0)[1], lambda a: a[1:]),
    "split_where_a_variable_says": (
        lambda x: layers.split(x, 2, dim=number(2, "int32"))[1],
        lambda a: a[:, :, 2:],
    ),
    "split_into_what_variables_say": (
        lambda x: layers.split(x, [number(1, "int32"), 2], dim=1)[1],
        lambda a: a[:, 1:],
    ),
    "split_at_a_tuple": (lambda x: layers.split(x, (1, 2), dim=-2)[0], lambda a: a[:, :1]),
    "concat_where_a_variable_says": (
        lambda x: layers.concat([x, x], axis=number(1, "int32")),
        lambda a: np.concatenate([a, a], 1),
    ),
    "unsqueeze_where_variables_say": (
        lambda x: layers.unsqueeze(x, [number(0, "int32"), 2]),
        lambda a: a[None, :, None],
    ),
    "unsqueeze_where_a_variable_says": (
        lambda x: layers.unsqueeze(x, number(1, "int32")),
        lambda a: a[:, None],
    ),
    "the_last_by_a_variable": (lambda x: x[number(-1, "int32")], lambda a: a[-1]),
    "split_at": (lambda x: layers.split(x, [1, -1], dim=1)[1], lambda a: a[:, 1:]),
    "reshape": (lambda x: layers.reshape(x, [0, -1]), lambda a: a.reshape(2, 12)),
    "reshape_by_numpy": (
        lambda x: layers.reshape(x, (np.int64(4), np.int32(-1))),
        lambda a: a.reshape(4, 6),
    ),
    "reshape_by_variables": (
        lambda x: layers.reshape(x, [number(6, "int32"), 4]),
        lambda a: a.reshape(6, 4),
    ),
    "reshape_by_the_rest": (
        lambda x: layers.reshape(x, [number(6, "int32"), -1]),
        lambda a: a.reshape(6, 4),
    ),
    "reshape_by_one": (
        lambda x: layers.reshape(x, layers.assign(np.array([3, 8], "int32"))),
        lambda a: a.reshape(3, 8),
    ),
    "transpose": (lambda x: layers.transpose(x, [2, 0, 1]), lambda a: a.transpose(2, 0, 1)),
    "unsqueeze": (lambda x: layers.unsqueeze(x, [1]), lambda a: a[:, None]),
    "unsqueeze_one": (lambda x: layers.unsqueeze(x, 0), lambda a: a[None]),
    "squeeze": (lambda x: layers.squeeze(layers.unsqueeze(x, [1]), [1]), lambda a: a),
    "flatten": (lambda x: layers.flatten(x, axis=2), lambda a: a.reshape(6, 4)),
    "expand": (lambda x: layers.expand(x, [1, 2, 1]), lambda a: np.tile(a, (1, 2, 1))),
    "expand_by_variables": (
        lambda x: layers.expand(x, [1, number(2, "int32"), 1]),
        lambda a: np.tile(a, (1, 2, 1)),
    ),
    "stack": (lambda x: layers.stack([x, x], axis=1), lambda a: np.stack([a, a], 1)),
    "unstack": (lambda x: layers.unstack(x, axis=1)[2], lambda a: a[:, 2]),
    "slice": (lambda x: layers.slice(x, [1, 2], [1, -3], [3, 4]), lambda a: a[:, 1:3, -3:]),
    "slice_by_variables": (
        lambda x: layers.slice(x, [1], [number(1, "int32")], [3]),
        lambda a: a[:, 1:3],
    ),
    "pad": (
        lambda x: layers.pad(x, [0, 0, 1, 0, 0, 2], pad_value=7.0),
        lambda a: np.pad(a, [(0, 0), (1, 0), (0, 2)], constant_values=7.0),
    ),
    "shape": (layers.shape, lambda a: [2, 3, 4]),
    "reverse": (lambda x: layers.reverse(x, [0, 2]), lambda a: a[::-1, :, ::-1]),
    "cumsum": (layers.cumsum, lambda a: a.cumsum(-1)),
    "cumsum_back": (
        lambda x: layers.cumsum(x, axis=0, reverse=True),
        lambda a: a[::-1].cumsum(0)[::-1],
    ),
    "where": (lambda x: layers.where(x > 20.0), lambda a: np.argwhere(a > 20)),
    "assign": (layers.assign, lambda a: a),
    "zeros_like": (layers.zeros_like, np.zeros_like),
    "ones_like": (layers.ones_like, np.ones_like),
    "batch_size_like": (
        lambda x: layers.fill_constant_batch_size_like(x, [1, 5], "float32", 3.0),
        lambda a: np.full((2, 5), 3.0),
    ),
    "one": (lambda x: x[1], lambda a: a[1]),
    "one_by_numpy": (lambda x: x[np.int64(1)], lambda a: a[1]),
    "last": (lambda x: x[-1], lambda a: a[-1]),
    "one_number": (lambda x: x[1, 2, 3], lambda a: a[1, 2, 3:]),
    "from": (lambda x: x[1:], lambda a: a[1:]),
    "before_the_end": (lambda x: x[:, :-1], lambda a: a[:, :-1]),
    "range": (lambda x: x[:, 1:3, 0], lambda a: a[:, 1:3, 0]),
    "rest": (lambda x: x[..., 0], lambda a: a[..., 0]),
    "between": (lambda x: x[0, ..., 1:], lambda a: a[0, ..., 1:]),
    "back_to_front": (lambda x: x[::-1], lambda a: a[::-1]),
    "by_a_variable": (lambda x: x[number(1, "int32")], lambda a: a[1]),
    "iterated": (lambda x: list(x)[1], lambda a: a[1]),
}


@pytest.mark.parametrize("case", SAME)
def test_numbers_are_numpys(case):
    """A layer gives what numpy gives."""
    build, expected = SAME[case]
    x, feed = cube()
    got = run([build(x)], feed)[0]
    expected = np.asarray(expected(feed["x"]))
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def test_the_whole_is_no_operator():
    """`x[:]` is x itself, so the program is empty and says so."""
    x, feed = cube()
    with pytest.warns(UserWarning, match="no operators in the program to be executed"):
        got = run([x[:]], feed)[0]
    np.testing.assert_array_equal(got, feed["x"])


def test_names_and_shapes_of_parts():
    """`x[...]` is called `<x>_slice_N`, and drops what a number names."""
    x = layers.data("x", [3, 4])
    assert (x[0].name, x[:, 1].shape, x[..., 1:].name) == ("x_slice_0", (-1, 4), "x_slice_2")
    assert x[::-1].name == "x_slice_reverse_0"
    assert x[:].name == "x"
    op = fluid.default_main_program().global_block().ops[1]
    assert (op.type, op.attr("decrease_axis"), op.attr("ends")) == ("slice", [1], [2])


@pytest.mark.parametrize("index", [2, -3, (0, 0, 0, 0), (Ellipsis, Ellipsis), slice(None, None, -2)])
def test_parts_that_are_not_there(index):
    """An index beyond the variable is a ValueError."""
    x, _ = cube()
    with pytest.raises(ValueError, match="Variable"):
        x[index]


def test_an_index_of_another_type():
    """An index must be a number, a range or a Variable."""
    x, _ = cube()
    for index in ("a", None, 1.5):
        with pytest.raises(TypeError, match="indexed"):
            x[index]


def test_unknown_sizes_end_no_iteration():
    """A batch of unknown size is not a list."""
    with pytest.raises(TypeError, match="`y`"):
        list(layers.data("y", [3]))


def test_rows_by_number():
    """gather, gather_nd, scatter and multiplex pick rows."""
    x, feed = cube()
    a = feed["x"]
    rows = layers.assign(np.array([1, 1, 0], "int32"))
    places = layers.assign(np.array([[1, 2], [0, 1]], "int32"))
    m = layers.reshape(x, [6, 4])
    new = layers.fill_constant([2, 4], "float32", -1.0)
    at = layers.assign(np.array([0, 5], "int32"))
    choice = layers.assign(np.array([[1], [0], [1], [0], [0], [1]], "int32"))
    outs = [
        layers.gather(m, rows),
        layers.gather_nd(x, places),
        layers.scatter(m, at, new),
        layers.multiplex([m, m + 100.0], choice),
    ]
    gathered, picked, scattered, mixed = run(outs, feed)
    b = a.reshape(6, 4)
    np.testing.assert_array_equal(gathered, b[[1, 1, 0]])
    np.testing.assert_array_equal(picked, a[[1, 0], [2, 1]])
    assert (scattered[[0, 5]] == -1).all() and (scattered[1:5] == b[1:5]).all()
    np.testing.assert_array_equal(mixed, b + 100 * np.array([[1], [0], [1], [0], [0], [1]]))


def test_variables_of_known_numbers():
    """Constants, arrays, ranges and random numbers."""
    made = [
        layers.fill_constant([2], "int64", 7),
        layers.fill_constant([number(2, "int32"), 3], "float32", 1.5),
        layers.fill_constant([2], "float32", number(4.5, "float32")),
        layers.zeros([2, 2], "float32"),
        layers.ones((3,), np.int32),
        layers.assign(np.array([1 << 40, -3])),
        layers.assign(np.array([True, False])),
        layers.range(1, 10, 3, "int64"),
        layers.uniform_random([100], min=2.0, max=3.0, seed=3),
        layers.gaussian_random((1000,), mean=5.0, std=0.1, seed=3),
    ]
    got = run(made)
    np.testing.assert_array_equal(got[0], [7, 7])
    assert got[0].dtype == np.int64 and got[4].dtype == np.int32
    np.testing.assert_array_equal(got[1], np.full((2, 3), 1.5))
    np.testing.assert_array_equal(got[2], [4.5, 4.5])
    assert not got[3].any() and got[4].tolist() == [1, 1, 1]
    assert got[5].tolist() == [1 << 40, -3] and got[6].tolist() == [True, False]
    assert got[7].tolist() == [1, 4, 7]
    assert ((got[8] >= 2) & (got[8] < 3)).all()
    assert abs(got[9].mean() - 5) < 0.02 and 0.08 < got[9].std() < 0.12


def test_variables_that_startup_fills():
    """create_parameter, create_global_var, the counter of steps, create_tensor."""
    w = layers.create_parameter(
        [2, 3], "float32", name="w", default_initializer=fluid.initializer.Constant(2.0)
    )
    b = layers.create_parameter([3], "float32", is_bias=True)
    g = layers.create_global_var([1], 5, "int64", persistable=True, name="g")
    step = layers.autoincreased_step_counter()
    t = layers.create_tensor("float32", name="t")
    layers.assign(w, t)
    got = run([w, b, g, step, t], times=3)
    assert (w.name, b.name) == ("w", "create_parameter_0.b_0")
    assert (got[0] == 2).all() and not got[1].any() and got[2].tolist() == [5]
    assert got[3].tolist() == [3]
    np.testing.assert_array_equal(got[4], got[0])


def test_sequences():
    """Layers over sequences see where one ends."""
    x, feed, rows = words()
    padded, length = layers.sequence_pad(x, number(0.0, "float32"))
    outs = [
        layers.sequence_pool(x, "sum"),
        layers.sequence_pool(x, "MAX"),
        layers.sequence_first_step(x),
        layers.sequence_last_step(x),
        layers.sequence_reverse(x),
        padded,
        length,
        layers.sequence_unpad(padded, length),
        layers.sequence_mask(length, maxlen=4, dtype="int32"),
        layers.sequence_concat([x, x]),
        layers.sequence_expand_as(layers.sequence_pool(x, "last"), x),
        layers.sequence_reshape(x, 1),
        layers.sequence_pool(layers.lod_reset(x, target_lod=[0, 1, 5]), "sum"),
    ]
    exe = fluid.Executor()
    got = exe.run(feed=feed, fetch_list=outs, return_numpy=False)
    a = [np.array(tensor) for tensor in got]
    np.testing.assert_array_equal(a[0], [rows[:2].sum(0), rows[2:].sum(0)])
    np.testing.assert_array_equal(a[1], rows[[1, 4]])
    np.testing.assert_array_equal(a[2], rows[[0, 2]])
    np.testing.assert_array_equal(a[3], rows[[1, 4]])
    np.testing.assert_array_equal(a[4], rows[[1, 0, 4, 3, 2]])
    assert a[5].shape == (2, 3, 2) and not a[5][0, 2].any()
    assert a[6].ravel().tolist() == [2, 3]
    np.testing.assert_array_equal(a[7], rows)
    np.testing.assert_array_equal(a[8], [[1, 1, 0, 0], [1, 1, 1, 0]])
    np.testing.assert_array_equal(a[9], rows[[0, 1, 0, 1, 2, 3, 4, 2, 3, 4]])
    np.testing.assert_array_equal(a[10], rows[[1, 1, 4, 4, 4]])
    assert got[11].recursive_sequence_lengths() == [[4, 6]]
    np.testing.assert_array_equal(a[12], [rows[0], rows[1:].sum(0)])


def test_recurrent_layers_have_fluids_shapes():
    """dynamic_lstm, dynamic_gru, gru_unit, lstm_unit and the chain of labels run."""
    x, feed, _ = words()
    hidden, cell = layers.dynamic_lstm(layers.fc(x, 12), size=12, use_peepholes=False)
    gru = layers.dynamic_gru(layers.fc(x, 9), size=3, is_reverse=True)
    state, reset, gate = layers.gru_unit(layers.fc(x, 9), gru, size=9)
    h, c = layers.lstm_unit(x, hidden, cell, forget_bias=1.0)
    label = layers.data("l", [1], dtype="int64", lod_level=1)
    feed["l"] = fluid.create_lod_tensor(np.array([[0], [2], [1], [1], [0]]), [[2, 3]], None)
    crf = fluid.ParamAttr(name="crfw")
    cost = layers.linear_chain_crf(gru, label, param_attr=crf)
    path = layers.crf_decoding(gru, param_attr=crf)
    outs = [hidden, cell, gru, state, reset, gate, h, c, cost, path]
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    got = exe.run(feed=feed, fetch_list=outs, return_numpy=False)
    shapes = [np.array(tensor).shape for tensor in got]
    assert shapes == [(5, 3)] * 5 + [(5, 9), (5, 3), (5, 3), (2, 1), (5, 1)]
    assert hidden.shape == (-1, 3)


def test_a_learning_rate_by_switch():
    """The first case that holds gives the rate, else the default."""
    step = layers.autoincreased_step_counter("@STEP@", begin=0)
    rate = layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
    with layers.Switch() as switch:
        with switch.case(layers.less_than(step, number(2))):
            layers.assign(number(1.0, "float32"), rate)
        with switch.case(layers.less_than(step, number(4))):
            layers.assign(number(0.5, "float32"), rate)
        with switch.default():
            layers.assign(number(0.25, "float32"), rate)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    rates = [float(exe.run(fetch_list=[rate])[0][0]) for _ in range(6)]
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    kinds = [op.type for op in fluid.default_main_program().global_block().ops]
    assert kinds.count("conditional_block") == 3


def test_schedules():
    """Each schedule gives its formula, from step 0 on."""
    schedules = {
        "exponential": (layers.exponential_decay(0.1, 2, 0.5), lambda s: 0.1 * 0.5 ** (s / 2)),
        "stairs": (layers.exponential_decay(0.1, 2, 0.5, True), lambda s: 0.1 * 0.5 ** (s // 2)),
        "natural": (layers.natural_exp_decay(0.1, 2, 0.5), lambda s: 0.1 * np.exp(-0.5 * s / 2)),
        "inverse": (layers.inverse_time_decay(0.1, 2, 0.5), lambda s: 0.1 / (1 + 0.5 * s / 2)),
        "polynomial": (
            layers.polynomial_decay(0.1, 4, 0.01, power=2.0),
            lambda s: 0.09 * (1 - min(s, 4) / 4) ** 2 + 0.01,
        ),
        "piecewise": (
            layers.piecewise_decay([2, 4], [1.0, 0.5, 0.1]),
            lambda s: 1.0 if s < 2 else 0.5 if s < 4 else 0.1,
        ),
        "cosine": (
            layers.cosine_decay(0.1, 2, 10),
            lambda s: 0.05 * (np.cos(s // 2 * np.pi / 10) + 1),
        ),
        "warmup": (
            layers.linear_lr_warmup(0.1, 4, 0.0, 0.2),
            lambda s: 0.2 * s / 4 if s < 4 else 0.1,
        ),
    }
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    outs = [var for var, _ in schedules.values()]
    for step in range(6):
        for name, got in zip(schedules, exe.run(fetch_list=outs)):
            assert got[0] == pytest.approx(schedules[name][1](step), rel=1e-5), (name, step)


def test_a_schedule_drives_an_optimizer():
    """A rate computed by the program is the rate of the step."""
    w = layers.create_parameter([1], "float32", default_initializer=fluid.initializer.Constant(0.0))
    fluid.optimizer.SGD(layers.piecewise_decay([1], [1.0, 0.25])).minimize(layers.mean(w))
    assert run([w], times=3)[0].tolist() == [-1.5]


def test_while():
    """A loop adds the numbers below ten."""
    i, n, total = number(0), number(10), number(0)
    going = layers.less_than(i, n)
    with layers.While(going).block():
        layers.assign(total + i, total)
        layers.increment(i)
        layers.less_than(i, n, cond=going)
    assert [int(v[0]) for v in run([total, i])] == [45, 10]


def test_while_loop_and_cond():
    """The same with functions; lists come back as they went in."""
    i, total = number(0), number(0)
    outs = layers.while_loop(lambda i, t: i < 10, lambda i, t: [i + 1, t + i], [i, total])
    assert [v.name for v in outs] == [i.name, total.name]
    big = layers.cond(total > 40, lambda: (total, i), lambda: (i, total))
    small = layers.cond(total < 40, lambda: total + 1, lambda: total - 1)
    assert isinstance(big, tuple)
    assert [int(v[0]) for v in run([*outs, *big, small])] == [10, 45, 45, 10, 44]


def test_lists_of_tensors():
    """Values that are written into a list can be read, counted and joined."""
    x, feed = cube()
    array = layers.create_array("float32")
    zero, one = number(0), number(1)
    layers.array_write(x, zero, array)
    layers.array_write(x + 1.0, one, array)
    joined, sizes = layers.tensor_array_to_tensor(array, axis=0)
    outs = [layers.array_length(array), layers.array_read(array, one), joined, sizes]
    n, second, joined, sizes = run(outs, feed)
    assert n.tolist() == [2] and sizes.tolist() == [2, 2]
    np.testing.assert_array_equal(second, feed["x"] + 1)
    np.testing.assert_array_equal(joined, np.concatenate([feed["x"], feed["x"] + 1]))


def test_layer_helper():
    """A layer written by a script: parameters, state, operators, activation."""

    def scaled(input, param_attr=None, bias_attr=None, act=None, name=None):
        helper = LayerHelper("scaled", **locals())
        dtype = helper.input_dtype()
        w = helper.create_parameter(
            helper.param_attr, [4], dtype, default_initializer=fluid.initializer.Constant(2.0)
        )
        calls, is_new = helper.create_or_get_global_variable(
            "calls", persistable=True, dtype="float32", shape=[1]
        )
        if is_new:
            helper.set_variable_initializer(calls, fluid.initializer.Constant(10.0))
        helper.append_op("increment", {"X": calls}, {"Out": calls}, {"step": 1.0})
        out = helper.create_variable_for_type_inference(dtype)
        helper.append_op(
            type="elementwise_mul",
            inputs={"X": [helper.input()], "Y": [w]},
            outputs={"Out": [out]},
            attrs={"axis": -1},
        )
        return helper.append_activation(helper.append_bias_op(out))

    x, feed = cube()
    y = scaled(x - 3.0, act="relu")
    scaled(x, param_attr="other", bias_attr=False, name="mine")
    names = [p.name for p in fluid.default_main_program().all_parameters()]
    assert names == ["scaled_0.w_0", "scaled_0.b_0", "other"]
    got, calls = run([y, "calls"], feed)
    np.testing.assert_array_equal(got, np.maximum(feed["x"] * 2 - 6, 0))
    assert calls.tolist() == [12.0]
    with pytest.raises(TypeError, match="scaled"):
        scaled(3)


BAD = {
    "concat": (TypeError, lambda x: layers.concat(5)),
    "concat ": (TypeError, lambda x: layers.concat([x, 3])),
    "concat  ": (TypeError, lambda x: layers.concat([x, x], axis="a")),
    "concat   ": (TypeError, lambda x: layers.concat([x], axes=1)),
    "concat    ": (ValueError, lambda x: layers.concat([])),
    "split": (TypeError, lambda x: layers.split(x, "two")),
    "split ": (TypeError, lambda x: layers.split(x, 2.5)),
    "reshape": (TypeError, lambda x: layers.reshape(x, "a")),
    "reshape ": (TypeError, lambda x: layers.reshape(np.ones(3), [3])),
    "transpose": (TypeError, lambda x: layers.transpose(x, "perm")),
    "gather": (TypeError, lambda x: layers.gather(x, 3)),
    "assign": (TypeError, lambda x: layers.assign([1, 2])),
    "assign ": (TypeError, lambda x: layers.assign(np.zeros(2))),
    "assign  ": (ValueError, lambda x: layers.assign(np.zeros(1 << 21, "float32"))),
    "fill_constant": (TypeError, lambda x: layers.fill_constant("a", "float32", 1)),
    "uniform_random": (TypeError, lambda x: layers.uniform_random([2], dtype="int64")),
    "create_parameter": (TypeError, lambda x: layers.create_parameter([2], "float32", attr=False)),
    "create_parameter ": (TypeError, lambda x: layers.create_parameter(3, "float32")),
    "lod_reset": (ValueError, lambda x: layers.lod_reset(x)),
    "lod_append": (ValueError, lambda x: layers.lod_append(x, 3)),
    "array_write": (TypeError, lambda x: layers.array_write(x, 4)),
    "Switch": (ValueError, lambda x: layers.Switch().case(x)),
    "Switch ": (ValueError, lambda x: layers.Switch().default()),
    "While": (TypeError, lambda x: layers.While(3)),
    "While ": (TypeError, lambda x: layers.While(x)),
    "cond": (TypeError, lambda x: layers.cond(x, lambda: x, lambda: x)),
    "while_loop": (TypeError, lambda x: layers.while_loop(3, 4, [x])),
    "while_loop ": (ValueError, lambda x: layers.while_loop(lambda i: i, lambda i: i, [])),
    "piecewise_decay": (ValueError, lambda x: layers.piecewise_decay([1], [1.0])),
    "exponential_decay": (ValueError, lambda x: layers.exponential_decay(0.1, 0, 0.5)),
    "exponential_decay ": (TypeError, lambda x: layers.exponential_decay("a", 1, 0.5)),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals_name_the_layer(case):
    """A wrong argument is a TypeError or a ValueError that names the layer."""
    kind, build = BAD[case]
    x, _ = cube()
    with pytest.raises(kind, match=case.strip()):
        build(x)


def test_blocks_close_after_an_exception():
    """An exception inside of a part leaves layers writing where they wrote before."""
    going = layers.less_than(number(0), number(1))
    with pytest.raises(KeyError):
        with layers.While(going).block():
            raise KeyError
    with pytest.raises(KeyError):
        with layers.Switch() as switch, switch.case(going):
            raise KeyError
    with pytest.raises(KeyError):
        layers.cond(going, lambda: {}["a"])
    assert fluid.default_main_program().current_block().idx == 0
    with pytest.raises(ValueError, match="While.*change"):
        with layers.While(going).block():
            number(3)
    assert run([number(4)])[0].tolist() == [4]


def test_switch_needs_a_case_first():
    """`default` alone is refused, as is a condition that is not a truth value."""
    with layers.Switch() as switch:
        with pytest.raises(ValueError, match="Switch.*at least one"):
            switch.default()
        with pytest.raises(TypeError, match="Switch"):
            switch.case(number(1))
        with pytest.raises(TypeError, match="Switch"):
            switch.case(3)
