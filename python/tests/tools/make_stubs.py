"""Writes python/paddlewheel/_core.pyi: the names of the built extension module, for type checkers.

    python python/tests/tools/make_stubs.py > python/paddlewheel/_core.pyi

Names, parameters, defaults and the first sentences of docstrings come from the module itself. Types
come from the defaults and from the tables below: Fluid's parameters mean the same wherever they
stand. A module inside the module is written as a class of static methods.
"""

import inspect
import types

import paddlewheel.tensor  # Adds methods to variables.
from paddlewheel import _core

# The type of a parameter of this name, whichever function it belongs to.
PARAMETERS = {
    "act": "str | None",
    "array": "Any",
    "bias_attr": "Any",
    "dirname": "Any",
    "executor": "Executor",
    "feed": "Any",
    "fetch_list": "Any",
    "filename": "Any",
    "input": "Any",
    "label": "Variable",
    "main_program": "Program | None",
    "name": "str | None",
    "param_attr": "Any",
    "program": "Any",
    "scope": "Scope | None",
    "startup_program": "Program | None",
}

# The type of results, where it is not `Variable` in `layers` and `nets`, and not `Any` elsewhere.
RETURNS = {
    "Block.all_parameters": "list[Variable]",
    "Block.append_op": "Operator",
    "Block.create_parameter": "Variable",
    "Block.create_var": "Variable",
    "Block.has_var": "bool",
    "Block.var": "Variable",
    "Executor.close": "None",
    "Executor.run": "list[Any]",
    "LoDTensor.has_valid_recursive_sequence_lengths": "bool",
    "LoDTensor.lod": "list[list[int]]",
    "LoDTensor.recursive_sequence_lengths": "list[list[int]]",
    "LoDTensor.set": "None",
    "LoDTensor.set_lod": "None",
    "LoDTensor.set_recursive_sequence_lengths": "None",
    "LoDTensor.shape": "list[int]",
    "Operator.attr": "Any",
    "Operator.has_attr": "bool",
    "Operator.input": "list[str]",
    "Operator.output": "list[str]",
    "Variable.__iter__": "Any",
    "Program.all_parameters": "list[Variable]",
    "Program.block": "Block",
    "Program.clone": "Program",
    "Program.current_block": "Block",
    "Program.global_block": "Block",
    "Program.list_vars": "list[Variable]",
    "Program.serialize_to_string": "bytes",
    "Program.to_string": "str",
    "Scope.drop_kids": "None",
    "Scope.erase": "None",
    "Scope.find_var": "ScopeVariable | None",
    "Scope.local_var_names": "list[str]",
    "Scope.new_scope": "Scope",
    "Scope.var": "ScopeVariable",
    "ScopeVariable.get_selected_rows": "SelectedRows",
    "ScopeVariable.get_tensor": "LoDTensor",
    "SelectedRows.get_tensor": "LoDTensor",
    "SelectedRows.height": "int",
    "SelectedRows.rows": "list[int]",
    "backward.append_backward": "list[tuple[Variable, Variable]]",
    "backward.gradients": "list[Variable | None]",
    "check_param_attr": "None",
    "create_lod_tensor": "LoDTensor",
    "create_random_int_lodtensor": "LoDTensor",
    "default_main_program": "Program",
    "default_startup_program": "Program",
    "global_scope": "Scope",
    "io.get_program_parameter": "list[Variable]",
    "io.get_program_persistable_vars": "list[Variable]",
    "io.is_parameter": "bool",
    "io.is_persistable": "bool",
    "io.load": "None",
    "io.load_inference_model": "list[Any]",
    "io.load_params": "None",
    "io.load_persistables": "None",
    "io.load_program_state": "dict[str, Any]",
    "io.load_vars": "None",
    "io.save": "None",
    "io.save_inference_model": "list[str]",
    "io.save_params": "bytes | None",
    "io.save_persistables": "bytes | None",
    "io.save_vars": "bytes | None",
    "io.set_program_state": "None",
    "layers._initialize": "None",
    "layers._parameter": "Variable | None",
    "layers.argsort": "tuple[Variable, Variable]",
    "layers.auc": "tuple[Variable, Variable, list[Variable]]",
    "layers.cond": "Any",
    "layers.dynamic_lstm": "tuple[Variable, Variable]",
    "layers.gru_unit": "tuple[Variable, Variable, Variable]",
    "layers.lstm_unit": "tuple[Variable, Variable]",
    "layers.sequence_pad": "tuple[Variable, Variable]",
    "layers.softmax_with_cross_entropy": "Any",
    "layers.split": "list[Variable]",
    "layers.tdm_child": "tuple[Variable, Variable]",
    "layers.tdm_sampler": "Any",
    "layers.tensor_array_to_tensor": "tuple[Variable, Variable]",
    "layers.topk": "tuple[Variable, Variable]",
    "layers.unique": "tuple[Variable, Variable]",
    "layers.unstack": "list[Variable]",
    "layers.while_loop": "Any",
    "optimizer.Optimizer.kinds": "dict[str, list[tuple[str, float]]]",
    "optimizer.set_gradient_clip": "None",
    "switch_main_program": "Program",
    "switch_scope": "Scope",
    "switch_startup_program": "Program",
    "unique_name_generate": "str",
    "unique_name_switch": "UniqueNameGenerator",
}
DUNDERS = {"__len__": "int", "__bool__": "bool", "__int__": "int", "__index__": "int"}

# The type of an attribute of this name, whichever class it belongs to.
ATTRIBUTES = {
    "idx": "int",
    "input_arg_names": "list[str]",
    "input_names": "list[str]",
    "is_data": "bool",
    "is_parameter": "bool",
    "lod_level": "int",
    "name": "str",
    "num_blocks": "int",
    "output_arg_names": "list[str]",
    "output_names": "list[str]",
    "parent_idx": "int",
    "persistable": "bool",
    "random_seed": "int",
    "shape": "tuple[int, ...]",
    "stop_gradient": "bool",
    "trainable": "bool",
}

