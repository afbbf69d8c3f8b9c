"""Makes `import paddle.X` give the very module `paddlewheel.X`."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys

OURS = __name__.partition(".")[0]


class Alias(importlib.abc.Loader):
    """Gives a module of ours under its other name."""

    def __init__(self, name, spec):
        self.name = name
        self.spec = spec

    def create_module(self, spec):
        return importlib.import_module(self.name)

    def exec_module(self, module):
        # The import system wrote the alias into `__spec__`; the module keeps its own.
        module.__spec__ = self.spec

    def get_code(self, fullname):
        """The code that `python -m paddle.…` runs."""
        return self.spec.loader.get_code(self.name)

    def get_source(self, fullname):
        return self.spec.loader.get_source(self.name)

    def is_package(self, fullname):
        return self.spec.submodule_search_locations is not None


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules below an alias of this package."""

    def __init__(self, alias):
        self.prefix = alias + "."

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(self.prefix):
            return None
        name = OURS + "." + fullname[len(self.prefix):]
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        alias = importlib.machinery.ModuleSpec(fullname, Alias(name, spec), origin=spec.origin)
        alias.submodule_search_locations = spec.submodule_search_locations
        return alias


def install(alias):
    """Makes `alias` another name of this package."""
    sys.meta_path.insert(0, Finder(alias))
    sys.modules[alias] = sys.modules[OURS]
