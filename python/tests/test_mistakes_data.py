"""Mistakes with datasets, readers and files: each with the words a user must see."""

import os
import pathlib

import numpy as np

import paddlewheel.fluid as fluid
from mistakes import Mistakes, executor, net, trained
from paddlewheel.fluid.core import EnforceNotMet

mistake = Mistakes()
layers = fluid.layers


def dataset(kind="QueueDataset", lines="1 1.0 1 2.0\n", pipe="cat", files=("in.txt",)):
    """A dataset of two slots, and a loss of them."""
    a, b = fluid.data("a", [None, 1]), fluid.data("b", [None, 1])
    pathlib.Path("in.txt").write_text(lines)
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var([a, b])
    made.set_batch_size(2)
    made.set_thread(1)
    made.set_pipe_command(pipe)
    made.set_filelist(list(files))
    return made, layers.mean(layers.elementwise_add(a, b))


def train(made, loss, **more):
    main = fluid.default_main_program()
    executor().train_from_dataset(main, made, fetch_list=[loss], **more)


# Datasets.


@mistake(RuntimeError, "in.txt:2: slot `a`", "expected a number, found `x`", "1 x 1 2.0")
def text_where_a_number_should_be():
    train(*dataset(lines="1 1.0 1 2.0\n1 x 1 2.0\n"))


@mistake(RuntimeError, "in.txt:2", "slot `b` should begin", "expected 2 slots, found 1")
def a_line_with_a_slot_too_few():
    train(*dataset(lines="1 1.0 1 2.0\n1 1.0\n"))


@mistake(RuntimeError, "in.txt:1", "the end of the line after 2 slots", "1 1.0 1 2.0 1 3.0")
def a_line_with_a_slot_too_many():
    train(*dataset(lines="1 1.0 1 2.0 1 3.0\n"))


@mistake(RuntimeError, "in.txt:1: slot `a`", "1 or more", "padding it in data generator")
def a_slot_without_values():
    train(*dataset(lines="0 1 2.0\n"))


@mistake(RuntimeError, "file `missing.txt` cannot be read", "No such file")
def a_file_that_is_not_there():
    train(*dataset(files=["missing.txt"]))


@mistake(RuntimeError, "pipe command `pyhton reader.py` was not found", "`in.txt`")
def a_pipe_command_with_a_typing_error():
    train(*dataset(pipe="pyhton reader.py"))


@mistake(RuntimeError, "pipe command `exit 3` failed on file `in.txt` with exit code 3")
def a_pipe_command_that_fails():
    train(*dataset(pipe="exit 3"))


@mistake(RuntimeError, "pipe command `python missing_reader.py`", "`in.txt`", "No such file")
def a_reader_that_is_not_there():
    train(*dataset(pipe="python missing_reader.py"))


@mistake(RuntimeError, "the dataset has no slots: call set_use_var")
def a_dataset_without_variables():
    made, loss = dataset()
    made = fluid.DatasetFactory().create_dataset("QueueDataset")
    made.set_filelist(["in.txt"])
    train(made, loss)


@mistake(RuntimeError, "the dataset has no files: call set_filelist")
def a_dataset_without_files():
    train(*dataset(files=()))


@mistake(NotImplementedError, "QueueDataset does not support local shuffle", "InMemoryDataset")
def shuffling_a_stream():
    dataset()[0].local_shuffle()


@mistake(RuntimeError, "holds no data: call load_into_memory() first")
def shuffling_before_loading():
    dataset("InMemoryDataset")[0].local_shuffle()


@mistake(RuntimeError, "holds no data: call load_into_memory() first")
def training_before_loading():
    train(*dataset("InMemoryDataset"))


@mistake(RuntimeError, "dataset is need", "fluid.DatasetFactory().create_dataset", "list")
def training_on_a_list_of_files():
    train(["in.txt"], dataset()[1])


@mistake(ValueError, "batch_size must be 1 or more", "0")
def a_batch_of_nothing():
    dataset()[0].set_batch_size(0)


@mistake(TypeError, "set_use_var takes a list of variables", "str")
def variables_by_their_names():
    dataset()[0].set_use_var(["a", "b"])


@mistake(AssertionError, "fetch_list and fetch_info differ in length")
def more_labels_than_variables():
    train(*dataset(), fetch_info=["loss", "auc"])


