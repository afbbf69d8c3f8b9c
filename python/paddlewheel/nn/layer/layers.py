"""Layers that keep parameters and other layers, over the programs that are built."""

import collections
import re

from ... import _core
from ...fluid.layer_helper import LayerHelper
from ...fluid.param_attr import ParamAttr

Variable = _core.Variable


def snake(name):
    """`DeepFMLayer` as `deep_fm_layer`."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class Layer:
    """Keeps parameters and sublayers; `forward` adds operators to the current program.

    Override `__init__` and `forward`. Parameters and layers that are set as attributes are found by
    `parameters()`, `sublayers()` and `state_dict()`.
    """

    def __init__(self, name_scope=None, dtype="float32"):
        scope = snake(type(self).__name__) if name_scope is None else snake(name_scope)
        fields = {
            "training": True,
            "_full_name": _core.unique_name_generate(scope),
            "_dtype": dtype,
            "_parameters": collections.OrderedDict(),
            "_sub_layers": collections.OrderedDict(),
            "_buffers": collections.OrderedDict(),
        }
        self.__dict__.update(fields)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        forward = cls.__dict__.get("forward")
        if cls.__module__.startswith(__name__.partition(".")[0]) and forward is not None and not forward.__doc__:
            forward.__doc__ = "Adds the operators of this layer: " + (cls.__doc__ or cls.__name__)

    def forward(self, *inputs, **kwargs):
        """Override: adds the operators of this layer."""
        raise NotImplementedError

    def __call__(self, *inputs, **kwargs):
        return self.forward(*inputs, **kwargs)

    def full_name(self):
        """The name that its parameters begin with."""
        return self._full_name

    def train(self):
        """Dropout and batch norms of operators made from now on behave as in training."""
        self._switch(True)

    def eval(self):
        """Dropout and batch norms of operators made from now on behave as in a test."""
        self._switch(False)

    def _switch(self, training):
        self.training = training
        for layer in self.sublayers():
            layer.training = training

    def create_parameter(self, shape, attr=None, dtype=None, is_bias=False, default_initializer=None):
        """A parameter of this layer; None if `attr` is False."""
        if attr is False:
            return None
        helper = LayerHelper(self._full_name, name=self._full_name)
        attr = ParamAttr._to_attr(attr)
        return helper.create_parameter(attr, list(shape), dtype or self._dtype, is_bias, default_initializer)

    def create_variable(self, name=None, persistable=None, dtype=None):
        """A variable that is no parameter."""
        name = name or _core.unique_name_generate(self._full_name + "_generated_var")
        block = _core.default_main_program().current_block()
        return block.create_var(name=name, persistable=bool(persistable), dtype=dtype or self._dtype)

    create_tensor = create_variable

    def __setattr__(self, name, value):
        fields = self.__dict__
        if "_parameters" not in fields:
            if isinstance(value, Layer) or _is_parameter(value):
                raise ValueError("super().__init__() should be called first")
            return object.__setattr__(self, name, value)
        for place in ("_parameters", "_sub_layers", "_buffers"):
            fields[place].pop(name, None)
        if isinstance(value, Layer):
            fields["_sub_layers"][name] = value
        elif _is_parameter(value):
            fields["_parameters"][name] = value
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        for place in ("_parameters", "_sub_layers", "_buffers"):
            self.__dict__[place].pop(name, None)
        object.__delattr__(self, name)

    def add_sublayer(self, name, sublayer):
        """A layer inside of this one."""
        if not isinstance(sublayer, Layer) and sublayer is not None:
            raise TypeError("a sublayer is a Layer, not {}".format(type(sublayer)))
        self._sub_layers[name] = sublayer
        self.__dict__[name] = sublayer
        return sublayer

    def add_parameter(self, name, parameter):
        """A parameter of this layer; None for none."""
        if parameter is not None and not _is_parameter(parameter):
            raise TypeError("a parameter is a Parameter, not {}".format(type(parameter)))
        self._parameters[name] = parameter
        self.__dict__[name] = parameter
        return parameter

    def register_buffer(self, name, tensor, persistable=True):
        """A variable of this layer that training does not change."""
        self._buffers[name] = tensor
        self.__dict__[name] = tensor

    def children(self):
        """The layers directly inside of this one."""
        return iter([layer for layer in self._sub_layers.values() if layer is not None])

    def named_children(self):
        """The layers directly inside of this one, with their names."""
        return iter([(name, layer) for name, layer in self._sub_layers.items() if layer is not None])

    def named_sublayers(self, prefix="", include_self=False, layers_set=None):
        """All layers inside of this one, with their paths; each once."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None and layer not in seen:
                path = prefix + ("." if prefix else "") + name
                yield from layer.named_sublayers(path, True, seen)

    def sublayers(self, include_self=False):
        """All layers inside of this one."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_parameters(self, prefix="", include_sublayers=True):
        """All parameters with their paths; each once."""
        seen = set()
        layers = self.named_sublayers(prefix, True) if include_sublayers else [(prefix, self)]
        for path, layer in layers:
            for name, parameter in layer._parameters.items():
                if parameter is not None and parameter.name not in seen:
                    seen.add(parameter.name)
                    yield path + ("." if path else "") + name, parameter

    def parameters(self, include_sublayers=True):
        """All parameters."""
        return [parameter for _, parameter in self.named_parameters("", include_sublayers)]

    def named_buffers(self, prefix="", include_sublayers=True):
        """All other variables with their paths."""
        layers = self.named_sublayers(prefix, True) if include_sublayers else [(prefix, self)]
        for path, layer in layers:
            for name, buffer in layer._buffers.items():
                yield path + ("." if path else "") + name, buffer

    def buffers(self, include_sublayers=True):
        """All other variables."""
        return [buffer for _, buffer in self.named_buffers("", include_sublayers)]

    def state_dict(self, destination=None, include_sublayers=True, structured_name_prefix="", use_hook=True):
        """Parameters and other variables by path."""
        state = collections.OrderedDict() if destination is None else destination
        for path, var in self.named_parameters(structured_name_prefix, include_sublayers):
            state[path] = var
        for path, var in self.named_buffers(structured_name_prefix, include_sublayers):
            state[path] = var
        return state

    def set_state_dict(self, state_dict, use_structured_name=True):
        """Puts arrays into the variables of this layer in the current scope."""
        import numpy

        from ...fluid import global_scope

        own = self.state_dict()
        byname = {var.name: var for var in own.values()}
        missing = []
        for path, var in own.items():
            key = path if use_structured_name else var.name
            if key not in state_dict:
                missing.append(key)
                continue
            global_scope().var(var.name).get_tensor().set(numpy.asarray(state_dict[key]), _core.CPUPlace())
        known = own if use_structured_name else byname
        return missing, [key for key in state_dict if key not in known]

    set_dict = load_dict = set_state_dict

    def apply(self, fn):
        """Calls a function with each layer inside, and with this one."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def to(self, device=None, dtype=None, blocking=None):
        """Only the processor is there, and types are chosen when a layer is made."""
        if dtype is not None and dtype != self._dtype:
            raise NotImplementedError("the type of a layer is chosen when it is made")
        return self

    def extra_repr(self):
        """What its text says of it."""
        return ""

    def __repr__(self):
        inside = ["  ({}): {!r}".format(name, layer).replace("\n", "\n  ") for name, layer in self.named_children()]
        text = "{}({})".format(type(self).__name__, self.extra_repr())
        return text if not inside else "{}(\n{}\n)".format(type(self).__name__, "\n".join(inside))


