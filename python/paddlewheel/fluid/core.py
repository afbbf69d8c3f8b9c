"""The native objects under their Fluid names."""

from .. import _core
from .._core import (
    AnalysisConfig,
    AttrType,
    BlockDesc,
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    EnforceNotMet,
    EOFException,
    LoDTensor,
    LoDTensorArray,
    OpDesc,
    PaddleBuf,
    PaddleDType,
    PaddlePredictor,
    PaddleTensor,
    ProgramDesc,
    Scope,
    SelectedRows,
    VarDesc,
    ZeroCopyTensor,
    create_paddle_predictor,
    get_grad_op_desc,
    get_op_attrs_default_value,
)
from ._flags import globals
from ._not_yet import not_yet_class, unknown

Tensor = LoDTensor
AnalysisPredictor = PaddlePredictor
Variable = _core.ScopeVariable
Operator = _core.CoreOperator

_Scope = Scope

__getattr__ = unknown(__name__)

#: The variables of the imperative mode; nothing here is one.
VarBase = not_yet_class("core.VarBase")


class op_proto_and_checker_maker:
    """Names of the attributes that every operator has, and the roles of operators."""

    class OpRole:
        """The purpose of an operator; roles are bits."""

        Forward = 0x0000
        Backward = 0x0001
        Optimize = 0x0002
        RPC = 0x0004
        Dist = 0x0008
        LRSched = 0x0010
        Loss = 0x0100

    @staticmethod
    def kOpRoleAttrName():
        """The attribute with the role."""
        return "op_role"

    @staticmethod
    def kOpRoleVarAttrName():
        """The attribute with parameter and gradient names."""
        return "op_role_var"

    @staticmethod
    def kOpNameScopeAttrName():
        """The attribute with the scope of names."""
        return "op_namescope"

    @staticmethod
    def kOpCreationCallstackAttrName():
        """The attribute with the Python lines that made the operator."""
        return "op_callstack"

    @staticmethod
    def kOpDeviceAttrName():
        """The attribute with the device."""
        return "op_device"


def is_compiled_with_cuda():
    """Always false: everything runs on the processor."""
    return False


def is_compiled_with_dist():
    """Whether parameter servers are there."""
    return True


def is_compiled_with_mkldnn():
    """Always false: the kernels are our own."""
    return False


def is_compiled_with_brpc():
    """Always false: the wire is our own."""
    return False


def get_cuda_device_count():
    """There is none."""
    return 0


def grad_var_suffix():
    """The end of the name of a gradient."""
    return "@GRAD"


def empty_var_name():
    """The name that stands for no variable."""
    return "@EMPTY@"


kGradVarSuffix = grad_var_suffix
kEmptyVarName = empty_var_name


def kTempVarName():
    """The name that stands for a variable without one."""
    return "@TEMP@"


def kZeroVarSuffix():
    """The end of the name of a gradient of zeros."""
    return "@ZERO"


def kControlDepVarName():
    """The beginning of the name of a variable that only keeps operators in order."""
    return "__control_var"


def loaded_var_suffix():
    """The end of the name of a parameter that was loaded into another program."""
    return "load"


def op_support_gpu(op_type):
    """Always false: everything runs on the processor."""
    return False


def has_grad_op_maker(op_type):
    """Whether Fluid has an operator of this name with a gradient of its own."""
    return op_type in _core.op_types()


def get_all_op_protos():
    """The inputs and outputs of each operator."""
    return [_core.op_proto(kind) for kind in _core.op_types()]


def Place():
    """Where programs run: the processor."""
    return CPUPlace()


def _is_program_version_supported(version):
    """Whether programs of this version of the format can be read: all can."""
    return version >= 0


def size_of_dtype(dtype):
    """Bytes of an element."""
    return SIZES[dtype.name]


SIZES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "INT16": 2, "FP16": 2, "INT32": 4, "FP32": 4}
SIZES.update({"INT64": 8, "FP64": 8})


def _set_eager_deletion_mode(threshold, fraction, fast_mode):
    """Memory of variables is always shared; there is nothing to switch."""


def get_variable_tensor(scope, name):
    """The tensor of a variable of a scope."""
    return scope.find_var(name).get_tensor()
