"""Turns samples into what a program is fed with."""

import itertools

import numpy

from .. import _core
from . import core
from .framework import Variable, _cpu_num


class DataFeeder(_core.DataFeeder):
    """Turns a mini-batch of samples into a dict of tensors, one for each variable."""

    def feed_parallel(self, iterable, num_places=None):
        """A feed for each place, of as many mini-batches."""
        batches = list(iterable)
        if len(batches) != self._number_of_places(num_places):
            raise ValueError(
                "feed_parallel takes multiple mini-batches. Each mini-batch will be feed on each "
                "device. The number of devices and number of mini-batches must be same."
            )
        return map(self.feed, batches)

    def decorate_reader(self, reader, multi_devices, num_places=None, drop_last=True):
        """A reader of feeds; with several devices, of lists with one feed for each."""
        if not multi_devices:
            return lambda: map(self.feed, reader())
        n_places = self._number_of_places(num_places)

        def lists():
            batches = iter(reader())
            while True:
                group = list(itertools.islice(batches, n_places))
                if len(group) == n_places:
                    yield [self.feed(batch) for batch in group]
                    continue
                if group and not drop_last:
                    raise ValueError(
                        "The data batch which cannot fit for devices will be dropped is not "
                        "implementation. Other strategies are not implemented"
                    )
                return

        return lists

    @staticmethod
    def _number_of_places(num_places):
        return _cpu_num() if num_places is None else int(num_places)


def convert_dtype(dtype):
    """The name of an element type."""
    if isinstance(dtype, core.VarDesc.VarType):
        return TYPE_NAMES[dtype.name]
    return numpy.dtype(dtype).name


TYPE_NAMES = {
    "BOOL": "bool",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
}


def check_type(input, input_name, expected_type, op_name, extra_message=""):
    """TypeError unless an argument of a layer has one of these types."""
    if not isinstance(input, expected_type):
        raise TypeError(
            "The type of '%s' in %s must be %s, but received %s. %s"
            % (input_name, op_name, expected_type, type(input), extra_message)
        )


def check_dtype(input_dtype, input_name, expected_dtype, op_name, extra_message=""):
    """TypeError unless an element type is one of these."""
    name = convert_dtype(input_dtype)
    if name not in expected_dtype:
        raise TypeError(
            "The data type of '%s' in %s must be %s, but received %s. %s"
            % (input_name, op_name, expected_dtype, name, extra_message)
        )


def check_variable_and_dtype(input, input_name, expected_dtype, op_name, extra_message=""):
    """TypeError unless an argument is a variable with one of these element types."""
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)
