"""A job of the event trainer with checkpoints: `trainer.py EPOCHS OUT`. It resumes where it was.

`BATCHES` says how many batches a pass of each trainer has, `INTERVAL` after how many it saves itself; `HANG` names a trainer, a pass and a step before which
that trainer waits for its end.
"""

import os
import signal
import sys

import numpy as np

import paddlewheel as paddle
import paddlewheel.fluid as fluid

EPOCHS, OUT = int(sys.argv[1]), sys.argv[2]
ROLE = os.environ.get("TRAINING_ROLE")
RANK = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
HANG = [int(word) for word in os.environ.get("HANG", "").split()]
BATCHES = [int(word) for word in os.environ.get("BATCHES", "12 12").split()]


def net():
    """A table that servers keep and save by rows, one that they do not, and a layer."""
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    y = fluid.layers.data("y", [1], dtype="float32")
    init = fluid.initializer.Uniform(-0.1, 0.1, seed=5)
    tables = [
        fluid.layers.embedding(
            ids, [100, 4], is_sparse=True, is_distributed=name == "rows" and ROLE is not None,
            param_attr=fluid.ParamAttr(name, init),
        )
        for name in ("rows", "table")
    ]
    pooled = [fluid.layers.sequence_pool(table, "sum") for table in tables]
    predicted = fluid.layers.fc(pooled, 1, param_attr=[fluid.ParamAttr(w, init) for w in "vw"])
    return fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))


def batches():
    """Each batch is another one, and those of trainers are."""
    for at in range(BATCHES[RANK]):
        draw = np.random.RandomState(1000 * RANK + at)
        yield [
            (list(draw.randint(0, 100, 3)), [float(draw.rand())]) for _ in range(4)
        ]


def handle(event):
    """Notes each step, and hangs where it was told to."""
    if isinstance(event, fluid.BeginStepEvent) and [RANK, event.epoch, event.step] == HANG:
        print("hangs", flush=True)
        signal.pause()
    if isinstance(event, fluid.EndStepEvent):
        print("step %d %d" % (event.epoch, event.step), flush=True)


name = "trainer.%d" % RANK if ROLE == "TRAINER" else "server." + os.environ.get("PADDLE_PORT", "")
with open(name + ".pid", "w") as file:
    file.write(str(os.getpid()))
interval = int(os.environ.get("INTERVAL", "5"))
config = fluid.CheckpointConfig("points", max_num_checkpoints=2, step_interval=interval)
trainer = fluid.Trainer(
    net,
    lambda: fluid.optimizer.Adam(0.01),
    place=fluid.CPUPlace(),
    parallel="PARALLEL" in os.environ,
    checkpoint_config=config,
)
if config.load_serial is not None:
    print("goes on from checkpoint %d" % config.load_serial, flush=True)
trainer.train(EPOCHS, handle, batches, ["ids", "y"])
if ROLE != "PSERVER" and RANK == 0:
    trainer.save_params(OUT)
