"""Recurrent networks made of plain layers: one step as a unit, and whole networks of them."""

import copy

from ... import _core
from .. import unique_name
from ..layer_helper import LayerHelper

_layers = _core.layers


class _Unit:
    """One step whose parameters are made when it is first built."""

    def __init__(self, name_scope, hidden_size, param_attr, bias_attr, dtype):
        self._full_name = unique_name.generate(
            "{}/{}".format(name_scope, type(self).__name__)
        )
        self._helper = LayerHelper(type(self).__name__, name=self._full_name)
        self._name = name_scope
        self._hiden_size = hidden_size
        self._param_attr = param_attr
        self._bias_attr = bias_attr
        self._dtype = dtype
        self._built = False

    def full_name(self):
        """The name that its parameters begin with."""
        return self._full_name

    def create_parameter(self, shape, attr=None, is_bias=False):
        """A parameter of this unit, in the outermost block."""
        return self._helper.create_parameter(attr, shape, self._dtype, is_bias=is_bias)

    def __call__(self, input, *states):
        if not self._built:
            self._input_size = input.shape[-1]
            assert self._input_size > 0, "the last dimension of the input must be known"
            self._build_once()
            self._built = True
        return self.forward(input, *states)


def _named(attr, ending):
    """What is said of a parameter, its name (if it has one) with this ending."""
    if attr is None or getattr(attr, "name", None) is None:
        return attr
    attr = copy.deepcopy(attr)
    attr.name += ending
    return attr


class BasicGRUUnit(_Unit):
    """One step of a gated recurrent unit."""

    def __init__(
        self,
        name_scope,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        dtype="float32",
    ):
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, dtype)
        self._gate_activation = gate_activation or _layers.sigmoid
        self._activation = activation or _layers.tanh

    def _build_once(self):
        size, width = self._hiden_size, self._input_size + self._hiden_size
        weight, bias = self._param_attr, self._bias_attr
        self._gate_weight = self.create_parameter([width, 2 * size], _named(weight, "_gate"))
        self._candidate_weight = self.create_parameter([width, size], _named(weight, "_candidate"))
        self._gate_bias = self.create_parameter([2 * size], _named(bias, "_gate"), True)
        self._candidate_bias = self.create_parameter([size], _named(bias, "_candidate"), True)

    def forward(self, input, pre_hidden):
        """The new state."""
        both = _layers.concat([input, pre_hidden], 1)
        gates = _layers.matmul(x=both, y=self._gate_weight)
        gates = self._gate_activation(_layers.elementwise_add(gates, self._gate_bias))
        reset, update = _layers.split(gates, num_or_sections=2, dim=1)
        both = _layers.concat([input, reset * pre_hidden], 1)
        candidate = _layers.matmul(both, self._candidate_weight)
        candidate = self._activation(_layers.elementwise_add(candidate, self._candidate_bias))
        return update * pre_hidden + (1 - update) * candidate


class BasicLSTMUnit(_Unit):
    """One step of a long short-term memory."""

    def __init__(
        self,
        name_scope,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        forget_bias=1.0,
        dtype="float32",
    ):
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, dtype)
        self._gate_activation = gate_activation or _layers.sigmoid
        self._activation = activation or _layers.tanh
        self._forget_bias = _layers.fill_constant([1], dtype=dtype, value=forget_bias)
        self._forget_bias.stop_gradient = False

    def _build_once(self):
        size, width = self._hiden_size, self._input_size + self._hiden_size
        self._weight = self.create_parameter([width, 4 * size], self._param_attr)
        self._bias = self.create_parameter([4 * size], self._bias_attr, True)

    def forward(self, input, pre_hidden, pre_cell):
        """The new hidden state, and the new state of the cell. Fluid's steps do not look at the activations that a
        script gives; nor do these."""
        gates = _layers.matmul(x=_layers.concat([input, pre_hidden], 1), y=self._weight)
        gates = _layers.elementwise_add(gates, self._bias)
        i, j, f, o = _layers.split(gates, num_or_sections=4, dim=-1)
        forget = _layers.sigmoid(_layers.elementwise_add(f, self._forget_bias))
        cell = _layers.elementwise_add(
            _layers.elementwise_mul(pre_cell, forget),
            _layers.elementwise_mul(_layers.sigmoid(i), _layers.tanh(j)),
        )
        return _layers.tanh(cell) * _layers.sigmoid(o), cell


