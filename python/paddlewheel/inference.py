"""Prediction with saved models under the names of version 2."""

from .fluid._not_yet import not_yet_class
from .version import full_version

WHY = "paddlewheel.Predictor predicts with a saved model, `paddlewheel serve` over HTTP"
Config, Predictor = (not_yet_class("paddle.inference." + name, WHY) for name in ("Config", "Predictor"))


def get_version():
    """The version that is mirrored."""
    return full_version
