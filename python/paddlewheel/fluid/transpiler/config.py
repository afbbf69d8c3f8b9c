"""Wishes about how a program is distributed."""

from ... import _core
from .ps_dispatcher import PSDispatcher, RoundRobin

BEFORE_SPLIT = (
    "if you want to set runtime_split_send_recv to be true, make ensure config.sync_mode is false "
    "at first"
)
BEFORE_SYNC = (
    "if you want to set sync_mode to be true, make ensure config.runtime_split_send_recv is false "
    "at first"
)


class DistributeTranspilerConfig:
    """Wishes about the split.

    `fluid_block_init` is ours: with it every block of a variable starts its random numbers anew, as
    in Fluid; without it blocks hold what the whole variable would, however many servers there are.

    `staleness` is ours: trainers that wait for each other may be so many rounds ahead of the slowest.
    """

    slice_var_up = True
    split_method = None
    min_block_size = 8192
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    hierarchical_allreduce_exter_nranks = 0
    collective_mode = None
    fluid_block_init = False
    staleness = 0
    _runtime_split_send_recv = False
    _sync_mode = True

    @property
    def runtime_split_send_recv(self):
        """Gradients pass through queues in the background."""
        return self._runtime_split_send_recv

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value):
        if value is None:
            raise ValueError("runtime_split_send_recv can't be None")
        if value and self._sync_mode:
            raise ValueError(BEFORE_SPLIT)
        self._runtime_split_send_recv = bool(value)

    @property
    def sync_mode(self):
        """Trainers wait for each other."""
        return self._sync_mode

    @sync_mode.setter
    def sync_mode(self, value):
        if value is None:
            raise ValueError("sync_mode can't be None")
        if value and self._runtime_split_send_recv:
            raise ValueError(BEFORE_SYNC)
        self._sync_mode = bool(value)


#: The fields of a configuration that the core reads.
FIELDS = (
    "slice_var_up min_block_size enable_dc_asgd runtime_split_send_recv sync_mode half_async "
    "completely_not_async geo_sgd_mode geo_sgd_need_push_nums staleness"
).split()


def checked(config):
    """A configuration that makes sense."""
    config = config or DistributeTranspilerConfig()
    method = config.split_method or RoundRobin
    assert config.min_block_size >= 8192, "min_block_size must be 8192 or more"
    assert isinstance(method, type) and PSDispatcher in method.__bases__, (
        "split_method must be a class derived directly from PSDispatcher"
    )
    return config


class ServerRuntimeConfig:
    """Settings of a server; flags give the others.

    `tolerate_lost_trainers` is ours: a job that steps together continues without trainers that died,
    instead of failing.
    """

    def __init__(self):
        send, get, prefetch, self.tolerate_lost_trainers = _core.fleet.server_settings()
        self._rpc_send_thread_num = send
        self._rpc_get_thread_num = get
        self._rpc_prefetch_thread_num = prefetch
