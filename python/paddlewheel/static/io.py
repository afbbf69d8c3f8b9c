"""Saves and loads programs, parameters and models in the forms of version 2."""

import os

from ..fluid import io as _fluid
from ..fluid.framework import Program, Variable, default_main_program

is_persistable = _fluid.is_persistable
is_parameter = _fluid.is_parameter
load_program_state = _fluid.load_program_state
set_program_state = _fluid.set_program_state


def save(program, model_path, protocol=4, **configs):
    """Writes `<model_path>.pdparams`, `<model_path>.pdopt` and `<model_path>.pdmodel`."""
    if protocol not in (2, 3, 4):
        raise ValueError("Expected 1<'protocol'<5, but received protocol={}".format(protocol))
    _fluid.save(program, model_path)


def load(program, model_path, executor=None, var_list=None):
    """Loads what `save` wrote, or what the other save functions wrote into a directory or a file."""
    _fluid.load(program, model_path, executor, var_list)


def _named(vars, what):
    """Variables as a list; names are allowed for what is fed."""
    vars = list(vars) if isinstance(vars, (list, tuple)) else [vars]
    for var in vars:
        if not isinstance(var, (Variable, str)):
            raise ValueError("{} should be a Variable or a list of Variable, but received {}".format(what, type(var)))
    return vars


def _split(path_prefix):
    if not isinstance(path_prefix, (str, os.PathLike)):
        raise TypeError("'path_prefix' should be a string.")
    path = os.path.normpath(os.fspath(path_prefix))
    if os.path.isdir(path) and str(path_prefix).endswith("/"):
        raise ValueError("'path_prefix' should not be a directory")
    return os.path.dirname(path) or ".", os.path.basename(path)


def save_inference_model(path_prefix, feed_vars, fetch_vars, executor, **kwargs):
    """Writes what computes `fetch_vars`: `<path_prefix>.pdmodel` and `<path_prefix>.pdiparams`."""
    folder, name = _split(path_prefix)
    program = kwargs.get("program") or default_main_program()
    feeds = [var if isinstance(var, str) else var.name for var in _named(feed_vars, "feed_vars")]
    block = program.global_block()
    fetches = [block.var(var) if isinstance(var, str) else var for var in _named(fetch_vars, "fetch_vars")]
    os.makedirs(folder, exist_ok=True)
    _fluid.save_inference_model(
        folder, feeds, fetches, executor, program,
        model_filename=name + ".pdmodel", params_filename=name + ".pdiparams",
    )


def load_inference_model(path_prefix, executor, **kwargs):
    """Loads a model: parameters go to the scope; gives `[program, feed names, fetch variables]`.

    With `model_filename` and `params_filename`, `path_prefix` is a folder.
    """
    model, params = kwargs.get("model_filename"), kwargs.get("params_filename")
    if model is not None or params is not None:
        return _fluid.load_inference_model(os.fspath(path_prefix), executor, model, params)
    folder, name = _split(path_prefix)
    params = name + ".pdiparams"
    params = params if os.path.exists(os.path.join(folder, params)) else None
    return _fluid.load_inference_model(folder, executor, name + ".pdmodel", params)


def normalize_program(program, feed_vars, fetch_vars, **kwargs):
    """A copy with what computes `fetch_vars` from `feed_vars` alone."""
    feeds = [var if isinstance(var, str) else var.name for var in _named(feed_vars, "feed_vars")]
    return program.clone(for_test=True)._prune_with_input(feeds, _named(fetch_vars, "fetch_vars"))


def serialize_program(feed_vars, fetch_vars, **kwargs):
    """The bytes of the program that computes `fetch_vars`."""
    program = kwargs.get("program") or default_main_program()
    return normalize_program(program, feed_vars, fetch_vars).desc.serialize_to_string()


def deserialize_program(data):
    """The program of these bytes."""
    return Program.parse_from_string(data)


def serialize_persistables(feed_vars, fetch_vars, executor, **kwargs):
    """The bytes of the parameters that `fetch_vars` need."""
    program = kwargs.get("program") or default_main_program()
    program = normalize_program(program, feed_vars, fetch_vars)
    return _fluid.save_persistables(executor, None, program)


def deserialize_persistables(program, data, executor):
    """Puts parameters of these bytes into the scope."""
    _fluid.load_persistables(executor, None, program, filename=data)


def save_to_file(path, content):
    """Writes bytes."""
    if not isinstance(content, bytes):
        raise ValueError("'content' type should be bytes.")
    with open(path, "wb") as out:
        out.write(content)


def load_from_file(path):
    """Reads bytes."""
    with open(path, "rb") as file:
        return file.read()


def save_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None):
    """Saves variables: `vars`, or those for which `predicate` is true."""
    return _fluid.save_vars(executor, dirname, main_program, vars, predicate, filename)


def load_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None):
    """Loads variables that `save_vars` saved."""
    return _fluid.load_vars(executor, dirname, main_program, vars, predicate, filename)
