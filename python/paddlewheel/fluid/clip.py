"""Bounds of gradients."""

from .. import _core
from ._not_yet import unknown


class BaseErrorClipAttr:
    """Bounds of a gradient between two operators of the backward pass."""

    _core = None


class ErrorClipByValue(BaseErrorClipAttr):
    """Each number between `min` and `max`; set it as `variable.error_clip`."""

    def __init__(self, max, min=None):
        self._core = _core.ErrorClip(max, min)
        self.max, self.min = self._core.max, self._core.min

    def __str__(self):
        return str(self._core)


class GradientClipBase:
    """Bounds of the gradients of parameters; `_core` says it to the optimizers."""

    _core = None

    def __init__(self, need_clip=None):
        if need_clip is not None and not callable(need_clip):
            raise TypeError(
                "The type of need_clip must be funciton, and it can filter out parameter that "
                "does't need gradient clip. This function must return True or False."
            )
        self._need_clip_func = need_clip

    def __call__(self, params_grads):
        """The pairs with clipped gradients."""
        wanted = self._need_clip_func or (lambda param: True)
        skipped = {param.name for param, _ in params_grads if not wanted(param)}
        return _core.clip_gradients(self._core, params_grads, skipped)


class GradientClipByValue(GradientClipBase):
    """Each number between `min` and `max`."""

    def __init__(self, max, min=None, need_clip=None):
        super().__init__(need_clip)
        self._core = _core.GradientClip.by_value(max, min)
        self.max, self.min = self._core.bounds

    def __str__(self):
        return "Gradient Clip By Value, min = %f, max=%f" % (self.min, self.max)


class GradientClipByNorm(GradientClipBase):
    """Each gradient at most `clip_norm` long."""

    def __init__(self, clip_norm, need_clip=None):
        super().__init__(need_clip)
        self._core = _core.GradientClip.by_norm(clip_norm)
        self.clip_norm = float(clip_norm)

    def __str__(self):
        return "Gradient Clip By Norm, clip_norm=%f" % self.clip_norm


class GradientClipByGlobalNorm(GradientClipBase):
    """All gradients of a group together at most `clip_norm` long."""

    def __init__(self, clip_norm, group_name="default_group", need_clip=None):
        super().__init__(need_clip)
        self._core = _core.GradientClip.by_global_norm(clip_norm, group_name)
        self.clip_norm, self.group_name = float(clip_norm), group_name

    def __str__(self):
        return "Gradient Clip By GlobalNorm, global_norm=%f" % self.clip_norm


def set_gradient_clip(clip, param_list=None, program=None):
    """Says how the gradients of parameters are clipped, before `minimize`."""
    _core.optimizer.set_gradient_clip(clip, param_list, program)


def append_gradient_clip_ops(param_grads):
    """The pairs with gradients clipped as their parameters say."""
    return _core.clip_gradients(None, param_grads, set())


ClipByValue = GradientClipByValue
ClipByNorm = GradientClipByNorm
ClipByGlobalNorm = GradientClipByGlobalNorm


__getattr__ = unknown(__name__)
