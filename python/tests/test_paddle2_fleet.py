"""Jobs written in the names of Paddle 2.x: one process, and servers with workers."""

import os
import re

import numpy
import pytest
from conftest import PROGRAMS

import paddlewheel as paddle
import paddlewheel.distributed.fleet as fleet
from paddlewheel.distributed.launch import translated

SCRIPT = os.path.join(PROGRAMS, "two_ctr.py")


def number(log, word):
    return float(re.findall(r"^{} ([-.e\d]+)".format(word), log, re.M)[-1])


def predicts(folder):
    """What the saved model says of ids that were clicked, and of others."""
    exe = paddle.fluid.Executor(paddle.fluid.CPUPlace())
    program, feeds, fetches = paddle.fluid.io.load_inference_model(str(folder), exe)
    feed = {"ids": numpy.array([[4, 7], [5, 7]], "int64"), "dense": numpy.full((2, 2), 0.5, "float32")}
    (found,) = exe.run(program, feed=feed, fetch_list=fetches)
    return found[:, 0]


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_servers_and_workers_learn(child, tmp_path, mode):
    words = ("--server_num=2", "--worker_num=2", "--log_dir", str(tmp_path / "log"), SCRIPT, mode, str(tmp_path))
    done = child("-m", "paddlewheel.distributed.launch", *words)
    log = (tmp_path / "log" / "workerlog.0").read_text()
    assert done.returncode == 0, done.stderr + log
    # Two asynchronous workers on a slow machine learn less evenly.
    assert number(log, "auc") > {"sync": 0.9, "async": 0.7, "geo": 0.6}[mode]
    assert number(log, "files") == 1 and number(log, "together") == 2
    clicked, other = predicts(tmp_path / "model")
    assert clicked > other


def test_one_process_needs_no_variables(child, tmp_path):
    done = child(SCRIPT, "alone", str(tmp_path), alias=True)
    assert done.returncode == 0, done.stderr
    assert number(done.stdout, "auc") > 0.9
    assert number(done.stdout, "files") == 2 and number(done.stdout, "together") == 1
    clicked, other = predicts(tmp_path / "model")
    assert clicked > other


def test_words_of_the_launcher():
    assert translated(["--server_num=1", "--worker_num", "3", "t.py", "--x"]) == [
        "launch_ps", "--server_num", "1", "--worker_num", "3", "t.py", "--x"
    ]
    assert translated(["--run_mode", "ps", "--trainer_num=4", "t.py"]) == ["launch_ps", "--worker_num", "4", "t.py"]
    assert translated(["--servers=a:1,a:2", "--workers=a:3", "t.py"]) == [
        "launch_ps", "--endpoints", "a:1,a:2", "--worker_num", "1", "t.py"
    ]
    assert translated(["--nproc_per_node", "2", "t.py"]) == ["launch", "--nproc_per_node", "2", "t.py"]
    with pytest.raises(SystemExit, match="several machines"):
        translated(["--workers=a:1,b:1", "t.py"])


def test_a_strategy_means_a_mode():
    strategy = fleet.DistributedStrategy()
    assert not strategy.a_sync and strategy.a_sync_configs["k_steps"] == -1
    assert type(strategy._meant()).__name__ == "SyncStrategy"
    strategy.a_sync = True
    assert type(strategy._meant()).__name__ == "AsyncStrategy"
    strategy.a_sync_configs = {"k_steps": 100}
    assert type(strategy._meant()).__name__ == "GeoStrategy"
    strategy.adam_d2sum = True
    assert strategy.adam_d2sum is True and strategy.fs_client_param is None


def test_a_strategy_refuses_what_is_not_there():
    strategy = fleet.DistributedStrategy()
    with pytest.raises(NotImplementedError, match="graphics cards"):
        strategy.a_sync_configs = {"use_ps_gpu": 1}
    with pytest.raises(NotImplementedError, match="graphics cards"):
        strategy.a_sync_configs = {"heter_worker_device_guard": "gpu"}
    with pytest.raises(ValueError, match="no ksteps"):
        strategy.a_sync_configs = {"ksteps": 1}
    with pytest.raises(ValueError, match="bool"):
        strategy.a_sync = 1
    with pytest.raises(NotImplementedError, match="pipeline"):
        strategy.pipeline = True


def test_settings_without_effect_say_so_once(capfd):
    strategy = fleet.DistributedStrategy()
    for _ in range(2):
        strategy.sparse_table_configs = {"embedding": {"table_parameters.embedding.shard_num": 10}}
    assert capfd.readouterr().err.count("sparse_table_configs") <= 1
    assert strategy.sparse_table_configs


def test_a_scheduler_cannot_go_on_in_a_job():
    schedule = paddle.optimizer.lr.ExponentialDecay(0.5, 0.5)
    schedule._in_job = True
    with pytest.raises(NotImplementedError, match="exponential_decay"):
        schedule.step()


def test_datasets_take_their_settings_at_once():
    x = paddle.static.data("x", [None, 1], "int64")
    dataset = paddle.distributed.InMemoryDataset()
    dataset.init(batch_size=2, thread_num=1, use_var=[x], pipe_command="cat")
    dataset.update_settings(parse_ins_id=False)
    with pytest.raises(ValueError, match="no setting batchsize"):
        dataset.init(batchsize=2)
    with pytest.raises(NotImplementedError, match="input_type"):
        dataset.init(input_type=1, use_var=[x])
    with pytest.raises(NotImplementedError, match="tdm_sampler"):
        dataset.tdm_sample()
