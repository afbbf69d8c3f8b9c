"""Recurrent layers: cells, and cells run over time."""

from ...fluid import layers as _fluid
from ...fluid import unique_name
from ...tensor import linalg, math
from ...tensor.shape import split
from .. import functional as F
from .. import initializer as I
from .layers import Layer, LayerList


class RNNCellBase(Layer):
    """A step of a recurrent layer: `forward(inputs, states)` gives the output and the new states."""

    def get_initial_states(self, batch_ref, shape=None, dtype=None, init_value=0.0, batch_dim_idx=0):
        """States to begin with, as many rows as `batch_ref` has."""
        shape = self.state_shape if shape is None else shape
        if isinstance(shape[0], (list, tuple)):
            return tuple(self._filled(batch_ref, each, init_value, batch_dim_idx) for each in shape)
        return self._filled(batch_ref, shape, init_value, batch_dim_idx)

    def _filled(self, batch_ref, shape, value, batch_dim_idx):
        return _fluid.fill_constant_batch_size_like(
            batch_ref, [-1] + [int(size) for size in shape], "float32", value, batch_dim_idx, 0
        )

    def _weights(self, n_gates, input_size, hidden_size, attrs):
        if hidden_size <= 0:
            raise ValueError("hidden_size of {} must be greater than 0, but now equals to {}".format(type(self).__name__, hidden_size))
        bound = 1.0 / hidden_size**0.5
        start = I.Uniform(-bound, bound)
        rows = n_gates * hidden_size
        self.weight_ih = self.create_parameter([rows, input_size], attrs[0], default_initializer=start)
        self.weight_hh = self.create_parameter([rows, hidden_size], attrs[1], default_initializer=start)
        self.bias_ih = self.create_parameter([rows], attrs[2], is_bias=True, default_initializer=start)
        self.bias_hh = self.create_parameter([rows], attrs[3], is_bias=True, default_initializer=start)
        self.input_size, self.hidden_size = input_size, hidden_size

    def _gates(self, x, weight, bias):
        gates = linalg.matmul(x, weight, transpose_y=True)
        return math.add(gates, bias) if hasattr(bias, "shape") else gates


class SimpleRNNCell(RNNCellBase):
    """act(W x + U h)."""

    def __init__(
        self, input_size, hidden_size, activation="tanh", weight_ih_attr=None, weight_hh_attr=None,
        bias_ih_attr=None, bias_hh_attr=None, name=None,
    ):
        super().__init__()
        if activation not in ("tanh", "relu"):
            raise ValueError("activation for SimpleRNNCell should be tanh or relu, but get {}".format(activation))
        self._weights(1, input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))
        self._act = F.tanh if activation == "tanh" else F.relu

    def forward(self, inputs, states=None):
        states = self.get_initial_states(inputs) if states is None else states
        both = math.add(self._gates(inputs, self.weight_ih, self.bias_ih), self._gates(states, self.weight_hh, self.bias_hh))
        out = self._act(both)
        return out, out

    @property
    def state_shape(self):
        return (self.hidden_size,)


class GRUCell(RNNCellBase):
    """A reset gate, an update gate, and a candidate."""

    def __init__(
        self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
        bias_hh_attr=None, name=None,
    ):
        super().__init__()
        self._weights(3, input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))

    def forward(self, inputs, states=None):
        states = self.get_initial_states(inputs) if states is None else states
        x_reset, x_update, x_candidate = split(self._gates(inputs, self.weight_ih, self.bias_ih), 3, axis=1)
        h_reset, h_update, h_candidate = split(self._gates(states, self.weight_hh, self.bias_hh), 3, axis=1)
        reset = F.sigmoid(math.add(x_reset, h_reset))
        update = F.sigmoid(math.add(x_update, h_update))
        candidate = F.tanh(math.add(x_candidate, math.multiply(reset, h_candidate)))
        new = math.add(math.multiply(math.subtract(states, candidate), update), candidate)
        return new, new

    @property
    def state_shape(self):
        return (self.hidden_size,)


class LSTMCell(RNNCellBase):
    """Input, forget and output gates around a cell."""

    def __init__(
        self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
        bias_hh_attr=None, name=None,
    ):
        super().__init__()
        self._weights(4, input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))

    def forward(self, inputs, states=None):
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        gates = math.add(
            self._gates(inputs, self.weight_ih, self.bias_ih), self._gates(hidden, self.weight_hh, self.bias_hh)
        )
        enters, stays, candidate, leaves = split(gates, 4, axis=-1)
        cell = math.add(
            math.multiply(F.sigmoid(stays), cell), math.multiply(F.sigmoid(enters), F.tanh(candidate))
        )
        hidden = math.multiply(F.sigmoid(leaves), F.tanh(cell))
        return hidden, (hidden, cell)

    @property
    def state_shape(self):
        return ((self.hidden_size,), (self.hidden_size,))


def _as_list(states):
    return list(states) if isinstance(states, (list, tuple)) else [states]


