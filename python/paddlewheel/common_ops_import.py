"""What layers of a script's own import in version 2."""

from .fluid.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype
from .fluid.framework import Variable, default_main_program, in_dygraph_mode
from .fluid.layer_helper import LayerHelper
