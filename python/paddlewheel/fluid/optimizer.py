"""Optimizers: classes with Fluid's names and keywords over those of the core."""

import contextlib

from .. import _core
from .._core import default_startup_program
from ._flags import get_flags
from ._not_yet import unknown

_make = _core.optimizer.Optimizer.make


class Optimizer:
    """Common parts of all optimizers. Make one of the classes below, or a subclass of one."""

    _core = None

    def __init__(
        self, learning_rate, parameter_list=None, regularization=None, grad_clip=None, name=None
    ):
        raise NotImplementedError(
            'Class "Optimizer" connot be used directly as an optimizer, '
            "please use its subclasses such as Adam"
        )

    def _configure(self, core, parameter_list, regularization, grad_clip, name):
        core.configure(parameter_list, regularization, grad_clip, name)
        self._core = core
        self._parameter_list = parameter_list
        self._name = name
        self._regularization, self._clip = regularization, grad_clip

    @property
    def type(self):
        """The operator that changes parameters."""
        return self._core.type

    @property
    def _learning_rate(self):
        return self._core.learning_rate

    @_learning_rate.setter
    def _learning_rate(self, value):
        self._core.learning_rate = value

    @property
    def regularization(self):
        """The decay of parameters that have none of their own."""
        return self._regularization

    @regularization.setter
    def regularization(self, value):
        self._core.regularization = value
        self._regularization = value

    @property
    def _grad_clip(self):
        return self._clip

    @_grad_clip.setter
    def _grad_clip(self, value):
        self._core.grad_clip = value
        self._clip = value

    def minimize(
        self, loss, startup_program=None, parameter_list=None, no_grad_set=None, grad_clip=None
    ):
        """Adds gradients of `loss` and the operators that apply them. Returns those operators, and
        pairs of parameter and gradient."""
        if grad_clip is not None:
            self._grad_clip = grad_clip
        return self._core.minimize(loss, startup_program, parameter_list or None, no_grad_set)

    def backward(
        self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None
    ):
        """Adds gradients only; returns pairs of parameter and gradient."""
        parameter_list = parameter_list or None
        return self._core.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads):
        """Adds the operators that apply gradients; returns them."""
        return self._core.apply_gradients(list(params_grads))

    def apply_optimize(self, loss, startup_program, params_grads):
        """The same in the program of `loss`."""
        return self._core.apply_optimize(loss, startup_program, list(params_grads))

    def get_opti_var_name_list(self):
        """Names of the variables kept beside parameters."""
        return self._core.state_names()

    def _global_learning_rate(self, program=None):
        return self._core.global_learning_rate(program)

    def _get_accumulator(self, name, param):
        variable = self._core.accumulator(name, param)
        if variable is None:
            raise Exception(
                "Accumulator {} does not exist for parameter {}".format(name, param.name)
            )
        return variable

    def current_step_lr(self):
        """The learning rate, if it is a number; a variable must be fetched."""
        rate = self._learning_rate
        if not isinstance(rate, (int, float)):
            raise NotImplementedError("the learning rate is a variable: fetch it in Executor.run")
        return float(rate)


