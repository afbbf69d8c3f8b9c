"""Runs programs."""

import atexit
import collections
import contextlib
import sys

from .. import _core
from .._core import global_scope, switch_scope
from . import core

_warned_of_cuda = []

# A script that ends in order leaves its parameter servers in order; one that failed is missed.
atexit.register(lambda: _core.leave_cluster(getattr(sys, "last_value", None) is None))


class Pass(collections.namedtuple("Pass", "batches samples seconds waited")):
    """The results of a pass over a dataset; `fetched` has its values over all samples by name, `auc` the
    area under the ROC curve of its samples alone."""

    def __new__(cls, counts, names, fetched, auc):
        made = super().__new__(cls, *counts)
        made.fetched, made.auc = dict(zip(names, fetched)), auc
        return made

    def __repr__(self):
        shown = "Pass(batches={}, samples={}, seconds={:.3f}, waited={:.3f}, auc={}, fetched={})"
        waited = sum(self.waited)
        return shown.format(
            self.batches, self.samples, self.seconds, waited, self.auc, sorted(self.fetched)
        )


class Executor(_core.Executor):
    """Runs programs in a scope. All operators run, whatever is fetched."""

    def __init__(self, place=None):
        places = (core.CPUPlace, core.CUDAPlace, core.CUDAPinnedPlace)
        if place is not None and not isinstance(place, places):
            raise TypeError("a place is a CPUPlace or a CUDAPlace, not {!r}".format(place))
        self.place = core.CPUPlace() if place is None else place
        if isinstance(place, core.CUDAPlace) and not _warned_of_cuda:
            _warned_of_cuda.append(place)
            print("paddlewheel: there is no CUDA here; the CPU is used instead", file=sys.stderr)

    def train_from_dataset(
        self,
        program=None,
        dataset=None,
        scope=None,
        thread=0,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """Trains on all batches of a dataset, on as many threads as it has readers."""
        self.last_pass = Pass(*self._run_dataset(
            program, dataset, scope, fetch_list, fetch_info, print_period, debug, fetch_handler, False
        ))

    def infer_from_dataset(
        self,
        program=None,
        dataset=None,
        scope=None,
        thread=0,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """Runs a program on all batches of a dataset; nothing is sent to servers.

        Returns what `fetch_list` names, as of the whole pass, and prints it at the end: an AUC of all
        samples, counted from zero; the mean of a number; values that have a row for each sample one
        behind the other (those are not printed). Counters of a training stay as they are; those that
        were set to zero before are counted on.
        """
        counts, names, fetched, auc = self._run_dataset(
            program, dataset, scope, fetch_list, fetch_info, print_period, debug, fetch_handler, True
        )
        self.last_pass = Pass(counts, names, fetched, auc)
        return fetched or None


class FetchHandler:
    """Called now and then with variables of a training that reads a dataset."""

    def __init__(self, var_dict=None, period_secs=60):
        assert var_dict is not None
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict):
        """Override: gets the values by name."""
        for name, value in res_dict.items():
            print("{}: {}".format(name, value))

    @staticmethod
    def help():
        """Prints an example."""
        print(
            """
class Show(fluid.executor.FetchHandler):
    def handler(self, res_dict):
        print(res_dict["auc"])

exe.train_from_dataset(main, dataset, fetch_handler=Show(var_dict={"auc": auc}, period_secs=5))
"""
        )


@contextlib.contextmanager
def scope_guard(scope):
    """Programs run in this scope inside the `with`."""
    before = switch_scope(scope)
    try:
        yield
    finally:
        switch_scope(before)


_switch_scope = switch_scope


def _as_lodtensor(data, place, dtype=None):
    """An array, or a number of a type, as a tensor."""
    if isinstance(data, list):
        raise RuntimeError(
            "Some of your feed data hold LoD information. They can not be completely cast from a list "
            "of Python ndarray to LoDTensor. Please convert data to LoDTensor directly before feeding "
            "the data."
        )
    if numpy.isscalar(data):
        assert dtype is not None, "dtype should be given when casting python scalar to tensor"
        from .data_feeder import convert_dtype

        data = numpy.array([data]).astype(convert_dtype(dtype))
    tensor = core.LoDTensor()
    tensor.set(data, place)
    return tensor


def as_numpy(tensor):
    """Arrays of a tensor, or of a list of them."""
    if isinstance(tensor, (list, core.LoDTensorArray)):
        return [as_numpy(tensor[at]) for at in range(len(tensor))]
    if tensor.lod():
        raise RuntimeError(
            "Some of your fetched tensors hold LoD information. They can not be completely cast "
            "to Python ndarray. Please set the parameter 'return_numpy' as 'False' to return "
            "LoDTensor itself directly."
        )
    return tensor.__array__() if tensor._is_initialized() else None


def _as_lodtensor(data, place, dtype=None):
    """An array, or a number in this type, as a tensor."""
    return _core.as_lodtensor(data, place, dtype)


def _fetch_var(name, scope=None, return_numpy=True):
    """A variable of a scope by name."""
    assert isinstance(name, str)
    var = (scope or global_scope()).find_var(name)
    assert var is not None, "Cannot find " + name + " in scope."
    return as_numpy(var.get_tensor()) if return_numpy else var.get_tensor()
