"""How trainers and servers keep step, as scripts say it."""

import pytest

from paddlewheel import fluid
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    distributed_strategy as strategies,
)
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
    TrainerRuntimeConfig,
)

USUAL = {
    "communicator_max_merge_var_num": "1",
    "communicator_send_queue_size": "1",
    "communicator_independent_recv_thread": "1",
    "communicator_min_send_grad_num_before_recv": "1",
    "communicator_thread_pool_size": "5",
    "communicator_send_wait_times": "5",
    "communicator_is_sgd_optimizer": "1",
    "rpc_deadline": "180000",
    "rpc_retry_times": "3",
}


def test_each_strategy_sets_its_switches():
    expected = {
        "sync": (False, True, True, True, False),
        "ssp": (False, True, True, True, False),
        "half_async": (False, True, True, False, False),
        "async": (False, True, False, False, False),
        "geo": (False, True, False, False, True),
    }
    for name, switches in expected.items():
        strategy = getattr(StrategyFactory, "create_{}_strategy".format(name))()
        assert isinstance(strategy, strategies.DistributedStrategy)
        config = strategy.get_program_config()
        found = (
            config.sync_mode,
            config.runtime_split_send_recv,
            config.half_async,
            config.completely_not_async,
            config.geo_sgd_mode,
        )
        assert found == switches, name
        assert strategy.get_build_strategy().async_mode
    geo = StrategyFactory.create_geo_strategy(update_frequency=7)
    assert geo.get_program_config().geo_sgd_need_push_nums == 7
    ssp = StrategyFactory.create_ssp_strategy(staleness=3)
    assert ssp.get_program_config().staleness == 3
    assert StrategyFactory.create_sync_strategy().get_program_config().staleness == 0


@pytest.mark.parametrize("number", [-1, -(2**70), 2**40, 2**70])
def test_a_count_that_cannot_be_is_named(number):
    with pytest.raises(ValueError, match="^staleness must be .* but received {}$".format(number)):
        StrategyFactory.create_ssp_strategy(staleness=number)
    with pytest.raises(ValueError, match="^update_frequency must be"):
        StrategyFactory.create_geo_strategy(update_frequency=number)


def test_other_whole_numbers_that_cannot_be_are_named():
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    calls = {
        "batch_size": dataset.set_batch_size,
        "skip_max": dataset.set_skip_max,
        "seed": dataset.set_shuffle_seed,
        "merge_size": dataset.set_merge_by_lineid,
        "thread_num": dataset.set_thread,
        "num_thresholds": lambda number: fluid.metrics.Auc("auc", num_thresholds=number),
        "index": fluid.Program().block,
        "DistributedMode": lambda number: setattr(TrainerRuntimeConfig(), "mode", number),
    }
    for name, call in calls.items():
        for number in (-1, 2**70):
            with pytest.raises(ValueError, match="^{} must be".format(name)):
                call(number)


def test_the_settings_of_a_trainer_are_fluids():
    config = StrategyFactory.create_async_strategy().get_trainer_runtime_config()
    assert config.runtime_configs == USUAL == TrainerRuntimeConfig().runtime_configs
    assert config.get_communicator_flags() == USUAL
    geo = StrategyFactory.create_geo_strategy().get_trainer_runtime_config()
    assert list(geo.get_communicator_flags()) == [
        "communicator_thread_pool_size",
        "communicator_send_wait_times",
    ]
    assert repr(geo) == (
        "\n==================================================\n"
        "        TrainerRuntimeConfig Overview        Value\n"
        "--------------------------------------------------\n"
        "communicator_thread_pool_size                5    \n"
        "communicator_send_wait_times                 5    \n"
        "==================================================\n"
    )


def test_queues_fit_the_threads_that_step_together(capsys):
    strategy = StrategyFactory.create_sync_strategy()
    strategy.set_trainer_runtime_config({"communicator_send_queue_size": 7})
    flags = strategy.get_trainer_runtime_config().get_communicator_flags()
    assert flags["communicator_send_queue_size"] == "1"
    assert "communicator_send_queue_size = 7, CPU_NUM = 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    "name, kind",
    [
        ("program_config", "DistributeTranspilerConfig"),
        ("trainer_runtime_config", "TrainerRuntimeConfig"),
        ("server_runtime_config", "ServerRuntimeConfig"),
        ("execute_strategy", "ExecutionStrategy"),
        ("build_strategy", "BuildStrategy"),
    ],
)
def test_unknown_settings_are_refused(name, kind):
    strategy = StrategyFactory.create_async_strategy()
    change = getattr(strategy, "set_" + name)
    with pytest.raises(ValueError, match="^{} doesn't have key: zz$".format(kind)):
        change({"zz": 1})
    with pytest.raises(TypeError, match="^{} only accept input type: dict or {}$".format(name, kind)):
        change(3)
    own = getattr(strategy, "get_" + name)()
    change(own)
    assert getattr(strategy, "get_" + name)() is own


def test_known_settings_are_changed():
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_program_config({"slice_var_up": False})
    assert strategy.get_program_config().slice_var_up is False
    strategy.set_server_runtime_config({"_rpc_send_thread_num": 7})
    assert strategy.get_server_runtime_config()._rpc_send_thread_num == 7
    strategy.set_trainer_runtime_config({"rpc_deadline": "9", "communicator_send_queue_size": 4})
    assert strategy.get_trainer_runtime_config().runtime_configs["rpc_deadline"] == "9"
    strategy.set_debug_opt({"dump_slot": True})
    assert strategy.get_debug_opt()["dump_slot"] is True
    with pytest.raises(ValueError, match="rpc_deadline is `soon`"):
        strategy.set_trainer_runtime_config({"rpc_deadline": "soon"})
    with pytest.raises(TypeError, match="rpc_deadline must be a number"):
        strategy.set_trainer_runtime_config({"rpc_deadline": [1]})


def test_threads_come_from_the_environment(child):
    script = """
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory
strategy = StrategyFactory.create_async_strategy()
found = strategy.get_trainer_runtime_config().runtime_configs
print(found["communicator_max_merge_var_num"], found["communicator_send_queue_size"])
print(found["rpc_deadline"], strategy.get_execute_strategy().num_threads)
"""
    environment = {"CPU_NUM": "4", "FLAGS_rpc_deadline": "5"}
    environment["FLAGS_communicator_send_queue_size"] = "9"
    result = child("-c", script, environment=environment)
    assert result.stdout == "4 9\n5 4\n", result.stderr
