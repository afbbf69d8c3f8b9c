"""The settings of a parameter."""

from .. import _core
from .initializer import Initializer
from .regularizer import WeightDecayRegularizer


class ParamAttr:
    """Name, start, learning rate, decay of a parameter. Layers read the fields when they are made."""

    def __init__(
        self,
        name=None,
        initializer=None,
        learning_rate=1.0,
        regularizer=None,
        trainable=True,
        do_model_average=True,
        gradient_clip=None,
    ):
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.gradient_clip = gradient_clip
        _core.check_param_attr(self)

    @staticmethod
    def _to_attr(arg):
        """An argument that layers accept for a `ParamAttr`, as one."""
        if arg is None or arg is True:
            return ParamAttr()
        if arg is False:
            return False
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(item) for item in arg]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        raise TypeError("{} cast to ParamAttr".format(type(arg)))


class WeightNormParamAttr(ParamAttr):
    """A parameter as a direction and its length: one for each place of dimension `dim`, or one for all."""

    def __init__(
        self,
        dim=None,
        name=None,
        initializer=None,
        learning_rate=1.0,
        regularizer=None,
        trainable=True,
        do_model_average=False,
        gradient_clip=None,
    ):
        self.dim = dim
        super().__init__(
            name=name,
            initializer=initializer,
            learning_rate=learning_rate,
            regularizer=regularizer,
            trainable=trainable,
            do_model_average=do_model_average,
            gradient_clip=gradient_clip,
        )