@mistake(OSError, "nope.proto", "No such file")
def a_description_that_is_not_there():
    fluid.DataFeedDesc("nope.proto")


# Readers.


@mistake(ValueError, "capacity")
def a_loader_without_a_capacity():
    fluid.io.DataLoader.from_generator([fluid.data("x", [None, 4])])


@mistake(AssertionError, "Data source of DataLoader has not set yet")
def reading_before_a_source_is_set():
    x = fluid.data("x", [None, 4])
    fluid.io.DataLoader.from_generator([x], capacity=2, iterable=False).start()


def loader(batches):
    made = fluid.io.DataLoader.from_generator([fluid.data("x", [None, 4])], capacity=2)
    made.set_batch_generator(batches, places=fluid.cpu_places(1))
    return made


@mistake(KeyError, "my own bug")
def a_generator_with_a_bug():
    def batches():
        raise KeyError("my own bug")
        yield

    list(loader(batches)())


@mistake(ValueError, "a batch has 2 fields but feed_list has 1")
def a_generator_of_too_many_fields():
    def batches():
        yield np.ones((2, 4), "float32"), np.ones((2, 1), "float32")

    list(loader(batches)())


@mistake(AssertionError, "number of fields in data (1)", "len(feed_list) (2)")
def a_sample_with_a_field_too_few():
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    fluid.DataFeeder([x, y], fluid.CPUPlace()).feed([(np.ones(4, "float32"),)])


@mistake(ValueError, "'hello'")
def text_in_a_column_of_numbers():
    fluid.DataFeeder([fluid.data("x", [None, 1])], fluid.CPUPlace()).feed([("hello",)])


# Files of models.


@mistake(EnforceNotMet, "nowhere/fc_0.", "No such file", "complete or damaged")
def loading_from_a_folder_that_is_not_there():
    fluid.io.load_persistables(trained()[0], "nowhere")


@mistake(ValueError, "There is no directory named 'nowhere'")
def a_model_from_a_folder_that_is_not_there():
    fluid.io.load_inference_model("nowhere", executor())


@mistake(EnforceNotMet, "shape does not match", "fc_0.", "(2,)", "(1,)")
def loading_another_model():
    exe, *_ = trained()
    fluid.io.save_persistables(exe, "m")
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        layers.fc(fluid.data("x", [None, 7]), 2)
        exe.run(fluid.default_startup_program())
        fluid.io.load_persistables(exe, "m")


@mistake(EnforceNotMet, "m/fc_0.w_0", "42 bytes with checksum")
def loading_a_file_that_is_cut_short():
    exe, *_ = trained()
    fluid.io.save_persistables(exe, "m")
    pathlib.Path("m/fc_0.w_0").write_bytes(b"abc")
    fluid.io.load_persistables(exe, "m")


@mistake(EnforceNotMet, "m/__model__", "not the bytes of a program")
def loading_something_else_as_a_model():
    os.makedirs("m")
    pathlib.Path("m/__model__").write_bytes(b"hello world")
    fluid.io.load_inference_model("m", executor())


@mistake(ValueError, "X", "Did you mean `x`?")
def saving_a_model_with_a_typing_error_in_a_feed():
    exe, _, _, prediction, _ = trained()
    fluid.io.save_inference_model("m", ["X"], [prediction], exe)


@mistake(ValueError, "feed 1 (`y`)", "not part of what computes the targets", "leave it out")
def saving_a_model_that_is_fed_its_label():
    exe, _, _, prediction, _ = trained()
    fluid.io.save_inference_model("m", ["x", "y"], [prediction], exe)


@mistake(EnforceNotMet, "fc_0.", "is not initialized", "Run the startup program")
def saving_what_was_never_started():
    net()
    fluid.io.save_persistables(fluid.Executor(fluid.CPUPlace()), "m")


@mistake(OSError, "cannot write m", "Not a directory")
def saving_into_a_file():
    exe, *_ = trained()
    pathlib.Path("m").write_text("a file")
    fluid.io.save_persistables(exe, "m")


@mistake(OSError, "nowhere/m.pdparams", "No such file")
def loading_a_state_that_is_not_there():
    fluid.load(fluid.default_main_program(), "nowhere/m", trained()[0])


test_mistake = mistake.test()
