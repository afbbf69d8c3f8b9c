"""Modules that have no file of their own: tables say which names they have and where those live."""

import importlib
import importlib.machinery
import sys
import types

from ._not_yet import unknown

#: The imports of Fluid's own modules of layers, which scripts then take from there.
BESIDES = {
    "fluid": "core framework unique_name",
    "fluid.data_feeder": "DataFeeder check_dtype check_type check_variable_and_dtype convert_dtype",
    "fluid.executor": "global_scope",
    "fluid.framework": "OpProtoHolder Operator Program Variable convert_np_dtype_to_dtype_ "
    "default_main_program default_startup_program device_guard in_dygraph_mode program_guard",
    "fluid.initializer": "Constant Initializer Normal NumpyArrayInitializer",
    "fluid.layer_helper": "LayerHelper",
    "fluid.param_attr": "ParamAttr",
    "fluid.wrapped_decorator": "signature_safe_contextmanager",
}
BESIDES = {name: module for module, names in BESIDES.items() for name in names.split()}


class Table(types.ModuleType):
    """A module whose names are looked up in another when they are first used."""

    def __init__(self, name, names, home, doc):
        super().__init__(name, doc)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=__file__)
        self.__package__ = name.rpartition(".")[0]
        self.__file__ = __file__
        self.__path__ = []
        self._names = tuple(names)
        self._home = home
        self._unknown = unknown(name)

    def __getattr__(self, name):
        if name == "__all__":
            return [item for item in self._names if item[0] != "_" and hasattr(self, item)]
        if name.startswith("__"):
            raise AttributeError(name)
        home = self._home if name in self._names else BESIDES.get(name)
        ours = importlib.import_module("paddlewheel." + home) if home else None
        if not hasattr(ours, name):
            return self._unknown(name)
        setattr(self, name, getattr(ours, name))
        return getattr(ours, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self.__all__})


def make(package, tables, home):
    """Makes the modules of a table below a package; their names live in the module `home`."""
    for name, names in tables.items():
        doc = "The names that Fluid has here, and `{}` there.".format(home)
        module = Table("{}.{}".format(package, name), names.split(), home, doc)
        sys.modules[module.__name__] = module
        parent = sys.modules[module.__package__]
        own = module.__name__.rpartition(".")[2]
        # A layer may have the name of its module, as `rnn` has: then the layer is meant.
        if own not in names.split() and not hasattr(parent, own):
            setattr(parent, own, module)
