"""Programs out of dynamic graphs: not there; says what is."""

from .fluid._not_yet import not_yet_function

WHY = "build a program with paddle.static and save it with paddle.static.save_inference_model"
save, load, to_static, not_to_static = (
    not_yet_function("paddle.jit." + name, WHY) for name in ("save", "load", "to_static", "not_to_static")
)