class _Network:
    """Units on top of each other, run over time in one direction or in both."""

    def __init__(self, make, hidden_size, num_layers, n_states, dropout):
        self.make = make
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.n_states = n_states
        self.dropout = dropout

    def units(self, name, attrs, way):
        """The units of a direction."""
        param_attr, bias_attr = attrs
        return [
            self.make(
                "{}_{}".format(name, place),
                _named(param_attr, "_{}_w_{}".format(way, place)),
                _named(bias_attr, "_{}_b_{}".format(way, place)),
            )
            for place in range(self.num_layers)
        ]

    def memory(self, network, input, init):
        """The states that a layer starts with."""
        if init is None:
            return [
                network.memory(batch_ref=input, shape=[-1, self.hidden_size], ref_batch_dim_idx=1)
                for _ in range(self.n_states)
            ]
        return [network.memory(init=state) for state in init]

    def run(self, units, input, mask, init, way):
        """One direction: the outputs of all steps, and the last states, one for each kind."""
        network = _layers.StaticRNN()
        # What states start with is no part of a step.
        starts = [
            init and [state[place, way] for state in init] for place in range(self.num_layers)
        ]
        with network.step():
            x = network.step_input(input)
            here = None if mask is None else network.step_input(mask)
            for place, unit in enumerate(units):
                before = self.memory(network, input, starts[place])
                after = unit(x, *before)
                after = list(after) if isinstance(after, tuple) else [after]
                if here is not None:
                    after = [_still(old, new, here) for old, new in zip(before, after)]
                for old, new in zip(before, after):
                    network.update_memory(old, new)
                for new in after:
                    network.step_output(new)
                x = self.dropout(after[0])
            network.step_output(x)
        results = network()
        last = [result[-1] for result in results[:-1]]
        kinds = [last[kind :: self.n_states] for kind in range(self.n_states)]
        shape = [self.num_layers, -1, self.hidden_size]
        kinds = [_layers.reshape(_layers.concat(kind, axis=0), shape=shape) for kind in kinds]
        return results[-1], kinds

    def __call__(self, input, init, sequence_length, ways, batch_first):
        if batch_first:
            input = _layers.transpose(input, [1, 0, 2])
        mask = None
        if sequence_length is not None:
            longest = _layers.shape(input)[0]
            mask = _layers.sequence_mask(sequence_length, maxlen=longest, dtype="float32")
            mask = _layers.transpose(mask, [1, 0])
        if init is not None:
            shape = [self.num_layers, len(ways), -1, self.hidden_size]
            init = [_layers.reshape(state, shape=shape) for state in init]
        out, last = self.run(ways[0], input, mask, init, 0)
        if len(ways) == 2:
            mask = mask if mask is None else _layers.reverse(mask, axis=[0])
            back, also = self.run(ways[1], _layers.reverse(input, axis=[0]), mask, init, 1)
            out = _layers.concat([out, _layers.reverse(back, axis=[0])], axis=2)
            shape = [self.num_layers * 2, -1, self.hidden_size]
            pairs = zip(last, also)
            last = [
                _layers.reshape(_layers.concat(list(pair), axis=1), shape=shape) for pair in pairs
            ]
        if batch_first:
            out = _layers.transpose(out, [1, 0, 2])
        return (out, *last)


def _still(before, after, mask):
    """The new state where a sequence goes on, else the old one."""
    kept = _layers.elementwise_mul(before, mask - 1.0, axis=0)
    return _layers.elementwise_mul(after, mask, axis=0) - kept


def basic_gru(
    input,
    init_hidden,
    hidden_size,
    num_layers=1,
    sequence_length=None,
    dropout_prob=0.0,
    bidirectional=False,
    batch_first=True,
    param_attr=None,
    bias_attr=None,
    gate_activation=None,
    activation=None,
    dtype="float32",
    name="basic_gru",
):
    """Layers of gated recurrent units: the outputs of all steps, and the last state of each layer."""

    def make(scope, weight, bias):
        return BasicGRUUnit(
            scope, hidden_size, weight, bias, gate_activation, activation, dtype
        )

    def dropout(x):
        return _layers.dropout(x, dropout_prob=dropout_prob) if dropout_prob else x

    network = _Network(make, hidden_size, num_layers, 1, dropout)
    ways = [network.units(name + "_layers", (param_attr, bias_attr), "fw")]
    if bidirectional:
        ways.append(network.units(name + "_reverse_layers", (param_attr, bias_attr), "bw"))
    init = None if init_hidden is None else [init_hidden]
    return network(input, init, sequence_length, ways, batch_first)


def basic_lstm(
    input,
    init_hidden,
    init_cell,
    hidden_size,
    num_layers=1,
    sequence_length=None,
    dropout_prob=0.0,
    bidirectional=False,
    batch_first=True,
    param_attr=None,
    bias_attr=None,
    gate_activation=None,
    activation=None,
    forget_bias=1.0,
    dtype="float32",
    name="basic_lstm",
):
    """Layers of long short-term memories: the outputs of all steps, and both last states of each layer."""

    def make(scope, weight, bias):
        return BasicLSTMUnit(
            scope, hidden_size, weight, bias, gate_activation, activation, forget_bias, dtype
        )

    def dropout(x):
        if not dropout_prob:
            return x
        kind = "upscale_in_train"
        return _layers.dropout(x, dropout_prob=dropout_prob, dropout_implementation=kind)

    network = _Network(make, hidden_size, num_layers, 2, dropout)
    ways = [network.units(name + "_layers", (param_attr, bias_attr), "fw")]
    if bidirectional:
        ways.append(network.units(name + "_reverse_layers", (param_attr, bias_attr), "bw"))
    init = None if init_hidden is None else [init_hidden, init_cell]
    return network(input, init, sequence_length, ways, batch_first)
