"""Shows that the installation works."""

import numpy

from . import layers, optimizer, unique_name
from .core import Scope
from .executor import Executor, scope_guard
from .framework import Program, program_guard


def run_check():
    """Trains a tiny network and says so."""
    main, startup = Program(), Program()
    with unique_name.guard(), program_guard(main, startup), scope_guard(Scope()):
        x = layers.data(name="x", shape=[2], dtype="float32")
        loss = layers.mean(layers.fc(input=x, size=1))
        optimizer.SGD(learning_rate=0.01).minimize(loss)
        executor = Executor()
        executor.run(startup)
        executor.run(main, feed={"x": numpy.ones((3, 2), "float32")}, fetch_list=[loss])
    print("Your Paddle Fluid is installed successfully! (paddlewheel, on this machine's CPU)")
