"""Networks that are run for each step of time: cells, and `rnn`, which runs one."""

from ... import _core
from ..data_feeder import check_dtype, check_type, check_variable_and_dtype
from ..framework import Variable
from .utils import assert_same_structure, flatten, map_structure, pack_sequence_as

_layers = _core.layers
_FLOATS = ["float32", "float64"]


class RNNCell:
    """One step of a network: a subclass has `call`, and `state_shape` if its states start by themselves."""

    def call(self, inputs, states, **kwargs):
        """The outputs of a step, and its states."""
        raise NotImplementedError("RNNCell must implent the call function.")

    def __call__(self, inputs, states, **kwargs):
        return self.call(inputs, states, **kwargs)

    def get_initial_states(
        self, batch_ref, shape=None, dtype="float32", init_value=0, batch_dim_idx=0
    ):
        """States of one value everywhere, as many as `batch_ref` has samples; a nest like `state_shape`."""
        check_variable_and_dtype(
            flatten(batch_ref)[0], "batch_ref", _FLOATS + ["int32", "int64"], "RNNCell"
        )
        check_type(shape, "shape", (list, tuple, type(None), int), "RNNCell")
        check_dtype(dtype, "dtype", _FLOATS, "RNNCell")
        like = flatten(batch_ref)[0]
        shapes = _shapes(self.state_shape if shape is None else shape)

        def state(wrapped):
            sizes = list(wrapped.sizes)
            sizes = sizes if sizes[0] == -1 else [-1] + sizes
            return _layers.fill_constant_batch_size_like(
                input=like,
                shape=sizes,
                dtype=dtype,
                value=init_value,
                input_dim_idx=batch_dim_idx,
            )

        return map_structure(state, shapes)

    @property
    def state_shape(self):
        """The shape of a state, without samples; a nest if there are several."""
        raise NotImplementedError("Please add implementaion for `state_shape` in the used cell.")

    @property
    def state_dtype(self):
        """The type of the states."""
        raise NotImplementedError("Please add implementaion for `state_dtype` in the used cell.")


class _Shape:
    def __init__(self, sizes):
        self.sizes = sizes


def _shapes(nest):
    """A nest of shapes: a list of numbers is one of them."""
    if isinstance(nest, int):
        return _Shape([nest])
    if isinstance(nest, (list, tuple)):
        if all(isinstance(item, int) for item in nest):
            return _Shape(list(nest))
        return type(nest)(_shapes(item) for item in nest)
    return {key: _shapes(item) for key, item in nest.items()}


class GRUCell(RNNCell):
    """A gated recurrent unit."""

    def __init__(
        self,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        dtype="float32",
        name="GRUCell",
    ):
        from ..contrib._basic_rnn import BasicGRUUnit

        check_type(hidden_size, "hidden_size", int, "GRUCell")
        check_dtype(dtype, "dtype", _FLOATS, "GRUCell")
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(
            name, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype
        )

    def call(self, inputs, states):
        """One step: the output is the new state."""
        check_variable_and_dtype(inputs, "inputs", _FLOATS, "GRUCell")
        check_variable_and_dtype(states, "states", _FLOATS, "GRUCell")
        hidden = self.gru_unit(inputs, states)
        return hidden, hidden

    @property
    def state_shape(self):
        """The shape of the state."""
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """A long short-term memory."""

    def __init__(
        self,
        hidden_size,
        param_attr=None,
        bias_attr=None,
        gate_activation=None,
        activation=None,
        forget_bias=1.0,
        dtype="float32",
        name="LSTMCell",
    ):
        from ..contrib._basic_rnn import BasicLSTMUnit

        check_type(hidden_size, "hidden_size", int, "LSTMCell")
        check_dtype(dtype, "dtype", _FLOATS, "LSTMCell")
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(
            name,
            hidden_size,
            param_attr,
            bias_attr,
            gate_activation,
            activation,
            forget_bias,
            dtype,
        )

    def call(self, inputs, states):
        """One step: the output is the first of the two new states."""
        check_variable_and_dtype(inputs, "inputs", _FLOATS, "LSTMCell")
        check_type(states, "states", list, "LSTMCell")
        for place, state in enumerate(states):
            check_variable_and_dtype(state, "state[%d]" % place, _FLOATS, "LSTMCell")
        hidden, cell = self.lstm_unit(inputs, *states)
        return hidden, [hidden, cell]

    @property
    def state_shape(self):
        """The shapes of both states."""
        return [[self.hidden_size], [self.hidden_size]]


