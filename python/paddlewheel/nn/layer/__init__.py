"""The layers of version 2."""

from .basic import *
from .layers import Layer, LayerDict, LayerList, ParameterList, Sequential
from .rnn import GRU, LSTM, RNN, BiRNN, GRUCell, LSTMCell, RNNCellBase, SimpleRNN, SimpleRNNCell
from .transformer import MultiHeadAttention, TransformerEncoderLayer
