"""Mistakes that show while a program is built: each with the words a user must see."""

import numpy as np

import paddlewheel
import paddlewheel.fluid as fluid
from mistakes import Mistakes, net
from paddlewheel.fluid.core import EnforceNotMet

mistake = Mistakes()
layers = fluid.layers
HERE = "test_mistakes_build.py:"


def x(*shape, name="x", **more):
    return fluid.data(name, list(shape) or [None, 4], **more)


# Names that are not there.


@mistake(AttributeError, "paddle.fluid.layers.sofmax", "Did you mean `softmax`?")
def a_layer_with_a_typing_error():
    layers.sofmax(1)


@mistake(AttributeError, "no paddle.fluid.layers.resnet_block", "dir(paddle.fluid.layers) lists")
def a_layer_that_nobody_has():
    layers.resnet_block(1)


@mistake(AttributeError, "paddle.fluid.Exeuctor", "Did you mean `Executor`?")
def a_class_with_a_typing_error():
    fluid.Exeuctor()


@mistake(AttributeError, "paddle.fluid.optimizer.Adm", "Did you mean `Adam`?")
def an_optimizer_with_a_typing_error():
    fluid.optimizer.Adm(0.1)


@mistake(AttributeError, "paddle.fluid.initializer.Xaiver", "Did you mean `Xavier`?")
def an_initializer_with_a_typing_error():
    fluid.initializer.Xaiver()


@mistake(AttributeError, "paddle.fluid.regularizer.L2Deacy", "Did you mean `L2Decay`?")
def a_regularizer_with_a_typing_error():
    fluid.regularizer.L2Deacy(0.1)


@mistake(AttributeError, "paddle.fluid.io.save_persistable", "Did you mean `save_persistables`?")
def a_function_of_io_with_a_typing_error():
    fluid.io.save_persistable(None, "m")


@mistake(AttributeError, "paddle.dataset.mnits", "Did you mean `mnist`?")
def a_dataset_with_a_typing_error():
    paddlewheel.dataset.mnits


@mistake(ValueError, "datafeed class QueueDatset does not exist", "Did you mean `QueueDataset`?")
def a_kind_of_dataset_with_a_typing_error():
    fluid.DatasetFactory().create_dataset("QueueDatset")


@mistake(ValueError, "fc()", '"rellu"', "Did you mean `relu`?", "built at", HERE)
def an_activation_with_a_typing_error():
    layers.fc(x(), 1, act="rellu")


@mistake(ValueError, 'Operator "mull"', "Did you mean `mul`?", "built at", HERE)
def an_operator_with_a_typing_error():
    fluid.default_main_program().global_block().append_op(type="mull")


@mistake(ValueError, "var fc_0.w_1 not in this block", "Did you mean `fc_0.w_0`?")
def a_variable_with_a_typing_error():
    net()
    fluid.default_main_program().global_block().var("fc_0.w_1")


@mistake(ValueError, "FLAGS_chekc_nan_inf", "cannot set", "Did you mean `FLAGS_check_nan_inf`?")
def a_flag_with_a_typing_error():
    fluid.set_flags({"FLAGS_chekc_nan_inf": True})


@mistake(ValueError, "FLAGS_rpc_deadlin", "cannot get", "Did you mean `FLAGS_rpc_deadline`?")
def asking_for_a_flag_with_a_typing_error():
    fluid.get_flags("FLAGS_rpc_deadlin")


@mistake(ValueError, "FLAGS_rpc_deadline=soon", "not a number")
def a_flag_that_is_no_number():
    fluid.set_flags({"FLAGS_rpc_deadline": "soon"})


@mistake(TypeError, "flags in set_flags should be a dict")
def flags_as_a_list():
    fluid.set_flags(["FLAGS_check_nan_inf"])


@mistake(NotImplementedError, "AsyncExecutor", "DatasetFactory", "exe.train_from_dataset")
def the_executor_of_long_ago():
    fluid.AsyncExecutor()


# Shapes and types.


@mistake(EnforceNotMet, "x is [3, 4]", "y is [5, 2]", "in op `matmul` built at", HERE)
def a_product_of_shapes_that_do_not_fit():
    layers.matmul(x(3, 4), x(5, 2, name="y"))


@mistake(EnforceNotMet, "x is [3, 4]", "y is [2, 5]", "in op `concat` built at", HERE)
def joining_shapes_that_do_not_fit():
    layers.concat([x(3, 4), x(2, 5, name="y")], axis=0)


@mistake(EnforceNotMet, "x is [3, 4]", "y is [3, 5]", "in op `elementwise_add` built at", HERE)
def a_sum_of_shapes_that_do_not_fit():
    layers.elementwise_add(x(3, 4), x(3, 5, name="y"))


@mistake(EnforceNotMet, "[3, 4]", "[5, 2]", "in op `reshape2` built at", HERE)
def another_shape_for_another_number_of_elements():
    layers.reshape(x(3, 4), [5, 2])


@mistake(EnforceNotMet, "4 dimensions", "x is [-1, 8]", "in op `conv2d` built at", HERE)
def a_convolution_of_no_image():
    layers.conv2d(x(None, 8), 3, 3)