class RNN(Layer):
    """A cell run over time: gives the outputs of all steps, and the last states."""

    def __init__(self, cell, is_reverse=False, time_major=False):
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major
        self._is_part = False

    def forward(self, inputs, initial_states=None, sequence_length=None, **kwargs):
        if sequence_length is not None:
            raise NotImplementedError("sequence_length is not supported: all rows are equally long")
        if not self._is_part:
            return self._over_time(inputs, initial_states, kwargs)
        # In version 2 this is one operator: variables after it are named as if nothing else was made.
        with unique_name.guard(unique_name.generate("rnn") + "/"):
            return self._over_time(inputs, initial_states, kwargs)

    def _over_time(self, inputs, initial_states, kwargs):
        steps = inputs if self.time_major else _fluid.transpose(inputs, [1, 0, 2])
        if self.is_reverse:
            steps = _fluid.reverse(steps, [0])
        outputs, last = self._run(steps, initial_states, kwargs)
        if self.is_reverse:
            outputs = _fluid.reverse(outputs, [0])
        return outputs if self.time_major else _fluid.transpose(outputs, [1, 0, 2]), last

    def _run(self, steps, initial_states, kwargs):
        if initial_states is None:
            initial_states = self.cell.get_initial_states(steps, batch_dim_idx=1)
        several = isinstance(initial_states, (list, tuple))
        rnn = _fluid.StaticRNN()
        with rnn.step():
            x = rnn.step_input(steps)
            memories = [rnn.memory(init=state) for state in _as_list(initial_states)]
            out, states = self.cell(x, tuple(memories) if several else memories[0], **kwargs)
            for memory, state in zip(memories, _as_list(states)):
                rnn.update_memory(memory, state)
            rnn.step_output(out)
            for state in _as_list(states):
                rnn.step_output(state)
        outputs, *states = _as_list(rnn())
        last = [_fluid.squeeze(_fluid.slice(each, [0], [-1], [2147483647]), [0]) for each in states]
        return outputs, tuple(last) if several else last[0]


class BiRNN(Layer):
    """Two cells, one from the first step on and one from the last; outputs are put together."""

    def __init__(self, cell_fw, cell_bw, time_major=False):
        super().__init__()
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major
        self._forth = RNN(cell_fw, False, time_major)
        self._back = RNN(cell_bw, True, time_major)

    def forward(self, inputs, initial_states=None, sequence_length=None, **kwargs):
        forth, back = (None, None) if initial_states is None else initial_states
        ahead, ahead_last = self._forth(inputs, forth, sequence_length, **kwargs)
        behind, behind_last = self._back(inputs, back, sequence_length, **kwargs)
        return _fluid.concat([ahead, behind], -1), (ahead_last, behind_last)


class RNNBase(LayerList):
    """Several layers of cells over time, in one direction or both."""

    N_STATES = 1

    def _build(self, make_cell, input_size, hidden_size, num_layers, direction, time_major, dropout):
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise ValueError(
                "direction should be forward or bidirect (or bidirectional), received direction = {}".format(direction)
            )
        self._n_directions = 1 if direction == "forward" else 2
        self._time_major, self._dropout, self._num_layers = time_major, dropout, num_layers
        self.hidden_size = hidden_size
        for at in range(num_layers):
            size = input_size if at == 0 else hidden_size * self._n_directions
            if self._n_directions == 1:
                self.append(RNN(make_cell(size), False, time_major))
                self[-1]._is_part = True
            else:
                self.append(BiRNN(make_cell(size), make_cell(size), time_major))
                self[-1]._forth._is_part = self[-1]._back._is_part = True
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for at, layer in enumerate(self):
            cells = [layer.cell] if self._n_directions == 1 else [layer.cell_fw, layer.cell_bw]
            for cell, end in zip(cells, ("", "_reverse")):
                for name in names:
                    self.__dict__["{}_l{}{}".format(name, at, end)] = getattr(cell, name)

    def forward(self, inputs, initial_states=None, sequence_length=None):
        if initial_states is not None:
            raise NotImplementedError("initial_states are zeros; run a cell with paddle.nn.RNN for others")
        kept = [[] for _ in range(self.N_STATES)]
        for at, layer in enumerate(self):
            if at and self._dropout:
                inputs = F.dropout(inputs, self._dropout, training=self.training)
            inputs, last = layer(inputs, None, sequence_length)
            for states in [last] if self._n_directions == 1 else last:
                for place, state in zip(kept, _as_list(states)):
                    place.append(state)
        last = [_fluid.stack(states, axis=0) for states in kept]
        return inputs, last[0] if self.N_STATES == 1 else tuple(last)


class GRU(RNNBase):
    """Layers of `GRUCell`s over time."""

    def __init__(
        self, input_size, hidden_size, num_layers=1, direction="forward", time_major=False, dropout=0.0,
        weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name=None,
    ):
        super().__init__()
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        cell = lambda size: GRUCell(size, hidden_size, *attrs)
        self._build(cell, input_size, hidden_size, num_layers, direction, time_major, dropout)


class LSTM(RNNBase):
    """Layers of `LSTMCell`s over time."""

    N_STATES = 2

    def __init__(
        self, input_size, hidden_size, num_layers=1, direction="forward", time_major=False, dropout=0.0,
        weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, proj_size=0, name=None,
    ):
        super().__init__()
        if proj_size:
            raise NotImplementedError("LSTM(proj_size=...) is not supported")
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        cell = lambda size: LSTMCell(size, hidden_size, *attrs)
        self._build(cell, input_size, hidden_size, num_layers, direction, time_major, dropout)


class SimpleRNN(RNNBase):
    """Layers of `SimpleRNNCell`s over time."""

    def __init__(
        self, input_size, hidden_size, num_layers=1, direction="forward", time_major=False, dropout=0.0,
        activation="tanh", weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name=None,
    ):
        super().__init__()
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        cell = lambda size: SimpleRNNCell(size, hidden_size, activation, *attrs)
        self._build(cell, input_size, hidden_size, num_layers, direction, time_major, dropout)
