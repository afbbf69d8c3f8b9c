"""Networks of steps, and choices between parts of a program."""

import numpy
import pytest

from paddlewheel import fluid

T, B, D, H = 4, 3, 2, 5


def network(n_steps=T):
    """Two memories, shared weights, two results."""
    x = fluid.data("x", [n_steps, B, D], "float32")
    h0 = fluid.data("h0", [B, H], "float32")
    x.stop_gradient = h0.stop_gradient = False
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        x_t = rnn.step_input(x)
        h = rnn.memory(init=h0)
        c = rnn.memory(shape=[-1, H], batch_ref=x_t, init_value=0.5)
        weight = fluid.ParamAttr("W", initializer=fluid.initializer.Constant(0.1))
        a = fluid.layers.fc(x_t, H, param_attr=weight, bias_attr=False)
        weight = fluid.ParamAttr("U", initializer=fluid.initializer.Constant(0.2))
        b = fluid.layers.fc(h, H, param_attr=weight, bias_attr=fluid.ParamAttr("b"))
        n = fluid.layers.tanh(a + b + c)
        m = c * 0.5 + n
        rnn.update_memory(h, n)
        rnn.update_memory(c, m)
        rnn.step_output(n)
        rnn.output(m)
    o, p = rnn()
    return fluid.layers.mean(o * o) + fluid.layers.mean(p)


def fed():
    random = numpy.random.RandomState(0)
    return {
        "x": random.rand(T, B, D).astype("float32"),
        "h0": random.rand(B, H).astype("float32"),
    }


@pytest.mark.parametrize("n_steps", [T, -1])
def test_gradients_are_those_of_fluid(n_steps):
    """The numbers are what Fluid 1.8.5 gives for this program."""
    loss = network(n_steps)
    pairs = fluid.backward.append_backward(loss)
    assert [param.name for param, _ in pairs] == ["W", "U", "b"]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    wanted = [loss, "x@GRAD", "h0@GRAD", *[grad for _, grad in pairs]]
    loss, x, h0, w, u, b = exe.run(feed=fed(), fetch_list=wanted)
    close = lambda found, first: numpy.testing.assert_allclose(found.ravel()[: len(first)], first, 1e-5)
    close(loss, [2.4242043])
    close(x, [0.01222738, 0.01222738, 0.01207088, 0.01207088, 0.01095226, 0.01095226])
    close(h0, [0.02445477] * 5 + [0.02414175])
    close(w, [0.0494415] * 5 + [0.05707236])
    close(u, [0.03041419] * 5 + [0.05266453])
    close(b, [0.09038132] * 5)
    assert (x.shape, h0.shape, u.shape) == ((T, B, D), (B, H), (H, H))


def test_training_is_that_of_fluid():
    loss = network()
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    losses = [float(exe.run(feed=fed(), fetch_list=[loss])[0].ravel()[0]) for _ in range(5)]
    expected = [2.4242043, 2.3377752, 2.1337766, 1.0591762, -0.4336055]
    numpy.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_the_program_is_as_fluid_writes_it():
    network()
    recurrent = next(op for op in fluid.default_main_program().global_block().ops if op.type == "recurrent")
    assert recurrent.input("inputs") == ["x"]
    assert recurrent.input("initial_states") == ["h0", "static_rnn_0@memory_boot_0"]
    assert sorted(recurrent.input("parameters")) == ["U", "W", "b"]
    assert recurrent.attr("ex_states") == ["static_rnn_0@mem_0", "static_rnn_0@mem_1"]
    assert recurrent.attr("has_states") is True
    assert recurrent._block_attr("sub_block").vars["x"].shape == (B, D)