def swap_batch_and_time(x):
    """The variable with its first two dimensions exchanged."""
    return _layers.transpose(x, [1, 0] + list(range(2, len(x.shape))))


def _check_nest(nest, name):
    for place, var in enumerate(flatten(nest)):
        check_variable_and_dtype(var, "{}[{}]".format(name, place), _FLOATS, "rnn")


def _still(before, after, mask):
    """The new state where a sequence goes on, else the old one."""
    kept = _layers.elementwise_mul(before, mask - 1.0, axis=0)
    return _layers.elementwise_mul(after, mask, axis=0) - kept


def rnn(
    cell,
    inputs,
    initial_states=None,
    sequence_length=None,
    time_major=False,
    is_reverse=False,
    **kwargs
):
    """Runs a cell for each step of the inputs: all outputs, and the states after the last step."""
    check_type(inputs, "inputs", (Variable, list, tuple, dict), "rnn")
    if not isinstance(inputs, Variable):
        _check_nest(inputs, "inputs")
    check_type(
        initial_states, "initial_states", (Variable, list, tuple, dict, type(None)), "rnn"
    )
    check_type(sequence_length, "sequence_length", (Variable, type(None)), "rnn")
    if initial_states is None:
        initial_states = cell.get_initial_states(
            batch_ref=inputs, batch_dim_idx=1 if time_major else 0
        )
    elif not isinstance(initial_states, Variable):
        _check_nest(initial_states, "states")
    for state in flatten(initial_states):
        state.stop_gradient = False
    if not time_major:
        inputs = map_structure(swap_batch_and_time, inputs)
    mask = None
    if sequence_length is not None:
        longest = _layers.shape(flatten(inputs)[0])[0]
        dtype = flatten(initial_states)[0].dtype
        mask = _layers.sequence_mask(sequence_length, maxlen=longest, dtype=dtype)
        mask = _layers.transpose(mask, [1, 0])
    if is_reverse:
        inputs = map_structure(lambda x: _layers.reverse(x, axis=[0]), inputs)
        mask = mask if mask is None else _layers.reverse(mask, axis=[0])
    outputs, states = _steps(cell, inputs, initial_states, mask, kwargs)
    if is_reverse:
        outputs = map_structure(lambda x: _layers.reverse(x, axis=[0]), outputs)
    if not time_major:
        outputs = map_structure(swap_batch_and_time, outputs)
    return outputs, states


def _steps(cell, inputs, initial_states, mask, kwargs):
    network = _layers.StaticRNN()
    with network.step():
        inputs = map_structure(network.step_input, inputs)
        states = map_structure(network.memory, initial_states)
        outputs, after = cell.call(inputs, map_structure(lambda x: x, states), **kwargs)
        assert_same_structure(states, after)
        if mask is not None:
            here = network.step_input(mask)
            after = map_structure(lambda old, new: _still(old, new, here), states, after)
        map_structure(network.update_memory, states, after)
        map_structure(network.step_output, outputs)
        map_structure(network.step_output, after)
    results = network()
    results = results if isinstance(results, list) else [results]
    n_outputs = len(flatten(outputs))
    last = [state[-1] for state in results[n_outputs:]]
    return pack_sequence_as(outputs, results[:n_outputs]), pack_sequence_as(after, last)
