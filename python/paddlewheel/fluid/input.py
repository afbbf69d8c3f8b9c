"""Inputs in the newer form: no batch dimension is added, ids need no last dimension of one."""

from .. import _core

data = _core.layers.data_checked
embedding = _core.layers.embedding_v2
one_hot = _core.layers.one_hot_v2
