"""`_core.pyi` says what the extension module has, and everything public says what it is."""

import ast
import importlib
import inspect
import pathlib
import pkgutil
import types

import paddlewheel
from paddlewheel import _core
from tools import make_stubs

STUBS = pathlib.Path(paddlewheel.__file__).with_name("_core.pyi")


def said(nodes):
    """The declarations of a stub: name -> parameters of a function, members of a class, or None."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            found[node.name] = said(node.body)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = parameters_said(node.args)
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = None
    return found


def parameters_said(arguments):
    names = [a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    names += [star.arg for star in (arguments.vararg, arguments.kwarg) if star]
    return sorted(name for name in names if name not in ("self", "cls"))


def parameters_there(value):
    parameters = make_stubs.signature(value).parameters
    return sorted(name for name in parameters if name not in ("self", "cls"))


def there(thing):
    """The same of the module itself."""
    found = {}
    for name, value in make_stubs.members(thing):
        if isinstance(value, (type, types.ModuleType)):
            found[name] = there(value)
        elif isinstance(value, (staticmethod, classmethod)):
            found[name] = parameters_there(value.__func__)
        else:
            found[name] = parameters_there(value) if callable(value) else None
    if isinstance(thing, type) and make_stubs.constructor(thing, ""):
        found["__init__"] = parameters_there(thing)
    return found


def test_the_stubs_say_every_name_and_parameter():
    assert said(ast.parse(STUBS.read_text()).body) == there(_core)


def test_the_stubs_are_as_the_script_writes_them():
    text = "python python/tests/tools/make_stubs.py > python/paddlewheel/_core.pyi"
    assert STUBS.read_text() == make_stubs.stubs(), text


def test_type_checkers_are_told_of_the_hints():
    assert STUBS.with_name("py.typed").exists()


def public(thing, path):
    """Functions, classes and methods of ours that a user may call, with where they are."""
    for name, value in vars(thing).items():
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        value = getattr(value, "__func__", value)
        documented = isinstance(value, type) or callable(value) or isinstance(value, property)
        if not documented or not (getattr(value, "__module__", "") or "").startswith("paddlewheel"):
            if not isinstance(thing, type) or not is_native(value):
                continue
        yield f"{path}.{name}", value
        if isinstance(value, type):
            yield from public(value, f"{path}.{name}")


def is_native(value):
    """Methods of the extension module's classes do not say whose they are."""
    native = (types.MethodDescriptorType, types.GetSetDescriptorType, types.BuiltinFunctionType)
    return isinstance(value, native)


def modules():
    yield paddlewheel
    for found in pkgutil.walk_packages(paddlewheel.__path__, "paddlewheel."):
        # Names that begin with an underscore are not public, and one of these modules runs when imported.
        if "._" not in found.name:
            yield importlib.import_module(found.name)


def is_described(value):
    """Whether it has a docstring of its own, or of the method it stands in for."""
    text = value.__doc__ if isinstance(value, type) else inspect.getdoc(value)
    return bool((text or "").strip())


def test_everything_public_says_what_it_is():
    silent = {module.__name__ for module in modules() if not module.__doc__}
    for module in modules():
        paths = public(module, module.__name__)
        silent |= {path for path, value in paths if not is_described(value)}
    for module in (_core, *(value for _, value in make_stubs.members(_core))):
        if isinstance(module, types.ModuleType):
            paths = public(module, module.__name__)
            silent |= {path for path, value in paths if not is_described(value)}
    assert sorted(silent) == []
