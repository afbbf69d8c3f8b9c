"""`paddle` is another name of `paddlewheel`."""

from paddlewheel._paddle import install

install(__name__)