class SGDOptimizer(Optimizer):
    """Stochastic gradient descent."""

    def __init__(
        self, learning_rate, parameter_list=None, regularization=None, grad_clip=None, name=None
    ):
        core = _make("sgd", learning_rate)
        self._configure(core, parameter_list, regularization, grad_clip, name)


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum, plain or Nesterov's."""

    def __init__(
        self,
        learning_rate,
        momentum,
        parameter_list=None,
        use_nesterov=False,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        nesterov = bool(use_nesterov)
        core = _make("momentum", learning_rate, momentum=momentum, use_nesterov=nesterov)
        self._configure(core, parameter_list, regularization, grad_clip, name)


class LarsMomentumOptimizer(Optimizer):
    """Momentum with a learning rate per layer."""

    def __init__(
        self,
        learning_rate,
        momentum,
        lars_coeff=0.001,
        lars_weight_decay=0.0005,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        core = _make(
            "lars_momentum",
            learning_rate,
            momentum=momentum,
            lars_coeff=lars_coeff,
            lars_weight_decay=lars_weight_decay,
        )
        self._configure(core, parameter_list, regularization, grad_clip, name)


class AdagradOptimizer(Optimizer):
    """Adagrad."""

    def __init__(
        self,
        learning_rate,
        epsilon=1.0e-6,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
        initial_accumulator_value=0.0,
    ):
        start = initial_accumulator_value
        core = _make(
            "adagrad", learning_rate, epsilon=epsilon, initial_accumulator_value=start
        )
        self._configure(core, parameter_list, regularization, grad_clip, name)


class AdamOptimizer(Optimizer):
    """Adam; with `lazy_mode` only rows in a sparse gradient change."""

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
        lazy_mode=False,
    ):
        core = _make(
            "adam",
            learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            lazy_mode=bool(lazy_mode),
        )
        self._configure(core, parameter_list, regularization, grad_clip, name)


class AdamaxOptimizer(Optimizer):
    """Adamax."""

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        core = _make("adamax", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        self._configure(core, parameter_list, regularization, grad_clip, name)


class DecayedAdagradOptimizer(Optimizer):
    """Adagrad that forgets."""

    def __init__(
        self,
        learning_rate,
        decay=0.95,
        epsilon=1.0e-6,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        core = _make("decayed_adagrad", learning_rate, decay=decay, epsilon=epsilon)
        self._configure(core, parameter_list, regularization, grad_clip, name)


class AdadeltaOptimizer(Optimizer):
    """Adadelta. Its operator reads no learning rate."""

    def __init__(
        self,
        learning_rate,
        epsilon=1.0e-6,
        rho=0.95,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        core = _make("adadelta", learning_rate, epsilon=epsilon, rho=rho)
        self._configure(core, parameter_list, regularization, grad_clip, name)


class RMSPropOptimizer(Optimizer):
    """RMSProp, plain or centered."""

    def __init__(
        self,
        learning_rate,
        rho=0.95,
        epsilon=1.0e-6,
        momentum=0.0,
        centered=False,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        core = _make(
            "rmsprop",
            learning_rate,
            rho=rho,
            epsilon=epsilon,
            momentum=momentum,
            centered=bool(centered),
        )
        self._configure(core, parameter_list, regularization, grad_clip, name)


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader."""

    def __init__(
        self,
        learning_rate,
        l1=0.0,
        l2=0.0,
        lr_power=-0.5,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        name=None,
    ):
        # The code of Fluid 1.8.5 gives `l1` to its operator twice; docs/reference/fluid-map.md has the flag.
        l2 = l2 if get_flags("FLAGS_as_documented")["FLAGS_as_documented"] else l1
        core = _make("ftrl", learning_rate, l1=l1, l2=l2, lr_power=lr_power)
        self._configure(core, parameter_list, regularization, grad_clip, name)


class LambOptimizer(AdamOptimizer):
    """LAMB; parameters for which `exclude_from_weight_decay_fn` is true do not decay."""

    def __init__(
        self,
        learning_rate=0.001,
        lamb_weight_decay=0.01,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-6,
        parameter_list=None,
        regularization=None,
        grad_clip=None,
        exclude_from_weight_decay_fn=None,
        name=None,
    ):
        exclude = exclude_from_weight_decay_fn
        core = _make(
            "lamb",
            learning_rate,
            exclude,
            lamb_weight_decay=lamb_weight_decay,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
        )
        self._configure(core, parameter_list, regularization, grad_clip, name)


class DpsgdOptimizer(Optimizer):
    """Differentially private SGD: gradients are clipped and get noise."""

    def __init__(
        self, learning_rate=0.001, clip=0.9, batch_size=0.999, sigma=1e-8, parameter_list=None
    ):
        core = _make("dpsgd", learning_rate, clip=clip, batch_size=batch_size, sigma=sigma)
        self._configure(core, parameter_list, None, None, None)


class RecomputeOptimizer(Optimizer):
    """Fluid computes parts of the forward pass twice to save memory; the results are the same. Here
    everything is kept, and the optimizer inside does the work."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self._core = optimizer._core
        self._regularization, self._clip = optimizer.regularization, optimizer._grad_clip

    def _set_checkpoints(self, checkpoints):
        self._checkpoints = checkpoints


class ExponentialMovingAverage:
    """Averages of parameters over the runs of a program, to test and save with."""

    def __init__(self, decay=0.999, thres_steps=None, name=None):
        self._core = _core.optimizer.MovingAverage(decay, thres_steps, name)
        self.apply_program = self._core.apply_program()
        self.restore_program = self._core.restore_program()

    def update(self):
        """Adds the operators that follow the parameters; call it after `minimize`."""
        self._core.update()

    @contextlib.contextmanager
    def apply(self, executor, need_restore=True):
        """Inside the `with` the parameters are their averages."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor):
        """Puts the parameters back."""
        executor.run(self.restore_program)


class LookaheadOptimizer:
    """Another optimizer, and slow weights that parameters return to every `k` runs."""

    def __init__(self, inner_optimizer, alpha=0.5, k=5):
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert (
            0.0 <= alpha <= 1.0
        ), "alpha should be larger or equal to 0.0, and less or equal than 1.0"
        assert isinstance(k, int) and k > 0, "k should be a positive integer"
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k
        self.type = "lookahead"

    def minimize(self, loss, startup_program=None):
        """Adds gradients, the operators that apply them, and the slow weights."""
        done = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        startup = default_startup_program() if startup_program is None else startup_program
        _core.optimizer.append_lookahead(loss.block.program, startup, self.alpha, self.k)
        return done


def _unsupported(name):
    """A class that can be named but not made."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("fluid.optimizer.{} is not supported".format(name))

    return type(name, (Optimizer,), {"__init__": __init__, "__doc__": name + ": not supported."})


DGCMomentumOptimizer = _unsupported("DGCMomentumOptimizer")
ModelAverage = _unsupported("ModelAverage")
PipelineOptimizer = _unsupported("PipelineOptimizer")

SGD = SGDOptimizer
Momentum = MomentumOptimizer
LarsMomentum = LarsMomentumOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
Ftrl = FtrlOptimizer
Lamb = LambOptimizer
Dpsgd = DpsgdOptimizer


__getattr__ = unknown(__name__)
