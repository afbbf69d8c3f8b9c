"""Operators by themselves: made by name, run on a scope."""

from .. import _core
from .framework import get_all_op_protos


class OpInfo:
    """The inputs and outputs of an operator, as lists of names."""

    def __init__(self, proto):
        self.name = proto.type
        self.inputs = [(port.name, port.duplicable) for port in proto.inputs]
        self.outputs = [(port.name, port.duplicable) for port in proto.outputs]
        self.attrs = [attr.name for attr in proto.attrs]

    def method(self, **kwargs):
        """An operator of this kind."""
        return _core.make_operator(self.name, **kwargs)


class OperatorFactory:
    """Makes operators: `Operator("sgd", Param="w", Grad="g", …).run(scope, place)`."""

    def __call__(self, *args, **kwargs):
        if "type" in kwargs:
            args += (kwargs.pop("type"),)
        if len(args) != 1:
            raise ValueError(
                'Except the argument "type",all of the other arguments should be keyword arguments.'
            )
        return _core.make_operator(args[0], **kwargs)

    def types(self):
        """The names of all operators."""
        return _core.op_types()

    def get_op_info(self, t):
        """The inputs and outputs of an operator."""
        return OpInfo(_core.op_proto(t))

    def get_op_input_names(self, type):
        """The ports an operator reads."""
        return [name for name, _ in self.get_op_info(type).inputs]

    def get_op_inputs(self, type):
        """The ports an operator reads, each with whether it takes several variables."""
        return self.get_op_info(type).inputs

    def get_op_output_names(self, type):
        """The ports an operator writes."""
        return [name for name, _ in self.get_op_info(type).outputs]

    def get_op_outputs(self, type):
        """The ports an operator writes, each with whether it takes several variables."""
        return self.get_op_info(type).outputs

    def get_op_attr_names(self, type):
        """The attributes of an operator."""
        return self.get_op_info(type).attrs


Operator = OperatorFactory()