@mistake(EnforceNotMet, "labels", "y is [-1, 2]", "in op `cross_entropy2` built at", HERE)
def two_labels_for_each_row():
    layers.cross_entropy(x(), x(None, 2, name="y", dtype="int64"))


@mistake(ValueError, "fc()", "greater than 0", "[4, 0] for `fc_0.w_0`")
def a_layer_of_size_zero():
    layers.fc(x(), 0)


@mistake(TypeError, "fc()", "'size'", "'str'")
def a_size_as_text():
    layers.fc(x(), "10")


@mistake(TypeError, "fc()", "'input'", "must be a Variable", "numpy.ndarray")
def a_layer_of_an_array():
    layers.fc(np.ones((2, 4), "float32"), 3)


@mistake(TypeError, "fc()", "'input'", "NoneType")
def a_layer_of_nothing():
    layers.fc(None, 3)


@mistake(ValueError, "input of fc", "at least one variable is needed")
def a_layer_of_an_empty_list():
    layers.fc([], 1)


@mistake(TypeError, "fc()", "unexpected keyword argument 'activation'")
def an_argument_that_is_not_there():
    layers.fc(x(), 3, activation="relu")


@mistake(TypeError, "fc()", "'act'", "'str'")
def an_activation_that_is_a_number():
    layers.fc(x(), 3, act=3)


@mistake(ValueError, "fc()", "greater than 0", "[-1, 3]")
def a_width_that_nobody_knows():
    layers.fc(x(None, None), 3)


@mistake(TypeError, "data()", "float33", "float32")
def a_type_that_is_not_there():
    x(None, 4, dtype="float33")


@mistake(ValueError, "data()", "variable x", "float32 [-1, 4]", "float32 [-1, 5]")
def one_name_for_two_inputs():
    x(None, 4)
    x(None, 5)


@mistake(ValueError, "fc()", "variable w", "[4, 3]", "[4, 5]")
def one_parameter_for_two_shapes():
    layers.fc(x(), 3, param_attr="w")
    layers.fc(fluid.default_main_program().global_block().var("x"), 5, param_attr="w")


@mistake(TypeError, "embedding()", "'size'", "int")
def a_table_without_a_width():
    fluid.embedding(x(None, 1, dtype="int64"), 10)


@mistake(TypeError, "embedding()", "`x`", "int64", "float32")
def ids_that_are_no_integers():
    fluid.embedding(x(None, 1), [10, 4])


@mistake(ValueError, "pool_type of pool2d", "max or avg", "maxx")
def a_kind_of_pooling_that_is_not_there():
    layers.pool2d(x(None, 3, 8, 8), 2, "maxx")


@mistake(EnforceNotMet, "`pooltype`", "AVERAGE, SUM", "SUMM", "built at", HERE)
def a_kind_of_sequence_pooling_that_is_not_there():
    layers.sequence_pool(x(None, 8, lod_level=1), "summ")


@mistake(EnforceNotMet, "`dropout_prob`", "between 0 and 1", "1.5", "built at", HERE)
def a_probability_above_one():
    layers.dropout(x(None, 8), 1.5)


@mistake(TypeError, "fc()", "float", "ParamAttr")
def a_parameter_attribute_that_is_a_number():
    layers.fc(x(), 3, param_attr=3.5)


# Optimizers.


@mistake(AssertionError, "The loss.shape should be (1L,)", "[-1, 1]", "`fc_0.tmp_1`")
def minimising_a_column():
    _, _, prediction, _ = net()
    fluid.optimizer.SGD(0.1).minimize(prediction)


@mistake(EnforceNotMet, "the loss `i` is not computed by any op")
def minimising_an_input_of_integers():
    fluid.optimizer.SGD(0.1).minimize(x(1, name="i", dtype="int64"))


@mistake(AssertionError, "The loss should be an Variable")
def minimising_a_number():
    fluid.optimizer.SGD(0.1).minimize(3.0)


@mistake(ValueError, "learning_rate of optimizer", "finite", "NaN")
def a_learning_rate_that_is_no_number():
    *_, loss = net()
    fluid.optimizer.SGD(float("nan")).minimize(loss)


@mistake(TypeError, "learning rate should be float or Variable", "str")
def a_learning_rate_as_text():
    fluid.optimizer.SGD("0.1")


@mistake(None, warns=["learning_rate is -0.1", "makes the loss larger", "leave out the minus"])
def a_negative_learning_rate():
    *_, loss = net()
    fluid.optimizer.SGD(-0.1).minimize(loss)


@mistake(TypeError, "learning_rate")
def an_optimizer_without_a_learning_rate():
    fluid.optimizer.SGD()


@mistake(ValueError, "num_thresholds of Auc", "at most")
def more_thresholds_than_memory():
    fluid.metrics.Auc("auc", num_thresholds=2**62)


@mistake(ValueError, "dynamic_gru()", "`gru_0.w_0`")
def a_layer_that_nobody_can_count():
    layers.dynamic_gru(x(None, 4, lod_level=1), -(2**62))


@mistake(EnforceNotMet, "more elements than memory can address", "built at", HERE)
def a_tensor_that_nobody_can_count():
    huge = layers.gaussian_random([1 << 40, 1 << 40])
    fluid.Executor(fluid.CPUPlace()).run(fetch_list=[layers.scale(huge, 2.0)])


test_mistake = mistake.test()
