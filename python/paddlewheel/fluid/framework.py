"""Programs, variables, places, and which of them are current."""

import contextlib
import functools
import os
import re
import sys

from .. import _core
from .._core import (
    Block,
    Operator,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    switch_main_program,
    switch_startup_program,
)
from . import core, unique_name
from ._flags import get_flags, set_flags

OpRole = core.op_proto_and_checker_maker.OpRole

#: The end of the name of a gradient, and other names with a meaning.
GRAD_VAR_SUFFIX = "@GRAD"
EMPTY_VAR_NAME = "@EMPTY@"
TEMP_VAR_NAME = "@TEMP@"
ZERO_VAR_SUFFIX = "@ZERO"
CONTROL_DEP_VAR_PREFIX = "__control_var"

#: The version of Fluid whose behaviour this package has.
FLUID_VERSION = "1.8.5"


#: Attributes of a program that scripts look for besides its contents.
PROGRAM_DEFAULTS = {
    "_trainers_endpoints": (),
    "_fleet_opt": None,
    "_pipeline_opt": None,
    "_is_mem_optimized": False,
}
for _name, _value in PROGRAM_DEFAULTS.items():
    setattr(Program, _name, _value)


def _of_job(name, read, otherwise):
    """A fact of a transpiled program about its job, unless a script has set it."""

    def get(program):
        if name in program.__dict__:
            return program.__dict__[name]
        job = _core.program_job(program)
        return otherwise if job is None else read(job)

    def put(program, value):
        program.__dict__[name] = value

    setattr(Program, name, property(get, put))


_of_job("_is_distributed", lambda job: True, False)
_of_job("_is_chief", lambda job: job["is_chief"], False)
_of_job("_endpoints", lambda job: job["endpoints"], ())
_of_job("_ps_endpoint", lambda job: job["ps_endpoint"], None)
_of_job("_parameters_on_pservers", lambda job: job["placement"], None)
_of_job("_distributed_lookup_table", lambda job: job["lookup_table"], None)


def _inference_optimize(self, prune_read_op=True):
    """A copy for testing."""
    return self.clone(for_test=True)


Program._inference_optimize = _inference_optimize


class ComplexVariable:
    """A complex number as two variables of one shape and type: its real and its imaginary part."""

    def __new__(cls, *arg, **kwargs):
        variable = super().__new__(cls)
        variable.real = None
        variable.imag = None
        return variable

    def __init__(self, real, imag):
        assert tuple(real.shape) == tuple(imag.shape), (
            "The real part and imaginary part of a ComplexVariable should have the same shape!"
        )
        assert real.dtype == imag.dtype, (
            "The real part and imaginary part of a ComplexVariable should have the same data type!"
        )
        self.real = real
        self.imag = imag
        #: The type that a pair of such numbers has.
        self.dtype = self._complex_type(real.dtype)
        self.shape = real.shape

    @staticmethod
    def _complex_type(dtype):
        kinds = core.VarDesc.VarType
        return {kinds.FP32: "complex64", kinds.FP64: "complex128"}.get(dtype)

    @property
    def name(self):
        """The names of both parts."""
        return {"real": self.real.name, "imag": self.imag.name}

    @name.setter
    def name(self, name):
        if isinstance(name, str):
            name = name + ".real", name + ".imag"
        assert isinstance(name, (list, tuple)) and len(name) == 2, "two names, or one for both"
        self.real.name, self.imag.name = name

    def numpy(self):
        """Of the imperative mode: fetch both parts with `Executor.run` and add them up."""
        raise NotImplementedError(
            "ComplexVariable.numpy needs values, which a program has only when it runs: fetch real and imag"
        )

    def __str__(self):
        return "REAL: {}IMAG: {}".format(self.real, self.imag)

    __repr__ = __str__


