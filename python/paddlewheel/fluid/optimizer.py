"""Optimizers: classes with Fluid's names and keywords over those of the core."""

import contextlib

from .. import _core
from .._core import default_main_program, default_startup_program
from ._flags import get_flags
from ._not_yet import not_yet_class, unknown
from . import _python_optimizer, unique_name
from .framework import Program, dygraph_only, program_guard

_make = _core.optimizer.Optimizer.make


class Optimizer(_python_optimizer.PythonOptimizer):
    """Common parts of all optimizers. Make one of the classes below, or a subclass of one. A subclass of this one
    has `_append_optimize_op`, and `_create_accumulators` if it keeps variables beside parameters."""

    _core = None

    def __init__(
        self, learning_rate, parameter_list=None, regularization=None, grad_clip=None, name=None
    ):
        if not self._is_written_here():
            raise NotImplementedError(
                'Class "Optimizer" connot be used directly as an optimizer, '
                "please use its subclasses such as Adam"
            )
        core = _make("sgd", learning_rate)
        self._configure(core, parameter_list, regularization, grad_clip, name)

    def _configure(self, core, parameter_list, regularization, grad_clip, name):
        core.configure(parameter_list, regularization, grad_clip, name)
        self._core = core
        self._parameter_list = parameter_list
        self._name = name
        self._regularization, self._clip = regularization, grad_clip
        self._prepare()

    @property
    def type(self):
        """The operator that changes parameters."""
        return self._type or self._core.type

    @type.setter
    def type(self, value):
        self._type = value

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
        if not self._is_written_here():
            return self._core.minimize(loss, startup_program, parameter_list or None, no_grad_set)
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def backward(
        self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None
    ):
        """Adds gradients only; returns pairs of parameter and gradient."""
        parameter_list = parameter_list or None
        return self._core.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads):
        """Adds the operators that apply gradients; returns them."""
        if self._is_written_here():
            return self._apply(list(params_grads))
        return self._core.apply_gradients(list(params_grads))

    def apply_optimize(self, loss, startup_program, params_grads):
        """The same in the program of `loss`."""
        if self._is_written_here():
            startup = default_startup_program() if startup_program is None else startup_program
            with program_guard(loss.block.program, startup):
                return self.apply_gradients(params_grads)
        return self._core.apply_optimize(loss, startup_program, list(params_grads))

    def get_opti_var_name_list(self):
        """Names of the variables kept beside parameters."""
        return self._core.state_names() + self._opti_name_list

    def _global_learning_rate(self, program=None):
        own = self._rates.get(default_main_program() if program is None else program)
        return self._core.global_learning_rate(program) if own is None else own

    def _get_accumulator(self, name, param):
        variable = self._accumulators.get(name, {}).get(param.name)
        if variable is None:
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

    @dygraph_only
    def state_dict(self):
        """Of the imperative mode: `fluid.save` writes what is kept beside parameters."""

    @dygraph_only
    def set_dict(self, state_dict):
        """Of the imperative mode: `fluid.load` reads what is kept beside parameters."""


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
        self._learning_rate_map = {}
        self._prepare()

    def _set_checkpoints(self, checkpoints):
        self._checkpoints = checkpoints

    def load(self, stat_dict):
        """Refused, as Fluid does."""
        raise NotImplementedError("load function is not supported by Recompute Optimizer for now")

    def minimize(
        self, loss, startup_program=None, parameter_list=None, no_grad_set=None, grad_clip=None
    ):
        """Adds gradients of `loss` and the operators that apply them."""
        assert isinstance(loss, _core.Variable), "The loss should be an Variable."
        assert (
            getattr(self, "_checkpoints", None) is not None
        ), "You should call _set_checkpoints first"
        return self._optimizer.minimize(
            loss, startup_program, parameter_list, no_grad_set, grad_clip
        )

    def backward(
        self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None
    ):
        """Adds gradients only; returns pairs of parameter and gradient."""
        return self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_gradients(self, params_grads):
        """Adds the operators that apply gradients; returns them."""
        return self._optimizer.apply_gradients(params_grads)

    def apply_optimize(self, loss, startup_program, params_grads):
        """The same in the program of `loss`."""
        return self._optimizer.apply_optimize(loss, startup_program, params_grads)


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


