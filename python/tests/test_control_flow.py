"""Loops, branches and recurrent networks learn: losses and gradients of the real Fluid 1.8.5.

Each program starts with seed 7, is trained for three steps with SGD(0.5), and says its losses and the first four numbers
of what it fetches in the first step.
"""

import numpy as np
import pytest

import paddlewheel.fluid as fluid

L = fluid.layers


def lod(rows, lengths):
    return fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())


def data(name, shape, dtype="float32", **kwargs):
    var = fluid.data(name, shape, dtype, **kwargs)
    var.stop_gradient = False
    return var


def numbers(*shape):
    """Numbers without a pattern."""
    n = int(np.prod(shape))
    return ((np.arange(n) * 37 % 101) / 101).astype("float32").reshape(shape)


def dynamic_rnn():
    x, h0, c = data("x", [None, 3], lod_level=1), data("h0", [None, 4]), data("c", [None, 2])
    rnn = L.DynamicRNN()
    with rnn.block():
        word, context = rnn.step_input(x), rnn.static_input(c)
        before = rnn.memory(init=h0, need_reorder=True)
        hidden = L.fc([word, context, before], size=4, act="tanh")
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    last = L.sequence_last_step(rnn())
    feed = {"x": lod(numbers(6, 3), [1, 3, 2]), "h0": numbers(3, 4), "c": numbers(3, 2)}
    return L.mean(last), feed, ["x@GRAD", "h0@GRAD", "c@GRAD", last]


def dynamic_rnn_from_a_value():
    x = data("x", [None, 3], lod_level=1)
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[4], value=0.5)
        hidden = L.fc([word, before], size=4, act="tanh")
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    loss = L.mean(L.sequence_pool(rnn(), "sum"))
    return loss, {"x": lod(numbers(6, 3), [1, 3, 2])}, ["x@GRAD"]


def lists():
    y = L.fc(data("x", [3, 4]), 4)
    i = L.zeros([1], "int64")
    i.stop_gradient = False
    kept = L.array_write(y, i)
    i = L.increment(i)
    L.array_write(L.tanh(y), i, array=kept)
    product = L.array_read(kept, i) * L.array_read(kept, L.zeros([1], "int64"))
    return L.mean(product), {"x": numbers(3, 4)}, ["x@GRAD"]


def loop_in_a_loop():
    parts = [fluid.data("d%d" % k, [10]) for k in range(3)]
    x = data("x", [10])
    i = L.zeros([1], "int64")
    memory = L.array_write(L.zeros([10], "float32"), i)
    steps = L.array_write(parts[0], i)
    for part in parts[1:]:
        i = L.increment(i)
        L.array_write(part, i, array=steps)
    i, j = L.zeros([1], "int64"), L.fill_constant([1], "int64", 1)
    one, three = L.fill_constant([1], "int64", 1), L.fill_constant([1], "int64", 3)
    weight = L.create_parameter([10], "float32", name="p")

    def step(place, x, memory):
        total = L.array_read(steps, place) + L.array_read(memory, place)
        total = L.elementwise_add(x * weight, total)
        place = L.increment(place, in_place=True)
        L.array_write(total, i=place, array=memory)
        return place

    def inside(j, x, memory):
        return [step(j, x, memory), x, memory]

    def outside(i, j, x, memory):
        i = step(i, x, memory)
        found = L.while_loop(lambda j, x, m: L.less_than(j, three), inside, [j, x, memory])
        return [i, *found]

    L.while_loop(lambda i, *rest: L.less_than(i, one), outside, [i, j, x, memory])
    last = L.array_read(memory, j)
    feed = {"d%d" % k: numbers(10) + k for k in range(3)}
    return L.mean(last), {"x": np.ones(10, "float32"), **feed}, ["x@GRAD", last]


def result_of_the_last_turn():
    i, x = data("i", [1]), data("x", [1])
    weight = L.create_parameter([1], "float32", name="w")
    end = L.fill_constant([1], "float32", 11)

    def body(i, x):
        square = L.elementwise_mul(i, i)
        return [L.increment(i), square]

    out = L.while_loop(lambda i, x: L.less_than(i, end), body, [i, x])
    ones = np.ones(1, "float32")
    return L.mean(out[1] * weight) * 0.001, {"i": ones, "x": ones}, ["i@GRAD"]


def batch_norm_in_a_branch():
    x, p = data("x", [4, 3]), fluid.data("p", [1])
    pred = L.less_than(L.fill_constant([1], "float32", 0.0), p)
    out = L.cond(pred, lambda: L.batch_norm(L.fc(x, 3)), lambda: L.fc(x, 3, act="tanh"))
    return L.mean(L.square(out - 0.3)), {"x": numbers(4, 3), "p": np.ones(1, "float32")}, []


