"""Groups of layers that often stand together."""

from .. import _core
from ._not_yet import unknown

globals().update({name: item for name, item in vars(_core.nets).items() if name[0] != "_"})


__getattr__ = unknown(__name__)
