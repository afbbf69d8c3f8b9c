"""Layers that keep their parameters, over programs that are built first and run afterwards."""

from . import functional, initializer, layer
from ..fluid._not_yet import unknown
from ..fluid.clip import GradientClipByGlobalNorm as ClipGradByGlobalNorm
from ..fluid.clip import GradientClipByNorm as ClipGradByNorm
from ..fluid.clip import GradientClipByValue as ClipGradByValue
from ..fluid.param_attr import ParamAttr
from .layer import *
from .layer import Layer

__getattr__ = unknown(__name__)