def if_else():
    x = data("x", [4, 1])
    limit = L.fill_constant_batch_size_like(x, [-1, 1], "float32", 0.5)
    ways = L.IfElse(L.less_than(x, limit))
    with ways.true_block():
        ways.output(L.fc(ways.input(x), 2, act="tanh"))
    with ways.false_block():
        ways.output(L.fc(ways.input(x), 2))
    feed = {"x": np.array([[0.1], [0.7], [0.3], [0.9]], "float32")}
    return L.mean(L.square(ways()[0])), feed, ["x@GRAD"]


def lengths():
    return fluid.data("n", [2], "int64"), {"x": numbers(2, 5, 4), "n": np.array([5, 3])}


def cells():
    x = data("x", [2, 5, 4])
    n, feed = lengths()
    out, states = L.rnn(L.LSTMCell(3), x, sequence_length=n)
    back, _ = L.rnn(L.GRUCell(3), x, is_reverse=True)
    return L.mean(out) + L.mean(states[1]) + L.mean(back), feed, ["x@GRAD"]


def basic_networks():
    x = data("x", [2, 5, 4])
    n, feed = lengths()
    options = {"num_layers": 2, "bidirectional": True, "sequence_length": n}
    gru = fluid.contrib.layers.basic_gru(x, None, 3, **options)
    lstm = fluid.contrib.layers.basic_lstm(x, None, None, 3, **options)
    loss = L.mean(gru[0]) + L.mean(gru[1]) + L.mean(lstm[0]) + L.mean(lstm[2])
    return loss, feed, ["x@GRAD"]


def decoding_with_data():
    x = data("x", [2, 5, 4])
    n, feed = lengths()

    def logits(hidden):
        flat = len(hidden.shape) - 1
        return L.fc(hidden, 6, num_flatten_dims=flat, param_attr="ow", bias_attr="ob")

    decoder = L.BasicDecoder(L.GRUCell(3), L.TrainingHelper(x, n), output_fn=logits)
    init = L.fill_constant_batch_size_like(x, [-1, 3], "float32", 0.1)
    init.stop_gradient = False
    out, state, length = L.dynamic_decode(decoder, inits=init, return_length=True)
    loss = L.mean(L.square(out.cell_outputs)) + L.mean(state)
    return loss, feed, ["x@GRAD", out.sample_ids, length]


def greedy_decoding():
    def embed(ids):
        return fluid.embedding(ids, [6, 4], param_attr="e")

    x = data("x", [2, 3])
    start = L.fill_constant_batch_size_like(x, [-1], "int64", 0)
    decoder = L.BasicDecoder(
        L.GRUCell(3),
        L.GreedyEmbeddingHelper(embed, start, 1),
        output_fn=lambda hidden: L.fc(hidden, 6, param_attr="ow", bias_attr="ob"),
    )
    out, _ = L.dynamic_decode(decoder, inits=L.fc(x, 3), max_step_num=5)
    return L.mean(L.square(out.cell_outputs)), {"x": numbers(2, 3)}, [out.sample_ids]


def weight_normalization():
    out = data("x", [4, 3])
    for size, attr in ((5, {"dim": 1}), (5, {"name": "q"}), (2, {"dim": 0})):
        out = L.fc(out, size, param_attr=fluid.WeightNormParamAttr(**attr))
    return L.mean(L.square(out - 1.0)), {"x": numbers(4, 3)}, ["x@GRAD", "q_g"]


