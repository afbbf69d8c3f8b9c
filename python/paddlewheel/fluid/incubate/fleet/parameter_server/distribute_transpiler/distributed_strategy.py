"""How trainers and servers keep step."""

from ......_core import fleet as _native
from .....compiler import BuildStrategy, ExecutionStrategy
from .....transpiler.distribute_transpiler import (
    DistributedMode,
    DistributeTranspilerConfig,
    ServerRuntimeConfig,
)

TrainerRuntimeConfig = _native.TrainerRuntimeConfig

#: The settings of the debug output of a training, with their defaults.
DEBUG = {
    "dump_slot": False,
    "dump_converter": "",
    "dump_fields": [],
    "dump_file_num": 16,
    "dump_fields_path": "",
    "dump_param": [],
}


def _changed(own, config, name, put=setattr):
    """The configuration given, or the one there is with some settings changed."""
    kind = type(own)
    if isinstance(config, kind):
        return config
    if not isinstance(config, dict):
        text = "{} only accept input type: dict or {}"
        raise TypeError(text.format(name, kind.__name__))
    for key, value in config.items():
        if put is setattr and not hasattr(own, key):
            raise ValueError("{} doesn't have key: {}".format(kind.__name__, key))
        put(own, key, value)
    return own


class DistributedStrategy:
    """A mode and its settings."""

    _mode = DistributedMode.SYNC

    def __init__(self, update_frequency=100):
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._trainer_runtime_config.mode = self._mode
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy = ExecutionStrategy()
        self._execute_strategy.num_threads = self._trainer_runtime_config.num_threads
        self._build_strategy = BuildStrategy()
        self._build_strategy.async_mode = True
        self.debug_opt = None
        for name, value in _native.mode_switches(self._mode, update_frequency).items():
            setattr(self._program_config, name, value)

    def get_program_config(self):
        """How programs are split."""
        return self._program_config

    def set_program_config(self, config):
        """Changes how programs are split."""
        self._program_config = _changed(self._program_config, config, "program_config")

    def get_trainer_runtime_config(self):
        """How trainers send and receive."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config):
        """Changes how trainers send and receive."""
        own, put = self._trainer_runtime_config, TrainerRuntimeConfig.set
        self._trainer_runtime_config = _changed(own, config, "trainer_runtime_config", put)
        self._trainer_runtime_config.mode = self._mode

    def get_server_runtime_config(self):
        """How servers answer."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config):
        """Changes how servers answer."""
        own = self._server_runtime_config
        self._server_runtime_config = _changed(own, config, "server_runtime_config")

    def get_execute_strategy(self):
        """How trainers execute."""
        return self._execute_strategy

    def set_execute_strategy(self, config):
        """Changes how trainers execute."""
        self._execute_strategy = _changed(self._execute_strategy, config, "execute_strategy")

    def get_build_strategy(self):
        """How trainers' programs are compiled."""
        return self._build_strategy

    def set_build_strategy(self, config):
        """Changes how trainers' programs are compiled."""
        self._build_strategy = _changed(self._build_strategy, config, "build_strategy")

    def get_debug_opt(self):
        """The settings of the debug output of a training."""
        return dict(self.debug_opt or {})

    def set_debug_opt(self, opt_info):
        """Changes the settings of the debug output of a training; unknown ones are ignored."""
        given = opt_info if isinstance(opt_info, dict) else {}
        self.debug_opt = {name: given.get(name, usual) for name, usual in DEBUG.items()}


class SyncStrategy(DistributedStrategy):
    """All trainers step together."""

    _mode = DistributedMode.SYNC


class AsyncStrategy(DistributedStrategy):
    """No trainer waits for another."""

    _mode = DistributedMode.ASYNC


class HalfAsyncStrategy(DistributedStrategy):
    """The threads of a trainer step together."""

    _mode = DistributedMode.HALF_ASYNC


class GeoStrategy(DistributedStrategy):
    """Each trainer trains alone and exchanges differences every `update_frequency` batches."""

    _mode = DistributedMode.GEO


class SspStrategy(DistributedStrategy):
    """Trainers step together, but one may be `staleness` rounds ahead of the slowest."""

    _mode = DistributedMode.SSP

    def __init__(self, staleness=1):
        super().__init__(staleness)


class StrategyFactory:
    """Makes strategies."""

    @staticmethod
    def create_sync_strategy():
        """All trainers step together."""
        return SyncStrategy()

    @staticmethod
    def create_ssp_strategy(staleness=1):
        """Trainers step together, but one may be `staleness` rounds ahead of the slowest. Ours."""
        return SspStrategy(staleness)

    @staticmethod
    def create_half_async_strategy():
        """The threads of a trainer step together."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy():
        """No trainer waits for another."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency=100):
        """Each trainer trains alone and exchanges differences now and then."""
        return GeoStrategy(update_frequency)
