"""Helpers for tests of layers: fresh programs and names, and a way to run them."""

import numpy as np
import pytest

from paddlewheel import _core

L = _core.layers


class Net:
    """Fresh programs and names, and a way to run them."""

    def __enter__(self):
        self.main, self.startup = _core.Program(), _core.Program()
        self.before = (
            _core.switch_main_program(self.main),
            _core.switch_startup_program(self.startup),
            _core.unique_name_switch(),
        )
        self.scope = _core.Scope()
        return self

    def __exit__(self, *error):
        main, startup, names = self.before
        _core.switch_main_program(main)
        _core.switch_startup_program(startup)
        _core.unique_name_switch(names)

    def run(self, fetch, **feed):
        exe = _core.Executor()
        if self.startup.global_block().ops:
            exe.run(self.startup, scope=self.scope)
        return exe.run(self.main, feed=feed, fetch_list=fetch, scope=self.scope)

    @property
    def ops(self):
        return [op.type for op in self.main.global_block().ops]

    @property
    def params(self):
        return [var.name for var in self.main.all_parameters()]


@pytest.fixture
def net():
    with Net() as net:
        yield net


def f32(*rows):
    return np.array(rows, dtype="float32")


def whole(*shape):
    """A variable of these sizes, none of them unknown."""
    return L.data("x", list(shape), append_batch_size=False)
