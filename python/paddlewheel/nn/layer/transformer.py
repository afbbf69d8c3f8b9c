"""Attention, and the encoder layer of a transformer."""

from ...tensor import linalg, math
from ...tensor.shape import reshape, transpose
from .. import functional as F
from .basic import Dropout, LayerNorm, Linear
from .layers import Layer, LayerList


class MultiHeadAttention(Layer):
    """Attention of several heads: queries weigh values by how well they meet keys."""

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, kdim=None, vdim=None, need_weights=False, weight_attr=None,
        bias_attr=None,
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x):
        return transpose(reshape(x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])

    def forward(self, query, key=None, value=None, attn_mask=None, cache=None):
        if cache is not None:
            raise NotImplementedError("MultiHeadAttention takes no cache here")
        key = query if key is None else key
        value = query if value is None else value
        queries, keys = self._heads(self.q_proj(query)), self._heads(self.k_proj(key))
        values = self._heads(self.v_proj(value))
        scores = linalg.matmul(math.scale(queries, self.head_dim**-0.5), keys, transpose_y=True)
        if attn_mask is not None:
            scores = math.add(scores, attn_mask)
        weights = F.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        out = transpose(linalg.matmul(weights, values), [0, 2, 1, 3])
        out = self.out_proj(reshape(out, [0, 0, self.embed_dim]))
        return (out, weights) if self.need_weights else out


class TransformerEncoderLayer(Layer):
    """Attention to itself, then two products, each added to its input and normalized."""

    def __init__(
        self, d_model, nhead, dim_feedforward, dropout=0.1, activation="relu", attn_dropout=None, act_dropout=None,
        normalize_before=False, weight_attr=None, bias_attr=None, layer_norm_eps=1e-05,
    ):
        super().__init__()
        attn_dropout = dropout if attn_dropout is None else attn_dropout
        act_dropout = dropout if act_dropout is None else act_dropout
        weights = list(weight_attr) if isinstance(weight_attr, (list, tuple)) else [weight_attr] * 2
        biases = list(bias_attr) if isinstance(bias_attr, (list, tuple)) else [bias_attr] * 2
        self.normalize_before = normalize_before
        self.self_attn = MultiHeadAttention(d_model, nhead, attn_dropout, weight_attr=weights[0], bias_attr=biases[0])
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps), LayerNorm(d_model, layer_norm_eps)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = getattr(F, activation)

    def forward(self, src, src_mask=None, cache=None):
        residual = src
        src = self.norm1(src) if self.normalize_before else src
        src = math.add(residual, self.dropout1(self.self_attn(src, src, src, src_mask, cache)))
        src = src if self.normalize_before else self.norm1(src)
        residual = src
        src = self.norm2(src) if self.normalize_before else src
        src = self.linear2(self.dropout(self.activation(self.linear1(src))))
        src = math.add(residual, self.dropout2(src))
        return src if self.normalize_before else self.norm2(src)


class TransformerEncoder(Layer):
    """Encoder layers one behind the other: the one given, and others of its sizes."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        raise NotImplementedError("TransformerEncoder is not supported: call TransformerEncoderLayers one after another")
