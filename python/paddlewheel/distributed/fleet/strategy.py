"""How a script of version 2 says how trainers and servers keep step."""

import sys

from ...fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory

_said = set()


def say_once(text):
    """Prints a line about something that changes nothing here."""
    if text not in _said:
        _said.add(text)
        print("paddlewheel: " + text, file=sys.stderr)


#: Settings of `a_sync_configs` with their defaults; a `None` has no meaning here.
A_SYNC = {
    "k_steps": -1, "max_merge_var_num": None, "send_queue_size": None, "independent_recv_thread": None,
    "min_send_grad_num_before_recv": None, "thread_pool_size": None, "send_wait_times": None,
    "runtime_split_send_recv": None, "launch_barrier": None, "heter_worker_device_guard": "cpu", "lr_decay_steps": None,
    "use_ps_gpu": 0, "use_gpu_graph": 0,
}
NO_CARDS = "there are no graphics cards here: leave {} out, and trainers and servers run on processors"
#: Settings of version 2 that scripts may make and that change nothing here, and why.
WITHOUT_EFFECT = {
    "adam_d2sum": "servers apply Adam as the program says",
    "trainer_desc_configs": "nothing is dumped",
    "fs_client_param": "paddlewheel reads stores by their addresses (docs/guides/sources.md)",
    "execution_strategy": "threads are chosen by the dataset and by CPU_NUM",
    "build_strategy": "programs are run as they are",
}
#: Settings of tables that have no meaning here; those that have one are in `_accessor`.
TABLE = "sparse_table_configs: the optimizer of the program updates rows; what tables may choose is which rows they take in (entry=...)"


class DistributedStrategy:
    """`a_sync` False: all trainers step together. True: nobody waits; with `k_steps` above 0, GEO."""

    def __init__(self):
        self.__dict__["_set"] = {"a_sync": False}
        self.__dict__["_a_sync_configs"] = {name: value for name, value in A_SYNC.items() if value is not None}

    @property
    def a_sync(self):
        """Whether trainers go ahead without waiting for others."""
        return self._set["a_sync"]

    @a_sync.setter
    def a_sync(self, flag):
        if not isinstance(flag, bool):
            raise ValueError("The type of `flag` is invalid, expected type is bool, but received {}".format(type(flag)))
        self._set["a_sync"] = flag
        self._a_sync_configs["k_steps"] = 0 if flag else -1

    @property
    def a_sync_configs(self):
        """`k_steps`: batches between exchanges in GEO, 0 for none."""
        return dict(self._a_sync_configs)

    @a_sync_configs.setter
    def a_sync_configs(self, configs):
        for name, value in configs.items():
            if name not in A_SYNC:
                raise ValueError("a_sync_configs has no {}; it has {}".format(name, ", ".join(A_SYNC)))
            if name == "heter_worker_device_guard" and value not in ("cpu", ""):
                raise NotImplementedError(NO_CARDS.format(name))
            if name in ("use_ps_gpu", "use_gpu_graph") and value:
                raise NotImplementedError(NO_CARDS.format(name))
            if A_SYNC[name] is None:
                say_once("a_sync_configs[{!r}] changes nothing: trainers choose it themselves".format(name))
            else:
                self._a_sync_configs[name] = value

    @property
    def sparse_table_configs(self):
        """What a script says of tables."""
        return self._set.get("sparse_table_configs", {})

    @sparse_table_configs.setter
    def sparse_table_configs(self, configs):
        if configs:
            say_once(TABLE)
        self._set["sparse_table_configs"] = configs

    @property
    def is_with_coordinator(self):
        """Whether a coordinator of federated learning takes part: never."""
        return False

    @is_with_coordinator.setter
    def is_with_coordinator(self, flag):
        if flag:
            raise NotImplementedError("there is no coordinator of federated learning here")

    def __setattr__(self, name, value):
        if isinstance(getattr(type(self), name, None), property):
            return object.__setattr__(self, name, value)
        if name not in WITHOUT_EFFECT:
            if value:
                raise NotImplementedError(
                    "DistributedStrategy.{} is not supported: a_sync, a_sync_configs and sparse_table_configs are".format(name)
                )
            return None
        usual = not value or (isinstance(value, dict) and not any(value.values()))
        if not usual and name != "adam_d2sum":
            say_once("DistributedStrategy.{} changes nothing: {}".format(name, WITHOUT_EFFECT[name]))
        self._set[name] = value

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.__dict__["_set"].get(name)

    def _meant(self):
        """The strategy that fleets of version 1 have."""
        k_steps = int(self._a_sync_configs["k_steps"])
        if not self.a_sync:
            return StrategyFactory.create_sync_strategy()
        if k_steps > 0:
            return StrategyFactory.create_geo_strategy(k_steps)
        return StrategyFactory.create_async_strategy()
