"""Splits a program between trainers and servers."""

from .._not_yet import not_yet_class, not_yet_function
from .ps_dispatcher import RoundRobin


class DistributedMode:
    """How trainers and servers keep step."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


class DistributeTranspilerConfig:
    """Wishes about the split."""

    slice_var_up = True
    split_method = RoundRobin
    min_block_size = 8192
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    runtime_split_send_recv = False
    sync_mode = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode = None


class ServerRuntimeConfig:
    """Wishes about a server."""

    def __init__(self):
        self._rpc_send_thread_num = 12
        self._rpc_get_thread_num = 12
        self._rpc_prefetch_thread_num = 12


DistributeTranspiler = not_yet_class(
    "DistributeTranspiler", doc="Splits a program between trainers and servers."
)
slice_variable = not_yet_function("slice_variable")
