"""The older way to train, with checkpoints."""

import os

import numpy as np
import pytest

import paddlewheel as paddle
import paddlewheel.fluid as fluid
from conftest import saved_in
from paddlewheel.fluid.contrib import checkpoint


def predict():
    x = fluid.layers.data("x", [13])
    return fluid.layers.fc(x, 1)


def train_func():
    y = fluid.layers.data("y", [1])
    return fluid.layers.mean(fluid.layers.square_error_cost(predict(), y))


def optimizer():
    return fluid.optimizer.SGD(learning_rate=0.01)


def batches(n=30):
    samples = paddle.reader.firstn(paddle.dataset.uci_housing.train(), n)
    return paddle.batch(samples, 1)


def test_trains_tests_saves_and_infers(tmp_path):
    trainer = fluid.Trainer(train_func, optimizer, place=fluid.CPUPlace())
    events, losses = [], []

    def handler(event):
        events.append(type(event).__name__)
        if isinstance(event, fluid.EndStepEvent):
            losses.append(event.metrics[0].item())

    trainer.train(2, handler, batches(3), feed_order=["x", "y"])
    step = ["BeginStepEvent", "EndStepEvent"]
    assert events == (["BeginEpochEvent"] + step * 3 + ["EndEpochEvent"]) * 2
    (before,) = trainer.test(batches(3), {"y": 1, "x": 0})
    trainer.train(20, lambda event: None, batches(3), feed_order=["x", "y"])
    (after,) = trainer.test(batches(3), {"y": 1, "x": 0})
    assert len(losses) == 6 and after < before
    trainer.save_params(str(tmp_path / "model"))
    inferencer = fluid.Inferencer(predict, str(tmp_path / "model"))
    (value,) = inferencer.infer({"x": np.zeros((1, 13), "float32")})
    assert value.shape == (1, 1) and value.item() != 0


def test_resumes_after_a_crash(tmp_path):
    seen = []

    def crash(event):
        if isinstance(event, fluid.BeginStepEvent) and (event.epoch, event.step) == (1, 3):
            raise KeyboardInterrupt

    def note(event):
        if isinstance(event, fluid.BeginStepEvent):
            seen.append((event.epoch, event.step))

    def trainer():
        config = fluid.CheckpointConfig(str(tmp_path), 2, epoch_interval=1, step_interval=2)
        return fluid.Trainer(train_func, optimizer, checkpoint_config=config)

    (tmp_path / "not_ours").mkdir()
    with pytest.raises(KeyboardInterrupt):
        trainer().train(2, crash, batches(4), ["x", "y"])
    assert checkpoint.serials(str(tmp_path)) == [2, 3]
    assert saved_in(tmp_path / "checkpoint_3") == ["__model__", "trainer_0"]
    assert saved_in(tmp_path / "checkpoint_3" / "trainer_0") == [
        "_SUCCESS",
        "epoch_id",
        "n_steps",
        "step_id",
    ]
    assert (tmp_path / "checkpoint_3" / "trainer_0" / "step_id").read_text() == "2\n"
    trainer().train(2, note, batches(4), ["x", "y"])
    assert seen == [(1, 3)]
    assert os.listdir(tmp_path) == ["not_ours"]


def test_wrong_arguments_are_refused(tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        fluid.CheckpointConfig(epoch_interval=0)
    with pytest.raises(TypeError, match="Optimizer"):
        fluid.Trainer(train_func, lambda: 3)
    with pytest.raises(TypeError, match="feed_order"):
        fluid.Trainer(train_func, optimizer).train(1, print, batches(1), feed_order=3)
    monkeypatch.setenv("PADDLE_TRAINING_ROLE", "TRAINER")
    with pytest.raises(ValueError, match="PADDLE_PSERVERS_IP_PORT_LIST"):
        fluid.Trainer(train_func, optimizer)
    monkeypatch.setenv("PADDLE_PSERVER_IPS", "127.0.0.1")
    monkeypatch.setenv("PADDLE_TRAINERS", "1")
    monkeypatch.setenv("PADDLE_TRAINING_ROLE", "WORKER")
    with pytest.raises(ValueError, match="TRAINING_ROLE"):
        fluid.Trainer(train_func, optimizer)
    monkeypatch.setenv("PADDLE_TRAINER_IPS", "127.0.0.1")
    with pytest.raises(ValueError, match="PADDLE_TRAINER_ID"):
        fluid.Trainer(train_func, optimizer)


def test_a_damaged_checkpoint_is_not_taken(tmp_path, capfd):
    """The newest whole one is; a line says that it is not the newest."""
    exe = fluid.Executor(fluid.CPUPlace())
    train_func()
    exe.run(fluid.default_startup_program())
    main, folder = fluid.default_main_program(), str(tmp_path)
    weight = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
    for number in range(3):
        weight.set(np.full((13, 1), number, "float32"), fluid.CPUPlace())
        fluid.io.save_checkpoint(exe, folder, 0, main, {"step_id": number})
    damaged = tmp_path / "checkpoint_2" / "__model__" / "fc_0.w_0"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    fluid.io.load_checkpoint(exe, folder, main)
    assert (np.array(weight) == 1).all()
    assert "checkpoint_2/__model__/fc_0.w_0" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="checkpoint_1 holds an older save that is whole"):
        fluid.io.load_checkpoint(exe, folder, main, 2)
    with pytest.raises(ValueError, match="no complete checkpoint"):
        fluid.io.load_checkpoint(exe, str(tmp_path / "nowhere"), main)


def test_a_parallel_trainer_takes_a_batch_for_each_device(monkeypatch, tmp_path):
    monkeypatch.setenv("CPU_NUM", "2")
    seen = []

    def note(event):
        if isinstance(event, fluid.EndStepEvent):
            seen.append(np.array(event.metrics[0]).size)

    config = fluid.CheckpointConfig(str(tmp_path), step_interval=1)
    trainer = fluid.Trainer(
        train_func, optimizer, place=fluid.CPUPlace(), parallel=True, checkpoint_config=config
    )
    before = trainer.test(batches(4), ["x", "y"])
    trainer.train(3, note, batches(9), ["x", "y"])
    assert seen == [2] * 12, "four pairs of batches in each of three passes; the last one is alone"
    assert trainer.test(batches(4), ["x", "y"]) < before