class OpProtoHolder:
    """The inputs and outputs of operators, by name."""

    @classmethod
    def instance(cls):
        """The one holder."""
        return cls()

    def get_op_proto(self, type):
        """The inputs and outputs of an operator."""
        if not self.has_op_proto(type):
            raise ValueError('Operator "%s" has not been registered.' % type)
        return _core.op_proto(type)

    def has_op_proto(self, type):
        """Whether there is an operator of this name."""
        return type in _core.op_types()

    @staticmethod
    def generated_op_attr_names():
        """The attributes that every operator has."""
        maker = core.op_proto_and_checker_maker
        return {
            maker.kOpRoleAttrName(),
            maker.kOpRoleVarAttrName(),
            maker.kOpNameScopeAttrName(),
            maker.kOpCreationCallstackAttrName(),
            maker.kOpDeviceAttrName(),
        }


def get_all_op_protos():
    """The inputs and outputs of each operator."""
    return core.get_all_op_protos()


class _ParameterMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Variable) and bool(instance.is_parameter)


class Parameter(metaclass=_ParameterMeta):
    """A variable that training changes: `isinstance(var, Parameter)` asks the variable."""

    def __new__(cls, block, shape, dtype, **kwargs):
        return block.create_parameter(shape=shape, dtype=dtype, **kwargs)


@contextlib.contextmanager
def program_guard(main_program, startup_program=None):
    """Layers write into these programs inside the `with`; the ones before come back after it."""
    check_program(main_program, "main_program")
    if startup_program is not None:
        check_program(startup_program, "startup_program")
    main = switch_main_program(main_program)
    startup = None if startup_program is None else switch_startup_program(startup_program)
    try:
        yield
    finally:
        switch_main_program(main)
        if startup is not None:
            switch_startup_program(startup)


@contextlib.contextmanager
def _role_guard(program, role, pair=()):
    before = program._op_role, program._op_role_var
    program._op_role = role
    program._op_role_var = [getattr(var, "name", var) for var in pair]
    try:
        yield
    finally:
        program._op_role, program._op_role_var = before


def _optimized_guard(self, param_and_grads):
    """Operators made inside the `with` change parameters."""
    return _role_guard(self, OpRole.Optimize, param_and_grads)


def _backward_role_guard(self):
    """Operators made inside the `with` compute gradients."""
    return _role_guard(self, OpRole.Backward)


def _lr_schedule_guard(self, is_with_opt=False):
    """Operators made inside the `with` compute the learning rate."""
    return _role_guard(self, OpRole.LRSched | (OpRole.Optimize if is_with_opt else 0))


Program._optimized_guard = _optimized_guard
Program._backward_role_guard = _backward_role_guard
Program._lr_schedule_guard = _lr_schedule_guard


def check_program(program, name):
    """TypeError unless it is a program."""
    if not isinstance(program, Program):
        raise TypeError(
            "The type of '{}' in fluid.program_guard must be {}, but received {}.".format(
                name, Program, type(program)
            )
        )


@contextlib.contextmanager
def name_scope(prefix=None):
    """Operators made inside the `with` are annotated with this scope; names do not change."""
    assert prefix, "namescope prefix can not be empty."
    program = default_main_program()
    around = program._enter_scope(prefix)
    try:
        yield
    finally:
        program._namescope = around


@contextlib.contextmanager
def device_guard(device=None):
    """Accepted; there is one device."""
    if device is not None and device.split(":")[0] not in ("cpu", "gpu", ""):
        raise ValueError(
            "The Attr(device) should be 'cpu' or 'gpu', and it can also be empty string or None "
            "when there is no need to specify device. But received %s" % device
        )
    yield


def cpu_places(device_count=None):
    """A list of processor places, as many as asked for or as `CPU_NUM` says."""
    return [core.CPUPlace() for _ in range(_cpu_num() if device_count is None else device_count)]


def cuda_places(device_ids=None):
    """Places of graphics cards; the processor stands in for each."""
    if device_ids is None:
        text = os.environ.get("FLAGS_selected_gpus", "")
        device_ids = [int(item) for item in text.split(",") if item] or [0]
    elif not isinstance(device_ids, (list, tuple)):
        device_ids = [device_ids]
    return [core.CUDAPlace(id) for id in device_ids]


def cuda_pinned_places(device_count=None):
    """Places of pinned memory."""
    count = _cpu_num() if device_count is None else device_count
    return [core.CUDAPinnedPlace() for _ in range(count)]


