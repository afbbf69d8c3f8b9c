"""Programs with wishes about how they are run."""

import enum
import os

from .. import _core
from .framework import Program, Variable, _cpu_num


class _Checked:
    """Settings by name; a name that is not there is an error."""

    _defaults = {}

    def __init__(self):
        self.__dict__.update(self._defaults)

    def __setattr__(self, name, value):
        if name not in self._defaults:
            raise AttributeError(
                "'{}' object has no attribute '{}'".format(type(self).__name__, name)
            )
        default = self._defaults[name]
        wanted = (bool, int) if isinstance(default, bool) else type(default)
        if default is not None and not isinstance(value, wanted):
            raise TypeError("{} cannot be {!r}".format(name, value))
        self.__dict__[name] = value


class BuildStrategy(_Checked):
    """How a program is prepared. Settings for other devices than a processor are accepted without effect."""

    class ReduceStrategy(enum.Enum):
        """Where parameters are updated: everywhere, or each in one place."""

        AllReduce = 0
        Reduce = 1

    class GradientScaleStrategy(enum.Enum):
        """The first gradient, that of the loss."""

        CoeffNumDevice = 0
        One = 1
        Customized = 2

    _defaults = {
        "async_mode": False,
        "cache_runtime_context": False,
        "debug_graphviz_path": "",
        "enable_auto_fusion": False,
        "enable_backward_optimizer_op_deps": True,
        "enable_inplace": True,
        "enable_sequential_execution": False,
        "fuse_all_optimizer_ops": False,
        "fuse_all_reduce_ops": True,
        "fuse_bn_act_ops": False,
        "fuse_broadcast_ops": True,
        "fuse_elewise_add_act_ops": False,
        "fuse_relu_depthwise_conv": False,
        "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "hierarchical_allreduce_inter_nranks": 0,
        "is_distribution": False,
        "memory_optimize": None,
        "mkldnn_enabled_op_types": None,
        "nccl_comm_num": 1,
        "num_trainers": 1,
        "reduce_strategy": ReduceStrategy.AllReduce,
        "remove_unnecessary_lock": True,
        "sync_batch_norm": False,
        "trainer_id": 0,
        "trainers_endpoints": None,
        "use_hierarchical_allreduce": False,
    }

    def __init__(self):
        super().__init__()
        self.trainers_endpoints = []
        self.mkldnn_enabled_op_types = set()


class ExecutionStrategy(_Checked):
    """How a program is run. Settings for other devices than a processor are accepted without effect."""

    ExecutorType = enum.Enum("ExecutorType", "Default Experimental")
    ExecutorType.__doc__ = "Names of Fluid's executors; there is one here."

    _defaults = {
        "_dry_run": False,
        "allow_op_delay": False,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "num_threads": 0,
        "use_cuda": True,
        "use_experimental_executor": True,
        "use_thread_barrier": False,
    }


class CompiledProgram:
    """A program to run with `Executor.run`, with wishes about how."""

    def __init__(self, program_or_graph, build_strategy=None):
        if not isinstance(program_or_graph, Program):
            raise TypeError(
                "The type of program_to_graph parameter is wrong, expected Graph or Program, "
                "but received %s" % type(program_or_graph)
            )
        self._program = program_or_graph
        self._build_strategy = build_strategy
        self._is_data_parallel = False
        self._parallel = None

    def with_data_parallel(
        self,
        loss_name=None,
        build_strategy=None,
        exec_strategy=None,
        share_vars_from=None,
        places=None,
    ):
        """The program for several places.

        Each place computes gradients on its part of a batch; they are added up in the order of
        the places and parameters change once. Without `places`, `CPU_NUM` says how many there
        are, or else the first list of feeds.
        """
        assert (
            not self._is_data_parallel
        ), "Already compiled with parallel, cannot be recompiled."
        if isinstance(loss_name, Variable):
            loss_name = loss_name.name
        if loss_name is None and self._program._has_backward():
            raise AssertionError(
                "The loss name of CompiledProgram is None. The loss name should be set if "
                "CompiledProgram contains backward part."
            )
        self._loss_name = loss_name
        self._build_strategy = build_strategy or self._build_strategy or BuildStrategy()
        self._exec_strategy = exec_strategy or ExecutionStrategy()
        self._share_vars_from = share_vars_from
        self._places = places
        self._is_data_parallel = True
        return self

    def _devices(self, n_feeds, scope):
        """The devices, made for the first run; None if there are no places to run on."""
        if not self._is_data_parallel:
            return None
        if self._parallel is None:
            self._parallel = self._compile(n_feeds, scope)
            self._scope = scope
        elif self._scope is not scope:
            raise ValueError("Cannot compile program with different scope.")
        return self._parallel

    def _compile(self, n_feeds, scope):
        scale = self._build_strategy.gradient_scale_strategy.name
        devices = _core.DataParallel(
            count_places(self._places, n_feeds),
            None if self._loss_name is None else scale,
            self._shared(),
            self._build_strategy.reduce_strategy == BuildStrategy.ReduceStrategy.Reduce,
            self._build_strategy.async_mode,
        )
        strategy = self._build_strategy
        devices.among_trainers(strategy.trainer_id, strategy.num_trainers)
        return devices

    def _shared(self):
        """The devices whose variables are used, if any."""
        other = self._share_vars_from
        if other is None:
            return None
        if not other._is_data_parallel:
            raise ValueError(
                "The shared Program is not data parallel, cannot share variables from it."
            )
        if other._parallel is None:
            raise ValueError(
                "The shared Program is not compiled and executed, so there is no variables to "
                "share."
            )
        return other._parallel

    def with_inference_optimize(self, config):
        """Programs are always optimised; a configuration is accepted without effect."""
        return self


def count_places(places, n_feeds):
    """How many places are meant."""
    if places is not None:
        count = len(places) if isinstance(places, (list, tuple)) else 1
    elif "CPU_NUM" not in os.environ and n_feeds is not None:
        count = n_feeds
    else:
        count = _cpu_num()
    if count < 1:
        raise ValueError("there must be a place to run on, got {} (CPU_NUM)".format(count))
    return count
