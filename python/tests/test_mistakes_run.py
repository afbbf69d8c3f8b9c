"""Mistakes that show when a program runs: each with the words a user must see."""

import numpy as np

import paddlewheel.fluid as fluid
from mistakes import Mistakes, executor, net, trained
from paddlewheel.fluid.core import EnforceNotMet

mistake = Mistakes()
layers = fluid.layers
HERE = "test_mistakes_run.py:"


def ones(*shape):
    return np.ones(shape, "float32")


def feed(**other):
    return {"x": ones(2, 4), "y": ones(2, 1), **other}


def run(feed, fetch=None):
    exe, *_, loss = trained()
    exe.run(feed=feed, fetch_list=[loss] if fetch is None else fetch)


@mistake(
    EnforceNotMet,
    "data variable `x` (input X) was not fed",
    "the feed has `y`, `X`",
    "`X` is not a variable of the program: write the name as in the program",
    "in op `mul` built at",
    "mistakes.py:",
    warns=["The variable X is not found in program", "Did you mean `x`?"],
)
def a_fed_name_in_upper_case():
    run({"X": ones(2, 4), "y": ones(2, 1)})


@mistake(EnforceNotMet, "data variable `x`", "not fed", "feed={'x': array}", "nothing was fed")
def nothing_is_fed():
    run(None)


@mistake(EnforceNotMet, "data variable `y`", "not fed", "the feed has `x`")
def the_label_is_not_fed():
    run({"x": ones(2, 4)})


@mistake(ValueError, "'x'", "dimensions = 2, shape = (-1, 4)", "received fed shape [4]")
def a_feed_of_wrong_rank():
    run(feed(x=ones(4)))


@mistake(ValueError, "'x'", "shape = (-1, 4)", "received fed shape [2, 5]")
def a_feed_of_wrong_width():
    run(feed(x=ones(2, 5)))


@mistake(ValueError, "data type of fed Variable 'x'", "'float32'", "received 'float64'")
def a_feed_of_doubles():
    run(feed(x=np.ones((2, 4))))


@mistake(EnforceNotMet, "y is [3, 1]", "in op `elementwise_sub` built at", "mistakes.py:")
def batches_of_two_lengths():
    run(feed(y=ones(3, 1)))


@mistake(RuntimeError, "feed['x']", "list", "feed a numpy array")
def a_list_of_lists_is_fed():
    run(feed(x=[[1, 2, 3, 4]]))


@mistake(TypeError, "feed['x']", "cannot be fed", "float32")
def text_is_fed():
    run(feed(x=np.array([["a", "b", "c", "d"]])))


@mistake(TypeError, "feed['x']", "object", "cannot be fed")
def rows_of_different_lengths_are_fed():
    run(feed(x=np.array([[1, 2], [3]], dtype=object)))


@mistake(TypeError, "feed has the key 1", "names of variables", "x.name")
def a_feed_by_number():
    run({1: ones(2, 4)})


@mistake(TypeError, "feed requires dict", "str")
def a_feed_that_is_text():
    run("x")


@mistake(AssertionError, "feed is one dict of names to arrays", "with_data_parallel()")
def a_list_of_feeds_without_data_parallel():
    run([feed(), feed()])


@mistake(EnforceNotMet, "mean_0.tmp_1", "cannot be found", "Did you mean `mean_0.tmp_0`?")
def fetching_a_name_that_is_not_there():
    run(feed(), ["mean_0.tmp_1"])


@mistake(TypeError, "The item in fetch_list should be str, variable", "int")
def fetching_a_number():
    run(feed(), [3])


@mistake(EnforceNotMet, "scale_0.tmp_0", "cannot be found")
def fetching_from_another_program():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        other = layers.scale(fluid.data("z", [None, 3]), 2.0)
    run(feed(), [other])


@mistake(
    EnforceNotMet,
    "fc_0.w_0",
    "has not been initialized",
    "exe.run(startup_program) after optimizer.minimize",
    "in op `mul` built at",
)
def the_startup_program_was_not_run():
    *_, loss = net()
    fluid.Executor(fluid.CPUPlace()).run(feed=feed(), fetch_list=[loss])


@mistake(
    EnforceNotMet,
    "moment1_0",
    "has not been initialized",
    "after optimizer.minimize",
    "in op `adam` built at",
    HERE,
    "in `the_startup_program_was_run_too_early`",
)
def the_startup_program_was_run_too_early():
    *_, loss = net()
    exe = executor()
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe.run(feed=feed(), fetch_list=[loss])


@mistake(EnforceNotMet, "mean_0.tmp_0", "cannot be found")
def fetching_the_loss_from_the_startup_program():
    *_, loss = net()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program(), fetch_list=[loss])


@mistake(TypeError, "Executor requires Program", "str")
def running_a_name_instead_of_a_program():
    fluid.Executor(fluid.CPUPlace()).run("main")


@mistake(RuntimeError, "closed Executor")
def running_after_close():
    exe, *_ = trained()
    exe.close()
    exe.run(feed=feed())