def test_a_table_that_is_looked_up_in_each_step_learns():
    ids = fluid.data("ids", [T, B, 1], "int64")
    nothing = fluid.layers.fill_constant([B, H], "float32", 0)
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        row = fluid.layers.embedding(rnn.step_input(ids), [7, H], is_sparse=True, param_attr="table")
        total = rnn.memory(init=nothing)
        new = total + row
        rnn.update_memory(total, new)
        rnn.step_output(new)
    loss = fluid.layers.mean(fluid.layers.square(rnn()))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"ids": numpy.arange(T * B).reshape(T, B, 1) % 7}
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0].ravel()[0]) for _ in range(9)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 2


def test_what_is_wrong_is_refused():
    rnn = fluid.layers.StaticRNN()
    x = fluid.data("x", [T, B, D], "float32")
    with pytest.raises(ValueError, match="inside `with rnn.step\\(\\)`"):
        rnn.step_input(x)
    with pytest.raises(ValueError, match="only be retrieved after rnn block"):
        rnn()
    with pytest.raises(ValueError, match="should be updated in every step"):
        with rnn.step():
            rnn.memory(shape=[-1, D], batch_ref=rnn.step_input(x))
    # Layers write into the program as before.
    assert fluid.default_main_program().current_block().idx == 0
    other = fluid.layers.StaticRNN()
    with pytest.raises(TypeError, match="'x' in fluid.layers.StaticRNN.step_input must be"):
        with other.step():
            other.step_input("x")
    with pytest.raises(ValueError, match="memory at least need shape and batch_ref"):
        with fluid.layers.StaticRNN().step() as _, fluid.layers.StaticRNN().step():
            rnn.memory()


def constant(value):
    return lambda: fluid.layers.fill_constant([1], "float32", value)


def run(result):
    exe = fluid.Executor(fluid.CPUPlace())
    return float(exe.run(fetch_list=[result])[0].ravel()[0])


def test_the_first_case_that_holds():
    x = fluid.layers.fill_constant([1], "float32", 0.3)
    small = fluid.layers.less_than(x, fluid.layers.fill_constant([1], "float32", 0.1))
    medium = fluid.layers.less_than(x, fluid.layers.fill_constant([1], "float32", 0.5))
    large = fluid.layers.less_than(x, fluid.layers.fill_constant([1], "float32", 9.0))
    pairs = [(small, constant(1)), (medium, constant(2)), (large, constant(3))]
    assert run(fluid.layers.case(pairs)) == 2
    assert run(fluid.layers.case([(small, constant(1))], default=constant(7))) == 7
    with pytest.raises(TypeError, match="'pred_fn_pairs' in case must be list or tuple"):
        fluid.layers.case(1)
    with pytest.raises(TypeError, match="The tuple's size of 'pred_fn_pairs' in case must be 2"):
        fluid.layers.case([(small,)])


def test_the_branch_of_a_number():
    two = fluid.layers.fill_constant([1], "int32", 2)
    branches = {1: constant(1), 2: constant(2)}
    assert run(fluid.layers.switch_case(two, branches)) == 2
    assert run(fluid.layers.switch_case(two, [constant(5), constant(6)], default=constant(7))) == 7
    with pytest.raises(ValueError, match="must be unique, but '1' appears"):
        fluid.layers.switch_case(two, [(1, constant(1)), (1, constant(2))])


def test_small_questions():
    nothing = fluid.layers.fill_constant([0], "float32", 1)
    something = fluid.layers.fill_constant([1], "float32", 1)
    words = fluid.data("words", [None, 1], "float32", lod_level=1)
    longest = fluid.layers.max_sequence_len(fluid.layers.lod_rank_table(words))
    answers = [fluid.layers.is_empty(nothing), fluid.layers.is_empty(something), longest]
    fluid.layers.get_places(device_count=2)
    feed = {"words": fluid.create_lod_tensor(numpy.zeros((6, 1), "float32"), [[1, 3, 2]], None)}
    found = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=answers)
    assert [bool(found[0][0]), bool(found[1][0]), int(found[2][0])] == [True, False, 3]