class ModelAverage(Optimizer):
    """Averages of parameters over a window of runs, to test and save with. Make it after `minimize`."""

    def __init__(
        self,
        average_window_rate,
        min_average_window=10000,
        max_average_window=10000,
        regularization=None,
        name=None,
    ):
        self._configure(_make("sgd", 0.0), None, regularization, None, name)
        self.average_window = average_window_rate
        self.min_average_window = min_average_window
        self.max_average_window = max_average_window
        program = default_main_program()
        self.params_grads = []
        for param in program.global_block().all_parameters():
            if param.do_model_average is False:
                continue
            kept = program.global_block().create_var(
                name=unique_name.generate(".".join([param.name, "tmp"])),
                dtype=param.dtype,
                shape=list(param.shape),
                persistable=True,
                stop_gradient=True,
            )
            self.params_grads.append((param, kept))
        for pair in self.params_grads:
            with program._optimized_guard(pair):
                self._append_average_accumulate_op(pair[0])
        self.apply_program, self.restore_program = Program(), Program()
        with program_guard(main_program=self.apply_program):
            for pair in self.params_grads:
                self._add_average_apply_op(*pair)
        with program_guard(main_program=self.restore_program):
            for param, kept in self.params_grads:
                param, kept = _clone(param), _clone(kept)
                _core.layers.assign(input=kept, output=param)

    #: The sums and the counts beside a parameter.
    SUMS = ("sum_1", "sum_2", "sum_3")
    COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")

    def _append_average_accumulate_op(self, param):
        block = param.block.program.global_block()
        kept = {name: self._add_accumulator(name, param) for name in self.SUMS}
        for name in self.COUNTS:
            kept[name] = self._add_accumulator(name, param, dtype="int64", shape=[1])
        inputs = {"in_" + name: [var] for name, var in kept.items()}
        block.append_op(
            type="average_accumulates",
            inputs={"param": [param], **inputs},
            outputs={"out_" + name: [var] for name, var in kept.items()},
            attrs={
                "average_window": float(self.average_window),
                "min_average_window": self.min_average_window,
                "max_average_window": self.max_average_window,
            },
        )

    def _add_average_apply_op(self, param, kept):
        sums = [_clone(self._get_accumulator(name, param)) for name in self.SUMS]
        counts = [_clone(self._get_accumulator(name, param)) for name in self.COUNTS[:2]]
        param, kept = _clone(param), _clone(kept)
        layers = _core.layers
        layers.assign(input=param, output=kept)
        count = layers.cast(x=layers.sum(x=counts), dtype="float32")
        total = layers.cast(x=layers.sum(x=sums), dtype="float32")
        layers.assign(input=layers.elementwise_div(x=total, y=count), output=param)

    def minimize(self, loss, startup_program=None, parameter_list=None, no_grad_set=None):
        """Nothing is minimized: this is no optimizer but what it keeps of another's parameters."""
        raise NotImplementedError(
            "ModelAverage follows parameters that another optimizer changes: call minimize of that one, then make "
            "the ModelAverage"
        )

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


def _clone(var):
    """The variable in the current program."""
    block = default_main_program().global_block()
    if block.has_var(var.name):
        return block.var(var.name)
    return block.create_var(
        name=var.name, shape=list(var.shape), dtype=var.dtype, persistable=True, stop_gradient=True
    )


CARDS = "it is for graphics cards; use MomentumOptimizer"
STAGES = (
    "its stages are threads on several devices; minimize with the optimizer inside, and let "
    "exe.train_from_dataset(thread=n) read and compute at the same time"
)
DGCMomentumOptimizer = not_yet_class("fluid.optimizer.DGCMomentumOptimizer", CARDS)
PipelineOptimizer = not_yet_class("fluid.optimizer.PipelineOptimizer", STAGES)

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
