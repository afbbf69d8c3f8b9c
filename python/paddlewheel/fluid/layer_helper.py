"""Helpers for layers that scripts write."""

import copy

from .. import _core
from .param_attr import ParamAttr

__all__ = ["LayerHelper"]


class LayerHelper:
    """Names a layer, and makes its variables, parameters and operators in the current programs.

    `kwargs` are what the layer was called with: `input`, `param_attr`, `bias_attr`, `act`, `name`.
    """

    def __init__(self, layer_type, **kwargs):
        if kwargs.get("name") is None:
            kwargs["name"] = _core.unique_name_generate(layer_type)
        self.kwargs = kwargs
        self.layer_type = layer_type

    @property
    def name(self):
        """The name of this layer: `my_layer_0`."""
        return self.kwargs["name"]

    @property
    def main_program(self):
        """The program that layers write into."""
        return _core.default_main_program()

    @property
    def startup_program(self):
        """The program that fills parameters."""
        return _core.default_startup_program()

    def append_op(self, *args, **kwargs):
        """Appends an operator to the current block."""
        return self.main_program.current_block().append_op(*args, **kwargs)

    def multiple_input(self, input_param_name="input"):
        """The variables at an argument of the layer, as a list."""
        inputs = self.kwargs.get(input_param_name, [])
        return [self.to_variable(item) for item in _as_list(inputs)]

    def input(self, input_param_name="input"):
        """The one variable at an argument of the layer."""
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f"{self.layer_type} layer only takes one input")
        return inputs[0]

    def input_dtype(self, input_param_name="input"):
        """The element type that all inputs have."""
        dtypes = [var.dtype for var in self.multiple_input(input_param_name)]
        for dtype in dtypes:
            if dtype != dtypes[0]:
                raise ValueError(f"Data Type mismatch: {dtypes[0]!r} to {dtype!r}")
        return dtypes[0] if dtypes else None

    def to_variable(self, value, name=None):
        """The value itself, which must be a Variable."""
        if isinstance(value, _core.Variable):
            return value
        raise TypeError(f"{self.layer_type}: an input must be a Variable, but got {type(value)}")

    def is_instance(self, param_name, cls):
        """Raises TypeError unless an argument of the layer is one of these."""
        if not isinstance(self.kwargs.get(param_name), cls):
            raise TypeError(
                f"The input {param_name} parameter of method {self.layer_type} must be {cls.__name__}"
            )

    @property
    def param_attr(self):
        """The attributes of the layer's `param_attr`."""
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self):
        """The attributes of the layer's `bias_attr`; False for no bias."""
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length):
        """One `param_attr` for each of so many inputs."""
        attrs = _as_list(self.param_attr)
        if len(attrs) == 1 and length != 1:
            return [copy.deepcopy(attrs[0]) for _ in range(length)]
        if len(attrs) != length:
            raise ValueError("parameter number mismatch")
        return attrs

    def iter_inputs_and_params(self, input_param_name="input"):
        """Each input with its `param_attr`."""
        inputs = self.multiple_input(input_param_name)
        return iter(zip(inputs, self.multiple_param_attr(len(inputs))))

    def create_parameter(
        self,
        attr,
        shape,
        dtype=None,
        is_bias=False,
        default_initializer=None,
        stop_gradient=False,
        type=_core.VarType.LOD_TENSOR,
    ):
        """A parameter of this layer; None if `attr` is False."""
        dtype = "float32" if dtype is None else dtype
        parameter = _core.layers._parameter(
            self.name, attr, shape, dtype, is_bias, default_initializer
        )
        if parameter is not None and stop_gradient:
            parameter.stop_gradient = True
        return parameter

    def get_parameter(self, name):
        """A parameter of the program by name."""
        variable = self.main_program.global_block().var(name)
        if not variable.is_parameter:
            raise ValueError(f"no Parameter name {name} found")
        return variable

    def create_variable_for_type_inference(self, dtype, stop_gradient=False):
        """A variable for the result of an operator."""
        name = _core.unique_name_generate(self.name + ".tmp")
        block = self.main_program.current_block()
        return block.create_var(name=name, dtype=dtype, stop_gradient=stop_gradient)

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args, **kwargs):
        """A variable of the current block."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable=False, *args, **kwargs):
        """A variable of the outermost block; nothing fills it at the start."""
        block = self.main_program.global_block()
        return block.create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name, *args, **kwargs):
        """A variable of the outermost block, and whether it is new."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var, initializer):
        """Lets the startup program fill a variable."""
        _core.layers._initialize(var, initializer)
        return var

    def append_bias_op(self, input_var, dim_start=1, dim_end=None):
        """The input plus a bias of its dimensions from `dim_start`, if the layer has a bias."""
        attr = self.bias_attr
        if not attr:
            return input_var
        shape = list(input_var.shape[dim_start:dim_end])
        bias = self.create_parameter(attr, shape, input_var.dtype, is_bias=True)
        return self._append("elementwise_add", {"X": input_var, "Y": bias}, {"axis": dim_start})

    def append_activation(self, input_var):
        """The input through the layer's `act`, if it has one."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        if not isinstance(act, str):
            raise TypeError(f"{self.layer_type}: act {act!r} should be str")
        return self._append(act, {"X": input_var}, {})

    def _append(self, op, inputs, attrs):
        out = self.create_variable_for_type_inference(inputs["X"].dtype)
        self.append_op(type=op, inputs=inputs, outputs={"Out": out}, attrs=attrs)
        return out


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]
