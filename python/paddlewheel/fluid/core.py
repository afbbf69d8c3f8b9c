"""The native objects under their Fluid names."""

from .. import _core
from .._core import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    EnforceNotMet,
    EOFException,
    LoDTensor,
    LoDTensorArray,
    Scope,
    SelectedRows,
)

Tensor = LoDTensor
Variable = _core.ScopeVariable
ProgramDesc = _core.Program
OpDesc = _core.Operator
BlockDesc = _core.Block

_Scope = Scope


class VarDesc:
    """Holds the types of variables and elements: `core.VarDesc.VarType.FP32`."""

    VarType = _core.VarType


class op_proto_and_checker_maker:
    """Names of the attributes that every operator has, and the roles of operators."""

    class OpRole:
        """What an operator is for; roles are bits."""

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
    """What the name of a gradient ends with."""
    return "@GRAD"


def empty_var_name():
    """The name that stands for no variable."""
    return "@EMPTY@"


kGradVarSuffix = grad_var_suffix
kEmptyVarName = empty_var_name


def get_variable_tensor(scope, name):
    """The tensor of a variable of a scope."""
    return scope.find_var(name).get_tensor()
