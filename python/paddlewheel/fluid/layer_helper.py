"""What a script needs to write a layer of its own."""

from .. import _core
from . import unique_name
from .framework import default_main_program, default_startup_program


class LayerHelper:
    """Names, variables and operators of one layer."""

    def __init__(self, layer_type, **kwargs):
        self.layer_type = layer_type
        self.kwargs = kwargs
        self.name = kwargs.get("name") or unique_name.generate(layer_type)

    @property
    def main_program(self):
        """The program that the layer is part of."""
        return default_main_program()

    @property
    def startup_program(self):
        """The program that fills its parameters."""
        return default_startup_program()

    @property
    def param_attr(self):
        """The `param_attr` that the layer was called with."""
        return self.kwargs.get("param_attr")

    @property
    def bias_attr(self):
        """The `bias_attr` that the layer was called with."""
        return self.kwargs.get("bias_attr")

    def input(self, input_param_name="input"):
        """The only input of this name."""
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError("{} layer only takes one input".format(self.layer_type))
        return inputs[0]

    def multiple_input(self, input_param_name="input"):
        """The inputs of this name as a list."""
        inputs = self.kwargs.get(input_param_name, [])
        return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]

    def input_dtype(self, input_param_name="input"):
        """The element type that all inputs have."""
        types = [var.dtype for var in self.multiple_input(input_param_name)]
        if any(kind != types[0] for kind in types):
            raise ValueError("Data Type mismatch: {}".format(types))
        return types[0] if types else None

    def append_op(self, *args, **kwargs):
        """Appends an operator to the current block."""
        return self.main_program.current_block().append_op(*args, **kwargs)

    def create_variable_for_type_inference(self, dtype, stop_gradient=False):
        """A variable for a result; the operator sets its shape."""
        return self.main_program.current_block().create_var(
            name=unique_name.generate(self.name + ".tmp"),
            dtype=dtype,
            persistable=False,
            stop_gradient=stop_gradient,
        )

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args, **kwargs):
        """A variable of the current block."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable=False, *args, **kwargs):
        """A variable of the outermost block."""
        return self.main_program.global_block().create_var(
            *args, persistable=persistable, **kwargs
        )

    def create_parameter(
        self, attr, shape, dtype=None, is_bias=False, default_initializer=None, **kwargs
    ):
        """A parameter; None if the script said False."""
        if attr is False:
            return None
        return _core.layers.create_parameter(
            shape, dtype or "float32", None, attr, is_bias, default_initializer
        )

    def append_activation(self, input_var):
        """The variable with the activation that the layer was called with."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        name = act if isinstance(act, str) else act["type"]
        return getattr(_core.layers, name)(input_var)
