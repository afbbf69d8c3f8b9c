"""Half precision: not there; says so when it is used."""

from ..fluid._not_yet import not_yet_function

WHY = "parameters and gradients are computed in float32 on processors; leave the decorator out"

decorate = not_yet_function("paddle.static.amp.decorate", WHY)


class bf16:
    """The names of training in bfloat16."""

    decorate_bf16 = staticmethod(not_yet_function("paddle.static.amp.bf16.decorate_bf16", WHY))