# Names that every class has, and names without a meaning for a type checker.
UNSAID = {"__new__", "__doc__", "__module__", "__dict__", "__weakref__", "__hash__", "__repr__"}
UNSAID |= {"__str__", "__eq__", "__ne__"}
# Slots that come with `==`; only variables are ordered, by layers that compare.
ORDER = {"__lt__", "__le__", "__gt__", "__ge__"}

WIDTH = 100
HEAD = '''"""The extension module. Written by python/tests/tools/make_stubs.py; not by hand."""

from typing import Any

'''


def members(thing):
    """The names of a module or class that a stub speaks of, with what they stand for."""
    for name, value in sorted(vars(thing).items()):
        module_own = isinstance(thing, types.ModuleType) and name.startswith("__")
        unsaid = name in UNSAID or (name in ORDER and thing is not _core.Variable)
        if not unsaid and not module_own:
            yield name, value


def signature(value):
    """The signature, or None for what has none (a slot of C that takes anything)."""
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def is_function(value):
    return callable(value) and not isinstance(value, type)


def hint(parameter):
    default = parameter.default
    said = PARAMETERS.get(parameter.name)
    if parameter.name == "self" or parameter.name == "cls":
        return ""
    if said and default is parameter.empty:
        said = said.replace(" | None", "")
    if said:
        return f": {said}"
    if type(default) in (bool, int, float, str):
        return f": {type(default).__name__}"
    return ": Any"


def parameters(found):
    """The texts between the brackets, one each."""
    if found is None:
        return ["*args: Any", "**kwargs: Any"]
    texts, star, before_slash = [], False, False
    for p in found.parameters.values():
        if before_slash and p.kind is not p.POSITIONAL_ONLY:
            texts.append("/")
        # That `self` has no keyword need not be said.
        before_slash = p.kind is p.POSITIONAL_ONLY and p.name != "self"
        if p.kind is p.KEYWORD_ONLY and not star:
            texts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f" = {literal(p.default)}"
        texts.append(mark + p.name + hint(p) + default)
    return texts + ["/"] * before_slash


def wrapped(head, texts, tail, indent):
    """One line, or one line for each parameter if it would be too long."""
    line = head + ", ".join(texts) + tail
    if len(line) <= WIDTH:
        return line
    return head + "".join(f"\n{indent}    {text}," for text in texts) + f"\n{indent}{tail}"


def literal(default):
    plain = default is None or type(default) in (bool, int, float, str, list, tuple)
    return repr(default) if plain else "..."


def first_sentence(value, indent):
    paragraph = (inspect.getdoc(value) or "").strip().split("\n\n")[0]
    head, more, _ = " ".join(paragraph.split()).partition(". ")
    text = head + more.strip()
    # A raw string: a docstring may speak of a backslash.
    mark = "r" if "\\" in text else ""
    return f'{indent}{mark}"""{text}"""\n' if text else f"{indent}...\n"


def returned(path, usual):
    """A static method of a class makes one of it; layers and operators of variables give one."""
    owner, _, name = path.rpartition(".")
    if owner in ("layers", "nets") or path.startswith("Variable.__"):
        usual = "Variable"
    return RETURNS.get(path) or DUNDERS.get(name) or usual or "Any"


def function(path, value, indent, decorator="", usual=""):
    line = f"{indent}@{decorator}\n" if decorator else ""
    name = path.split(".")[-1]
    head, tail = f"{indent}def {name}(", f") -> {returned(path, usual)}:"
    line += wrapped(head, parameters(signature(value)), tail, indent)
    # Python's own text of `__add__` differs from version to version.
    if name.startswith("__"):
        return line + " ...\n"
    return line + "\n" + first_sentence(value, indent + "    ")


def constructor(value, indent):
    found = signature(value)
    if "__new__" not in vars(value) or found is None:
        return ""
    inside = ["self", *parameters(found)]
    return wrapped(f"{indent}def __init__(", inside, ") -> None: ...", indent) + "\n"


def class_stub(path, value, indent):
    base = value.__base__.__name__
    base = "" if base == "object" else f"({base})"
    text = f"{indent}class {path.split('.')[-1]}{base}:\n" + first_sentence(value, indent + "    ")
    text += constructor(value, indent + "    ")
    for name, member in members(value):
        text += member_stub(f"{path}.{name}", member, indent + "    ", inside_class=True)
    return text


def module_stub(path, value):
    text = f"class {path}:\n"
    for name, member in members(value):
        text += member_stub(f"{path}.{name}", member, "    ", inside_class=False)
    return text


def member_stub(path, value, indent, inside_class):
    name = path.split(".")[-1]
    if isinstance(value, types.ModuleType):
        return module_stub(path, value)
    if isinstance(value, type):
        return class_stub(path, value, indent)
    if isinstance(value, staticmethod):
        return function(path, value.__func__, indent, "staticmethod", path.rpartition(".")[0])
    if isinstance(value, (classmethod, types.ClassMethodDescriptorType)):
        return function(path, value, indent, "classmethod")
    if is_function(value):
        return function(path, value, indent, "" if inside_class or not indent else "staticmethod")
    own = type(value).__name__ if type(value).__module__ == _core.__name__ else "Any"
    kind = ATTRIBUTES.get(name, own)
    return f"{indent}{name}: {kind}\n"


def stubs():
    """The whole text."""
    parts = [member_stub(name, value, "", False) for name, value in members(_core)]
    return HEAD + "\n".join(parts)


if __name__ == "__main__":
    print(stubs(), end="")
