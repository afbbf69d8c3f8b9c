"""What scripts of version 2 take from `paddle.framework`."""

from .fluid import core
from .fluid._not_yet import unknown
from .fluid.core import CPUPlace, CUDAPlace
from .fluid.framework import Variable, in_dygraph_mode
from .fluid.param_attr import ParamAttr
from .static import io as io_utils
from .tensor.creation import create_parameter, get_default_dtype, set_default_dtype

io_utils.Variable = Variable
__getattr__ = unknown(__name__)
