"""Optimizers that scripts write in Python: they append the operator that changes a parameter by themselves."""

from .. import _core
from . import unique_name
from .framework import default_main_program, name_scope
from .layer_helper import LayerHelper



class PythonOptimizer:
    """Goes through the parameters and asks a subclass for the operator of each."""

    _type = None

    def _prepare(self):
        self._accumulators = {}
        self._rates = _Rates()
        self._opti_name_list = []
        self.helper = None

    def _is_written_here(self):
        """Whether a subclass appends the operators."""
        return type(self)._append_optimize_op is not PythonOptimizer._append_optimize_op

    # ---- what a subclass writes

    def _append_optimize_op(self, block, param_and_grad):
        """Appends the operator that changes a parameter, and returns it."""
        raise NotImplementedError(
            'Class "Optimizer" connot be used directly as an optimizer, '
            "please use its subclasses such as Adam"
        )

    def _create_accumulators(self, block, parameters):
        """Makes what is kept beside parameters, by `_add_accumulator`."""

    def _finish_update(self, block, parameters_and_grads):
        """Appends what comes after all parameters."""

    # ---- what it uses

    def _add_accumulator(
        self, name, param, dtype=None, fill_value=0.0, shape=None, type=None, force_cpu=True
    ):
        """A variable that is kept beside a parameter, of its shape unless another is given."""
        if self._name is not None:
            name = self._name + "_" + name
        kept = self._accumulators.setdefault(name, {})
        if param.name in kept:
            raise Exception(
                "Accumulator {} already exists for parameter {}".format(name, param.name)
            )
        helper = self.helper or LayerHelper(self.__class__.__name__)
        var_name = unique_name.generate(param.name + "_" + name)
        self._opti_name_list.append(var_name)
        var = helper.create_global_variable(
            name=var_name,
            persistable=True,
            dtype=dtype or param.dtype,
            shape=list(param.shape) if shape is None else list(shape),
        )
        var.stop_gradient = True
        helper.set_variable_initializer(var, _constant(fill_value))
        kept[param.name] = var
        return var

    def _create_global_learning_rate(self):
        """The variable with the learning rate of the current program."""
        program = default_main_program()
        if self._rates.get(program) is not None:
            return
        rate = self._learning_rate
        if not isinstance(rate, _core.Variable):
            rate = _core.layers.create_global_var(
                name=unique_name.generate("learning_rate"),
                shape=[1],
                value=float(rate),
                dtype="float32",
                persistable=True,
            )
        self._rates.put(program, rate)

    def _create_param_lr(self, param_and_grad):
        """The learning rate of a parameter: that of all, times its own."""
        own = param_and_grad[0].optimize_attr["learning_rate"]
        if isinstance(own, _core.Variable):
            return own
        rate = self._global_learning_rate()
        if own == 1.0:
            return rate
        program = default_main_program()
        with program._lr_schedule_guard(is_with_opt=True), name_scope("scale_with_param_lr"):
            return rate * own

    # ---- the way through the parameters

    def _apply(self, params_grads):
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        if self._grad_clip is not None:
            pairs = self._grad_clip(pairs)
        else:
            from .clip import append_gradient_clip_ops

            pairs = append_gradient_clip_ops(pairs)
        pairs = [self._decayed(pair) for pair in pairs]
        return self._create_optimization_pass(pairs)

    def _decayed(self, pair):
        """The pair with the decay added to its gradient."""
        param, grad = pair
        decay = getattr(param, "regularizer", None) or self.regularization
        if grad is None or decay is None:
            return pair
        layers = _core.layers
        with param.block.program._optimized_guard(pair):
            coeff = decay._regularization_coeff
            is_l1 = type(decay).__name__.startswith("L1")
            term = layers.scale(layers.sign(param) if is_l1 else param, scale=coeff)
            return param, layers.sum([grad, term])

    def _create_optimization_pass(self, parameters_and_grads):
        """Appends the operators of all parameters; returns what they appended to the block."""
        program = default_main_program()
        block = program.current_block()
        before = len(block.ops)
        self.helper = LayerHelper(self.__class__.__name__)
        trained = [pair for pair in parameters_and_grads if pair[0].trainable]
        self._create_accumulators(block, [param for param, _ in trained])
        self._create_global_learning_rate()
        for pair in parameters_and_grads:
            if pair[1] is None or not pair[0].trainable:
                continue
            with program._optimized_guard(pair), name_scope("optimizer"):
                self._append_optimize_op(block, pair)
        self._finish_update(block, parameters_and_grads)
        return list(block.ops)[before:]


class _Rates:
    """Learning rates by program; programs are told apart by what they are, not by what they hold."""

    def __init__(self):
        self._pairs = []

    def get(self, program):
        """The variable of a program, if it has one."""
        found = (rate for known, rate in self._pairs if known is program)
        return next(found, None)

    def put(self, program, rate):
        """Says which variable a program has."""
        self._pairs.append((program, rate))


def _constant(value):
    from .initializer import Constant

    return Constant(value=float(value))