@mistake(TypeError, "a place is a CPUPlace or a CUDAPlace", "'gpu'")
def a_place_as_text():
    fluid.Executor("gpu")


@mistake(EnforceNotMet, "label 7 of `y` (row 1) is not in [0, 4)", "`cross_entropy2` built at", HERE)
def a_label_beyond_the_classes():
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1], dtype="int64")
    loss = layers.cross_entropy(layers.softmax(x), y)
    executor().run(feed={"x": ones(2, 4), "y": np.array([[1], [7]])}, fetch_list=[loss])


@mistake(EnforceNotMet, "expected >= 0 and < 10, but got 10", "(i, position 1)", "built at", HERE)
def an_id_beyond_the_table():
    rows = fluid.embedding(fluid.data("i", [None, 1], dtype="int64"), [10, 4])
    executor().run(feed={"i": np.array([[1], [10]])}, fetch_list=[rows])


@mistake(EnforceNotMet, "expected >= 0", "but got -1", "`lookup_table_v2` built at", HERE)
def a_negative_id():
    rows = fluid.embedding(fluid.data("i", [None, 1], dtype="int64"), [10, 4])
    executor().run(feed={"i": np.array([[-1]])}, fetch_list=[rows])


@mistake(EnforceNotMet, "`log`'s output `log_0.tmp_0` contains NaN or Inf", "built at", HERE)
def a_logarithm_of_a_negative_number():
    fluid.set_flags({"FLAGS_check_nan_inf": True})
    try:
        logs = layers.log(fluid.data("x", [None, 4]))
        executor().run(feed={"x": -ones(2, 4)}, fetch_list=[logs])
    finally:
        fluid.set_flags({"FLAGS_check_nan_inf": False})


@mistake(EnforceNotMet, "does not contain LoD information", "(`x`)", "`sequence_pool` built at", HERE)
def a_sequence_layer_of_a_plain_array():
    pooled = layers.sequence_pool(fluid.data("x", [None, 8], lod_level=1), "sum")
    executor().run(feed={"x": ones(2, 8)}, fetch_list=[pooled])


@mistake(RuntimeError, "hold LoD information", "'return_numpy' as 'False'")
def fetching_sequences_as_an_array():
    doubled = layers.scale(fluid.data("x", [None, 1], lod_level=1), 2.0)
    tensor = fluid.create_lod_tensor(ones(4, 1), [[2, 2]], fluid.CPUPlace())
    executor().run(feed={"x": tensor}, fetch_list=[doubled])


@mistake(EnforceNotMet, "recursive_sequence_lengths info is invalid")
def sequences_that_are_too_short():
    fluid.create_lod_tensor(ones(5, 1), [[2, 2]], fluid.CPUPlace())


@mistake(EnforceNotMet, "`i`", "5", "`gather` built at", HERE)
def an_index_beyond_the_rows():
    rows = layers.gather(fluid.data("x", [3, 2]), fluid.data("i", [None], dtype="int32"))
    executor().run(feed={"x": ones(3, 2), "i": np.array([5], "int32")}, fetch_list=[rows])


@mistake(
    None,
    warns=[
        "this program was minimised already",
        "parameter `w` is changed by op `sgd` built at",
        HERE,
        "in `a_cell_that_ran_twice`",
        "with fluid.program_guard(fluid.Program(), fluid.Program())",
    ],
)
def a_cell_that_ran_twice():
    for _ in range(2):
        x = fluid.data("x", [None, 4])
        loss = layers.mean(layers.fc(x, 1, param_attr="w", bias_attr="b"))
        fluid.optimizer.SGD(0.1).minimize(loss)
    # As in Fluid it runs, and each parameter takes two steps.
    executor().run(feed={"x": ones(2, 4)}, fetch_list=[loss])


@mistake(None, warns=["this program was minimised already", "fc_0.w_0", "op `sgd` built at", HERE])
def a_loss_that_is_minimised_twice():
    *_, loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    fluid.optimizer.SGD(0.1).minimize(loss)


test_mistake = mistake.test()


def test_the_line_of_an_op_is_no_part_of_its_bytes():
    """`op_callstack` is there to ask for, and two programs of different lines are the same program."""

    def built():
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            layers.scale(fluid.data("x", [None, 4]), 2.0)
            return fluid.default_main_program()

    one, other = built(), built()
    assert one.serialize_to_string() == other.serialize_to_string()
    assert b"op_callstack" not in one.serialize_to_string()
    stack = one.global_block().ops[0].attr("op_callstack")
    assert 'test_mistakes_run.py", line' in stack[-1] and "in built" in stack[-1], stack


def test_a_gradient_op_is_of_the_line_of_its_layer():
    x = fluid.data("x", [None, 4])
    scaled = layers.scale(layers.fc(x, 1), 2.0)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(scaled))
    lines = {op.type: op.attr("op_callstack")[-1] for op in fluid.default_main_program().global_block().ops}
    assert lines["mul_grad"] == lines["mul"] and lines["mean_grad"] == lines["mean"]
    assert lines["sgd"] == lines["mean"], "both in the line that minimises"
    assert lines["mul"] != lines["mean"]