def _is_parameter(value):
    return isinstance(value, Variable) and bool(value.is_parameter)


class Sequential(Layer):
    """Layers one behind the other: layers, or pairs of name and layer."""

    def __init__(self, *layers):
        super().__init__()
        for at, layer in enumerate(layers):
            name, layer = layer if isinstance(layer, (list, tuple)) else (str(at), layer)
            self.add_sublayer(name, layer)

    def __getitem__(self, at):
        return list(self._sub_layers.values())[at] if isinstance(at, int) else self._sub_layers[at]

    def __len__(self):
        return len(self._sub_layers)

    def forward(self, input):
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """A list of layers."""

    def __init__(self, sublayers=None):
        super().__init__()
        self.extend(sublayers or [])

    def __getitem__(self, at):
        layers = list(self._sub_layers.values())
        return LayerList(layers[at]) if isinstance(at, slice) else layers[at]

    def __setitem__(self, at, layer):
        self.add_sublayer(str(range(len(self))[at]), layer)

    def __len__(self):
        return len(self._sub_layers)

    def __iter__(self):
        return iter(self._sub_layers.values())

    def append(self, sublayer):
        """One more at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index, sublayer):
        """One more at a place."""
        layers = list(self)
        layers.insert(index, sublayer)
        self._sub_layers.clear()
        self.extend(layers)

    def extend(self, sublayers):
        """Several more at the end."""
        for layer in sublayers:
            self.append(layer)
        return self


class ParameterList(Layer):
    """A list of parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        for parameter in parameters or []:
            self.append(parameter)

    def __getitem__(self, at):
        return list(self._parameters.values())[at]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def append(self, parameter):
        """One more at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self


class LayerDict(Layer):
    """Layers by name."""

    def __init__(self, sublayers=None):
        super().__init__()
        self.update(sublayers or {})

    def update(self, sublayers):
        """Adds or replaces layers."""
        for name, layer in dict(sublayers).items():
            self.add_sublayer(name, layer)

    def __getitem__(self, name):
        return self._sub_layers[name]

    def __setitem__(self, name, layer):
        self.add_sublayer(name, layer)

    def __contains__(self, name):
        return name in self._sub_layers

    def __len__(self):
        return len(self._sub_layers)

    def __iter__(self):
        return iter(self._sub_layers)

    def keys(self):
        """The names."""
        return self._sub_layers.keys()

    def values(self):
        """The layers."""
        return self._sub_layers.values()

    def items(self):
        """Pairs of name and layer."""
        return self._sub_layers.items()