@pytest.mark.parametrize("x, expected", [(2.0, 4.0), (-3.0, 1.0)])
def test_gradients_pass_the_branch_that_was_taken(x, expected):
    """y = x² where x is positive, else x."""
    var = fluid.data("x", [1], "float32")
    var.stop_gradient = False
    positive = fluid.layers.greater_than(var, fluid.layers.fill_constant([1], "float32", 0))
    y = fluid.layers.cond(positive, lambda: fluid.layers.square(var), lambda: var * 1.0)
    grads = fluid.gradients(fluid.layers.mean(y), var)
    feed = {"x": numpy.array([x], "float32")}
    (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=grads)
    assert float(found[0]) == expected


def test_weights_of_both_branches_learn():
    x = fluid.data("x", [None, 2], "float32")
    label = fluid.data("label", [None, 1], "float32")
    mean = fluid.layers.mean(x)
    positive = fluid.layers.greater_than(mean, fluid.layers.fill_constant([1], "float32", 0))
    left = lambda: fluid.layers.fc(x, 1, param_attr="left")
    right = lambda: fluid.layers.fc(x, 1, param_attr="right")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.cond(positive, left, right), label))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    value = lambda name: numpy.array(fluid.global_scope().find_var(name).get_tensor())
    before = value("left"), value("right")
    feed = {"x": numpy.ones((4, 2), "float32"), "label": numpy.ones((4, 1), "float32")}
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0].ravel()[0]) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert not numpy.array_equal(value("left"), before[0])
    assert numpy.array_equal(value("right"), before[1])


def test_rows_go_two_ways_and_meet_again():
    """y = x² for rows whose first number is positive, else -x; as Fluid's IfElse."""
    x = fluid.data("x", [None, 1], "float32")
    x.stop_gradient = False
    zero = fluid.layers.fill_constant_batch_size_like(x, [-1, 1], "float32", 0)
    ways = fluid.layers.IfElse(fluid.layers.greater_than(x, zero))
    with ways.true_block():
        ways.output(fluid.layers.square(ways.input(x)))
    with ways.false_block():
        ways.output(fluid.layers.scale(ways.input(x), -1.0))
    (y,) = ways()
    (grad,) = fluid.gradients(fluid.layers.reduce_sum(y), x)
    exe = fluid.Executor(fluid.CPUPlace())
    for numbers in ([[2], [-3], [4]], [[2], [4], [1]], [[-3], [-1], [0]]):
        numbers = numpy.array(numbers, "float32")
        found, slope = exe.run(feed={"x": numbers}, fetch_list=[y, grad])
        positive = numbers > 0
        numpy.testing.assert_array_equal(found, numpy.where(positive, numbers**2, -numbers))
        numpy.testing.assert_array_equal(slope, numpy.where(positive, 2 * numbers, -1))


def test_ways_that_do_not_fit_are_refused():
    x = fluid.data("x", [None, 1], "float32")
    zero = fluid.layers.fill_constant_batch_size_like(x, [-1, 1], "float32", 0)
    ways = fluid.layers.IfElse(fluid.layers.greater_than(x, zero))
    with pytest.raises(ValueError, match="Must invoke true_block/false_block before __call__"):
        ways()
    with pytest.raises(ValueError, match="inside true_block or false_block"):
        ways.input(x)
    with pytest.raises(TypeError, match="'cond' in fluid.layers.IfElse must be Variable"):
        fluid.layers.IfElse(1)


def test_a_block_that_runs_if_nothing_it_reads_is_empty():
    from paddlewheel.fluid.layers.control_flow import ConditionalBlock

    x = fluid.data("x", [None, 1], "float32")
    x.stop_gradient = False
    y = fluid.layers.create_tensor("float32")
    block = ConditionalBlock(inputs=[x])
    with block.block():
        fluid.layers.assign(fluid.layers.scale(x, 3.0), y)
    feed = {"x": numpy.array([[2.0]], "float32")}
    (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[y])
    assert float(found[0][0]) == 6
