"""The older way to run a program in several places."""

from .compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from .executor import Executor, global_scope
from .framework import default_main_program


class ParallelExecutor:
    """Runs one program; see `CompiledProgram.with_data_parallel`."""

    def __init__(
        self,
        use_cuda=None,
        loss_name=None,
        main_program=None,
        share_vars_from=None,
        exec_strategy=None,
        build_strategy=None,
        num_trainers=1,
        trainer_id=0,
        scope=None,
    ):
        program = default_main_program() if main_program is None else main_program
        build_strategy = BuildStrategy() if build_strategy is None else build_strategy
        if num_trainers > 1:
            build_strategy.num_trainers = num_trainers
            build_strategy.trainer_id = trainer_id
        if share_vars_from is not None:
            assert isinstance(
                share_vars_from, ParallelExecutor
            ), "The share_vars_from should be ParallelExecutor."
            share_vars_from._devices(None)
        self._compiled = CompiledProgram(program).with_data_parallel(
            loss_name=loss_name,
            build_strategy=build_strategy,
            exec_strategy=exec_strategy,
            share_vars_from=None if share_vars_from is None else share_vars_from._compiled,
        )
        self._scope = global_scope() if scope is None else scope
        self._executor = Executor()

    def run(self, fetch_list=None, feed=None, feed_dict=None, return_numpy=True):
        """Runs the program once; `feed` is a dict, or a list with one for each place."""
        return self._executor.run(
            self._compiled,
            feed=feed_dict if feed is None else feed,
            fetch_list=fetch_list,
            scope=self._scope,
            return_numpy=return_numpy,
        )

    def _devices(self, n_feeds):
        return self._compiled._devices(n_feeds, self._scope)

    @property
    def device_count(self):
        """How many places there are."""
        return self._devices(None).n_places

    def drop_local_exe_scopes(self):
        """Nothing of a run is kept that could be dropped."""
