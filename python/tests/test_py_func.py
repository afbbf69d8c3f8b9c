"""`fluid.layers.py_func`: steps of a program that Python computes."""

import numpy as np
import pytest

import paddlewheel.fluid as fluid

X = np.array([[0.5, -1.0], [2.0, 0.25]], "float32")


def run(build):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 2], "float32")
        x.stop_gradient = False
        out = main.current_block().create_var(name="out", shape=[2, 2], dtype="float32")
        fetched = build(x, out)
    executor = fluid.Executor(fluid.CPUPlace())
    if startup.global_block().ops:
        executor.run(startup)
    return executor.run(main, feed={"x": X}, fetch_list=fetched)


def test_a_function_and_its_gradient():
    seen = []

    def backward(x, y, d_y):
        seen.append(np.array(x))
        return np.array(d_y) * (1 - np.square(np.array(y)))

    def build(x, out):
        out = fluid.layers.py_func(lambda t: np.tanh(np.array(t)), x, out, backward)
        return [out] + fluid.gradients(fluid.layers.reduce_sum(out), x)

    out, d_x = run(build)
    np.testing.assert_allclose(out, np.tanh(X), rtol=1e-6)
    np.testing.assert_allclose(d_x, 1 - np.tanh(X) ** 2, rtol=1e-5)
    np.testing.assert_array_equal(seen[0], X)


def test_inputs_may_be_left_out_of_the_gradient():
    def build(x, out):
        out = fluid.layers.py_func(
            lambda t: 3 * np.array(t), x, out, lambda d: 3 * np.array(d), skip_vars_in_backward_input=[x, out]
        )
        return fluid.gradients(fluid.layers.reduce_sum(out), x)

    np.testing.assert_allclose(run(build)[0], np.full((2, 2), 3.0))


def test_a_function_without_results_sees_its_inputs():
    seen = []

    def build(x, out):
        fluid.layers.py_func(lambda t: seen.append(np.array(t)), x, None)
        return [fluid.layers.scale(x, 2.0)]

    np.testing.assert_allclose(run(build)[0], 2 * X)
    np.testing.assert_array_equal(seen[0], X)


def test_mistakes_are_errors():
    def fails(t):
        raise ZeroDivisionError("not today")

    with pytest.raises(fluid.core.EnforceNotMet, match="not today"):
        run(lambda x, out: [fluid.layers.py_func(fails, x, out)])
    with pytest.raises(fluid.core.EnforceNotMet, match="2 results where 1"):
        run(lambda x, out: [fluid.layers.py_func(lambda t: (t, t), x, out)])
    with pytest.raises(TypeError):
        run(lambda x, out: [fluid.layers.py_func(None, x, out)])
    with pytest.raises(TypeError):
        run(lambda x, out: [fluid.layers.py_func(fails, "x", out)])
    with pytest.raises(ValueError, match="not found"):
        other = fluid.data("other", [1], "float32")
        run(lambda x, out: [fluid.layers.py_func(fails, x, out, fails, other)])
