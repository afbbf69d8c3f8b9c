"""Optimizers under the names and keywords of version 2."""

from ..fluid import optimizer as _fluid
from ..fluid._not_yet import unknown
from ..fluid.regularizer import L2Decay, WeightDecayRegularizer
from . import lr
from .lr import LRScheduler


class Optimizer(_fluid.Optimizer):
    """What all optimizers of version 2 have in common."""

    def _make(self, kind, learning_rate, parameters, weight_decay, grad_clip, name, **options):
        if weight_decay is not None and not isinstance(weight_decay, WeightDecayRegularizer):
            weight_decay = L2Decay(float(weight_decay))
        self._schedule = learning_rate if isinstance(learning_rate, LRScheduler) else None
        rate = float(learning_rate()) if self._schedule else learning_rate
        core = _fluid._make(kind, rate, **options)
        self._configure(core, parameters, weight_decay, grad_clip, name)

    def get_lr(self):
        """The learning rate of now."""
        return self._schedule() if self._schedule else self.current_step_lr()

    def set_lr(self, value, scheduler=None):
        """Another learning rate, before `minimize`."""
        if self._schedule:
            raise RuntimeError("optimizer's learning rate can't be LRScheduler when invoke this API, because this will lead to conflict.")
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler):
        """Another scheduler, before `minimize`."""
        self._schedule = scheduler

    def step(self):
        """A call of dynamic graphs; says what is there instead."""
        raise NotImplementedError("optimizer.step() belongs to dynamic graphs: call optimizer.minimize(loss) once, then run the program")

    clear_grad = clear_gradients = step

    def _bind(self, program):
        """Lets the executor set the learning rate before each run."""
        if self._schedule is None:
            return
        from ..fluid import layers
        from ..fluid.unique_name import generate

        name = generate("learning_rate")
        self._learning_rate = layers.create_global_var(
            shape=[1], value=float(self._schedule()), dtype="float32", persistable=True, name=name
        )
        self._schedule._var_name = name
        program.lr_scheduler = self._schedule

    def minimize(self, loss, startup_program=None, parameters=None, no_grad_set=None):
        """Adds gradients of `loss` and the operators that apply them."""
        self._bind(loss.block.program)
        return super().minimize(loss, startup_program, parameters, no_grad_set)


class SGD(Optimizer):
    """Stochastic gradient descent."""

    def __init__(self, learning_rate=0.001, parameters=None, weight_decay=None, grad_clip=None, multi_precision=False, name=None):
        self._make("sgd", learning_rate, parameters, weight_decay, grad_clip, name)


class Momentum(Optimizer):
    """Gradient descent with momentum, plain or Nesterov's."""

    def __init__(
        self, learning_rate=0.001, momentum=0.9, parameters=None, use_nesterov=False, weight_decay=None, grad_clip=None,
        multi_precision=False, rescale_grad=1.0, use_multi_tensor=False, name=None,
    ):
        if rescale_grad != 1.0:
            raise NotImplementedError("Momentum(rescale_grad=...) is not supported: scale the loss")
        self._make(
            "momentum", learning_rate, parameters, weight_decay, grad_clip, name,
            momentum=momentum, use_nesterov=bool(use_nesterov),
        )


class Adagrad(Optimizer):
    """Adagrad."""

    def __init__(
        self, learning_rate, epsilon=1.0e-6, parameters=None, weight_decay=None, grad_clip=None, name=None,
        initial_accumulator_value=0.0,
    ):
        self._make(
            "adagrad", learning_rate, parameters, weight_decay, grad_clip, name,
            epsilon=epsilon, initial_accumulator_value=initial_accumulator_value,
        )


class Adam(Optimizer):
    """Adam; with `lazy_mode` only rows in a sparse gradient change."""

    def __init__(
        self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None, weight_decay=None,
        grad_clip=None, lazy_mode=False, multi_precision=False, use_multi_tensor=False, name=None,
    ):
        self._make(
            "adam", learning_rate, parameters, weight_decay, grad_clip, name,
            beta1=beta1, beta2=beta2, epsilon=epsilon, lazy_mode=bool(lazy_mode), corrected_epsilon=True,
        )


class Adamax(Optimizer):
    """Adamax."""

    def __init__(
        self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None, weight_decay=None,
        grad_clip=None, name=None,
    ):
        self._make(
            "adamax", learning_rate, parameters, weight_decay, grad_clip, name, beta1=beta1, beta2=beta2, epsilon=epsilon
        )


class Adadelta(Optimizer):
    """Adadelta."""

    def __init__(
        self, learning_rate=0.001, epsilon=1.0e-6, rho=0.95, parameters=None, weight_decay=None, grad_clip=None, name=None
    ):
        self._make("adadelta", learning_rate, parameters, weight_decay, grad_clip, name, epsilon=epsilon, rho=rho)


class RMSProp(Optimizer):
    """RMSProp, plain or centered."""

    def __init__(
        self, learning_rate, rho=0.95, epsilon=1.0e-6, momentum=0.0, centered=False, parameters=None, weight_decay=None,
        grad_clip=None, name=None,
    ):
        self._make(
            "rmsprop", learning_rate, parameters, weight_decay, grad_clip, name,
            rho=rho, epsilon=epsilon, momentum=momentum, centered=bool(centered),
        )


class Lamb(Optimizer):
    """LAMB."""

    def __init__(
        self, learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-6, parameters=None,
        grad_clip=None, exclude_from_weight_decay_fn=None, multi_precision=False, always_adapt=False, name=None,
    ):
        if exclude_from_weight_decay_fn is not None or always_adapt:
            raise NotImplementedError("Lamb decays all parameters here")
        self._make(
            "lamb", learning_rate, parameters, None, grad_clip, name,
            lamb_weight_decay=lamb_weight_decay, beta1=beta1, beta2=beta2, epsilon=epsilon,
        )


class AdamW(Optimizer):
    """Not there; says what is."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("AdamW is not supported: use Adam with weight_decay, which adds the decay to the gradient, or Lamb")


__getattr__ = unknown(__name__)
