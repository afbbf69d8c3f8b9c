"""Learning rates that a script changes by `step()`; the executor sets them before each run."""

import math


class LRScheduler:
    """A learning rate and how it goes on. Override `get_lr`."""

    _var_name = None
    _in_job = False

    def __init__(self, learning_rate=0.1, last_epoch=-1, verbose=False):
        if not isinstance(learning_rate, (float, int)):
            raise TypeError("The type of learning rate must be float, but received {}".format(type(learning_rate)))
        if learning_rate < 0:
            raise ValueError("Invalid learning rate: {}".format(learning_rate))
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self._next()

    def __call__(self):
        return self.last_lr

    def _next(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = float(self.get_lr())
        if self.verbose:
            print("Epoch {}: {} set learning rate to {}.".format(self.last_epoch, type(self).__name__, self.last_lr))

    def step(self, epoch=None):
        """Goes on by one, or to this number."""
        if self._in_job:
            raise NotImplementedError(
                "servers apply the learning rate that a scheduler had when the job began: use "
                "paddle.static.exponential_decay, which is part of the program and runs on them"
            )
        self._next(epoch)

    def get_lr(self):
        """Override: the learning rate of now."""
        raise NotImplementedError

    def state_dict(self):
        """What is needed to go on."""
        return {"last_epoch": self.last_epoch, "last_lr": self.last_lr}

    def set_state_dict(self, state_dict):
        """Goes on from there."""
        for name, value in state_dict.items():
            if name in ("last_epoch", "last_lr"):
                setattr(self, name, value)

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """Grows over `warmup_steps`, then falls with the root of steps."""

    def __init__(self, d_model, warmup_steps, learning_rate=1.0, last_epoch=-1, verbose=False):
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        first = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        return self.base_lr * self.d_model**-0.5 * min(first, self.warmup_steps**-1.5 * self.last_epoch)


class PiecewiseDecay(LRScheduler):
    """The value of the piece that the step is in."""

    def __init__(self, boundaries, values, last_epoch=-1, verbose=False):
        if len(values) - len(boundaries) != 1:
            raise ValueError("one value more than boundaries is needed")
        self.boundaries, self.values = list(boundaries), [float(value) for value in values]
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self):
        for boundary, value in zip(self.boundaries, self.values):
            if self.last_epoch < boundary:
                return value
        return self.values[-1]


class NaturalExpDecay(LRScheduler):
    """lr · e^(-gamma · step)."""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(NaturalExpDecay):
    """lr / (1 + gamma · step)."""

    def get_lr(self):
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(NaturalExpDecay):
    """lr · gamma^step."""

    def get_lr(self):
        return self.base_lr * self.gamma**self.last_epoch


class PolynomialDecay(LRScheduler):
    """From the learning rate to `end_lr` in `decay_steps`, with a power."""

    def __init__(self, learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False, last_epoch=-1, verbose=False):
        if not isinstance(decay_steps, int) or decay_steps <= 0:
            raise ValueError("decay_steps must be a positive integer")
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        steps, at = self.decay_steps, self.last_epoch
        if self.cycle:
            steps *= max(1, math.ceil(at / steps))
        else:
            at = min(at, steps)
        return (self.base_lr - self.end_lr) * (1 - at / steps) ** self.power + self.end_lr


class LinearWarmup(LRScheduler):
    """From `start_lr` to `end_lr` in `warmup_steps`, then a number or a scheduler."""

    def __init__(self, learning_rate, warmup_steps, start_lr, end_lr, last_epoch=-1, verbose=False):
        if end_lr <= start_lr:
            raise ValueError("end_lr {} must be greater than start_lr {}".format(end_lr, start_lr))
        self.after, self.warmup_steps, self.start_lr, self.end_lr = learning_rate, warmup_steps, start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self):
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if isinstance(self.after, LRScheduler):
            self.after._next(self.last_epoch - self.warmup_steps)
            return self.after()
        return self.after


class StepDecay(LRScheduler):
    """lr · gamma^(step // step_size)."""

    def __init__(self, learning_rate, step_size, gamma=0.1, last_epoch=-1, verbose=False):
        if not isinstance(step_size, int):
            raise TypeError("The type of 'step_size' must be 'int', but received {}.".format(type(step_size)))
        if gamma >= 1.0:
            raise ValueError("gamma should be < 1.0.")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepDecay(LRScheduler):
    """gamma times smaller after each milestone."""

    def __init__(self, learning_rate, milestones, gamma=0.1, last_epoch=-1, verbose=False):
        if gamma >= 1.0:
            raise ValueError("gamma should be < 1.0.")
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** sum(self.last_epoch >= each for each in self.milestones)


class LambdaDecay(LRScheduler):
    """lr · a function of the step."""

    def __init__(self, learning_rate, lr_lambda, last_epoch=-1, verbose=False):
        if not callable(lr_lambda):
            raise TypeError("The type of 'lr_lambda' in 'LambdaDecay' must be 'function', but received {}.".format(type(lr_lambda)))
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.lr_lambda(self.last_epoch)


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from the learning rate to `eta_min` in `T_max` steps, and back."""

    def __init__(self, learning_rate, T_max, eta_min=0, last_epoch=-1, verbose=False):
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        turn = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return self.eta_min + (self.base_lr - self.eta_min) * turn / 2
