"""Saves and loads variables, programs and models. Also what reads data, as in Fluid."""

from .. import _core
from .._batch import batch
from ..reader import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from .reader import DataLoader, PyReader, default_collate_fn
from ._not_yet import unknown

save_vars = _core.io.save_vars
save_params = _core.io.save_params
save_persistables = _core.io.save_persistables
load_vars = _core.io.load_vars
load_params = _core.io.load_params
load_persistables = _core.io.load_persistables
save_inference_model = _core.io.save_inference_model
load_inference_model = _core.io.load_inference_model
save = _core.io.save
load = _core.io.load
load_program_state = _core.io.load_program_state
set_program_state = _core.io.set_program_state
get_program_parameter = _core.io.get_program_parameter
get_program_persistable_vars = _core.io.get_program_persistable_vars
get_parameter_value = _core.io.get_parameter_value
get_parameter_value_by_name = _core.io.get_parameter_value_by_name
is_parameter = _core.io.is_parameter
is_persistable = _core.io.is_persistable


def __getattr__(name):
    """Checkpoints of the oldest form live with the trainer that writes them."""
    from .contrib import checkpoint

    if name in checkpoint.OF_IO:
        return getattr(checkpoint, name)
    return unknown(__name__)(name)
