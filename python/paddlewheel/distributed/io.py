"""Saves and loads programs of jobs under the names of version 2."""

from ..fluid.io import is_persistable, load_inference_model, save_persistables


def load_inference_model_distributed(dirname, executor, model_filename=None, params_filename=None):
    """Loads a model that a job saved: `[program, feed names, fetch variables]`."""
    return load_inference_model(dirname, executor, model_filename, params_filename)