def _cpu_num():
    if "CPU_NUM" not in os.environ:
        print(
            "The CPU_NUM is not specified, you should set CPU_NUM in the environment variable "
            "list. The default number of CPU_NUM=1.",
            file=sys.stderr,
        )
        os.environ["CPU_NUM"] = "1"
    return int(os.environ["CPU_NUM"])


def enable_dygraph(place=None):
    """Not supported: programs are built first and run afterwards."""
    from ._dygraph import WHY

    raise NotImplementedError("fluid.dygraph is not there: " + WHY)


def disable_dygraph():
    """Nothing to do: programs are always built first and run afterwards."""


enable_imperative = enable_dygraph
disable_imperative = disable_dygraph


def _dygraph_tracer():
    """Nothing records operators: programs are built first and run afterwards."""


def _dygraph_not_support_(func):
    """Marks what works on programs; everything does here."""
    return func


def _dygraph_only_(func):
    """Marks what works in the imperative mode alone, which is not there."""

    @functools.wraps(func)
    def refuse(*args, **kwargs):
        raise AssertionError(
            "We only support '%s()' in dynamic graph mode, please call "
            "'fluid.enable_dygraph()' to enter dynamic graph mode." % func.__name__
        )

    return refuse


dygraph_not_support = _dygraph_not_support_
dygraph_only = _dygraph_only_


def in_dygraph_mode():
    """Always false: programs are built first and run afterwards."""
    return False


def is_compiled_with_cuda():
    """Always false: everything runs on the processor."""
    return core.is_compiled_with_cuda()


def require_version(min_version, max_version=None):
    """Raises unless the Fluid version mirrored here lies between the two."""
    mine = version_numbers(FLUID_VERSION, "version")
    lowest = version_numbers(min_version, "min_version")
    highest = None if max_version is None else version_numbers(max_version, "max_version")
    if mine < lowest or (highest is not None and mine > highest):
        wanted = "{} or higher".format(min_version)
        if highest is not None:
            wanted = "between {} and {}".format(min_version, max_version)
        raise Exception(
            "VersionError: PaddlePaddle version {} is required, but {} installed.".format(
                wanted, FLUID_VERSION
            )
        )


def version_numbers(text, name):
    """The four numbers of a version."""
    if not isinstance(text, str):
        raise TypeError(
            "The type of '{}' in require_version must be str, but received {}.".format(
                name, type(text)
            )
        )
    if not re.fullmatch(r"\d+(\.\d+){0,3}", text):
        raise ValueError(
            "The value of '{}' in require_version must be in format '\\d+(\\.\\d+){{0,3}}', "
            "like '1.5.2.0', but received {}".format(name, text)
        )
    numbers = [int(part) for part in text.split(".")]
    return numbers + [0] * (4 - len(numbers))


def _current_expected_place():
    """Where programs run: the processor."""
    return core.CPUPlace()


def generate_control_dev_var_name():
    """A name for a variable that only keeps operators in order."""
    return unique_name.generate(CONTROL_DEP_VAR_PREFIX)


def convert_np_dtype_to_dtype_(np_dtype):
    """The `VarType` of a numpy type or its name."""
    import numpy

    tensor = core.LoDTensor()
    tensor.set(numpy.zeros(1, dtype=np_dtype))
    return tensor._dtype()


def dtype_is_floating(dtype):
    """Whether elements of this type are floating point numbers."""
    if not isinstance(dtype, core.VarDesc.VarType):
        dtype = convert_np_dtype_to_dtype_(dtype)
    kinds = core.VarDesc.VarType
    return dtype in (kinds.FP16, kinds.FP32, kinds.FP64)


def grad_var_name(var_name):
    """The name of a variable's gradient."""
    return var_name + GRAD_VAR_SUFFIX


def load_op_library(lib_filename):
    """Foreign operators cannot be loaded."""
    raise NotImplementedError("operators of other libraries cannot be loaded: " + lib_filename)


def _get_var(name, program=None):
    return (program or default_main_program()).global_block().var(name)
