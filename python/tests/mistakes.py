"""Deliberate mistakes, and the words that a user must see: the culprit, the place, the remedy.

A mistake is a function; `@mistake(kind, words…)` notes the exception and the words that its text must
have. The tests are in `test_mistakes_*.py`.
"""

import warnings

import pytest

import paddlewheel.fluid as fluid

#: Words that a user must never see: a panic is a bug of ours.
PANICS = ["panicked", "PanicException", "has a bug", "RUST_BACKTRACE", "index out of bounds"]


class Mistakes(list):
    """The mistakes of a file, for `parametrize`."""

    def __call__(self, kind, *words, warns=()):
        def note(function):
            self.append(pytest.param(function, kind, words, warns, id=function.__name__))
            return function

        return note

    def test(self):
        """A test that makes each of them."""

        @pytest.mark.parametrize("make, kind, words, warns", self)
        def test_mistake(make, kind, words, warns, tmp_path, monkeypatch, capfd):
            monkeypatch.chdir(tmp_path)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                text = said_by(make, kind)
            has_all(text, words)
            has_all("\n".join(str(warning.message) for warning in warned), warns)
            has_no_panic(text, *capfd.readouterr())

        return test_mistake


def said_by(make, kind):
    """The text of the exception that a mistake raises; without a kind it must raise none."""
    if kind is None:
        make()
        return ""
    with pytest.raises(kind) as caught:
        make()
    return str(caught.value)


def has_all(text, words):
    for word in words:
        assert word in text, "`%s` is not in:\n%s" % (word, text)


def has_no_panic(*texts):
    for text in texts:
        for word in PANICS:
            assert word not in text, text


def net():
    """A line through points: x, y, prediction, loss."""
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    p = fluid.layers.fc(x, 1)
    return x, y, p, fluid.layers.mean(fluid.layers.square_error_cost(p, y))


def executor():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe


def trained():
    """The same, ready to run: executor, x, y, prediction, loss."""
    x, y, p, loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    return executor(), x, y, p, loss
