"""Groups of layers that often stand together."""

from .. import _core

globals().update({name: item for name, item in vars(_core.nets).items() if name[0] != "_"})