def run(build):
    """The losses of three steps, and what the first fetched."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        with fluid.scope_guard(fluid.Scope()):
            loss, feed, fetch = build()
            fluid.optimizer.SGD(0.5).minimize(loss)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            runs = []
            for _ in range(3):
                fetched = exe.run(main, feed=feed, fetch_list=[loss, *fetch], return_numpy=False)
                runs.append([np.asarray(value).reshape(-1)[:4].tolist() for value in fetched])
    return [one[0][0] for one in runs], runs[0][1:]


FLUID = {
    "dynamic_rnn": (
        [-0.021874, -0.17664, -0.30195],
        [
            [-0.052447, 0.018197, 0.018868, -0.030966],
            [-0.04906, 0.017021, 0.017649, -0.044465],
            [-0.056649, 0.019655, -0.091149, 0.033491],
            [0.88202, -0.80021, 0.45128, 0.93654],
        ],
    ),
    "dynamic_rnn_from_a_value": (
        [-0.074405, -0.59401, -0.89249],
        [
            [-0.11335, 0.048736, 0.054735, -0.075258],
        ],
    ),
    "lists": (
        [0.1366, 0.090796, 0.070546],
        [
            [-0.12925, 0.10464, 0.14937, -0.078223],
        ],
    ),
    "loop_in_a_loop": (
        [4.2093, 3.7593, 3.3093],
        [
            [-0.16427, 0.031295, -0.095478, -0.085024],
            [1.3573, 4.412, 4.2432, 2.4468],
        ],
    ),
    "result_of_the_last_turn": (
        [-0.17315, -0.17815, -0.18315],
        [
            [-0.19047],
        ],
    ),
    "batch_norm_in_a_branch": (
        [1.0898, 0.48444, 0.21535],
        [
        ],
    ),
    "if_else": (
        [0.35999, 0.13434, 0.053899],
        [
            [0.050471, 0.36248, 0.12422, 0.46604],
        ],
    ),
    "cells": (
        [-0.34864, -1.1471, -1.6673],
        [
            [-0.001761, 0.0097056, -0.030596, -0.046006],
        ],
    ),
    "basic_networks": (
        [0.14358, -0.17487, -0.51042],
        [
            [0.011889, -0.0076523, -0.0061362, 0.013193],
        ],
    ),
    "decoding_with_data": (
        [0.2161, -0.06376, -0.23817],
        [
            [-0.0009722, 0.0057822, 0.018214, 0.016967],
            [5.0, 5.0, 5.0, 5.0],
            [5.0, 3.0],
        ],
    ),
    "greedy_decoding": (
        [0.0088102, 0.0085965, 0.013203],
        [
            [1.0, 5.0, 5.0, 5.0],
        ],
    ),
    "weight_normalization": (
        [0.69452, 1.729, 0.88412],
        [
            [-0.12231, -0.042105, 0.047117, -0.12401],
            [2.394],
        ],
    ),
}


@pytest.mark.parametrize("name", FLUID)
def test_learns_as_fluid_does(name):
    losses, fetched = run(globals()[name])
    expected_losses, expected = FLUID[name]
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-4, atol=2e-5)
    for got, want in zip(fetched, expected):
        np.testing.assert_allclose(got, want, rtol=5e-4, atol=2e-5)


def product_of_turns():
    """w * w * w * x, each turn of a loop one factor."""
    x = data("x", [1])
    three = fluid.initializer.Constant(3.0)
    weight = L.create_parameter([1], "float32", name="w", default_initializer=three)
    i, n = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3)
    out = L.while_loop(
        lambda i, x: L.less_than(i, n),
        lambda i, x: [L.increment(i), L.elementwise_mul(x, weight)],
        [i, x],
    )
    return L.mean(out[1]), {"x": np.array([2.0], "float32")}, ["x@GRAD", "w@GRAD", out[1], i]


def test_gradients_go_from_turn_to_turn_through_a_variable():
    # Fluid 1.8.5 loses the gradient of x here (0): this is the derivative.
    losses, fetched = run(product_of_turns)
    assert losses[0] == 54.0
    assert fetched == [[27.0], [54.0], [54.0], [3.0]]


def test_a_loop_that_never_runs_passes_gradients_on():
    def none():
        x = data("x", [1])
        weight = L.create_parameter([1], "float32", name="w")
        i, n = L.fill_constant([1], "int64", 5), L.fill_constant([1], "int64", 3)
        out = L.while_loop(
            lambda i, x: L.less_than(i, n),
            lambda i, x: [L.increment(i), L.elementwise_mul(x, weight)],
            [i, x],
        )
        return L.mean(out[1] * 5.0), {"x": np.array([2.0], "float32")}, ["x@GRAD", "w@GRAD"]

    assert run(none)[1] == [[5.0], [0.0]]


def test_minimize_inside_of_a_branch_runs_with_it():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x, p = fluid.data("x", [2, 1]), fluid.data("p", [1])
        start = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(2.0))
        loss = L.mean(L.fc(x, 1, param_attr=start, bias_attr=False))

        def learn():
            twice = loss * 2.0
            fluid.optimizer.SGD(0.1).minimize(twice)
            return twice

        zero = L.fill_constant([1], "float32", 0.0)
        out = L.cond(L.less_than(zero, p), learn, lambda: loss * 1.0)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        seen = []
        for holds in (1.0, 0.0, 1.0):
            feed = {"x": np.ones((2, 1), "float32"), "p": np.array([holds], "float32")}
            got, weight = exe.run(main, feed=feed, fetch_list=[out, "w"])
            seen.append((float(got[0]), round(float(weight[0, 0]), 5)))
    # The gradient of 2 * mean(w * 1) is 2: w falls by 0.2, and only if the branch was taken.
    assert seen == [(4.0, 1.8), (pytest.approx(1.8), 1.8), (pytest.approx(3.6), 1.6)]


def test_a_dynamic_rnn_says_what_is_missing():
    x = fluid.data("x_of_rnn", [None, 3], lod_level=1)
    rnn = L.DynamicRNN()
    with pytest.raises(ValueError, match="inside rnn block"):
        rnn.step_input(x)
    with pytest.raises(ValueError, match="outside the rnn block"):
        rnn()
    with pytest.raises(ValueError, match="step_input should be invoked"):
        with rnn.block():
            rnn.memory(shape=[4])
