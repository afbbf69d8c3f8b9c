"""Every name that scripts import is there."""

import importlib

import pytest

NAMES = {
    "": "batch reader dataset fluid distributed v2 __version__ enable_static",
    "v2": "batch reader dataset",
    "reader": "shuffle map_readers buffered compose chain firstn cache xmap_readers "
    "multiprocess_reader PipeReader Fake ComposeNotAligned",
    "dataset": "common uci_housing mnist movielens imikolov imdb cifar conll05 wmt14 wmt16 "
    "flowers sentiment mq2007",
    "fluid": "Program default_main_program default_startup_program program_guard name_scope "
    "Variable cpu_places cuda_places in_dygraph_mode is_compiled_with_cuda Executor global_scope "
    "scope_guard Scope LoDTensor LoDTensorArray Tensor CPUPlace CUDAPlace CUDAPinnedPlace "
    "ParamAttr WeightNormParamAttr DataFeeder DataFeedDesc DatasetFactory InMemoryDataset "
    "QueueDataset DistributeTranspiler DistributeTranspilerConfig memory_optimize release_memory "
    "ParallelExecutor ExecutionStrategy BuildStrategy CompiledProgram create_lod_tensor "
    "create_random_int_lodtensor gradients embedding one_hot data save load load_program_state "
    "set_program_state Trainer CheckpointConfig BeginEpochEvent EndEpochEvent BeginStepEvent "
    "EndStepEvent Inferencer AsyncExecutor device_guard require_version set_flags get_flags "
    "layers initializer optimizer regularizer clip io metrics evaluator nets backward unique_name "
    "framework executor compiler parallel_executor transpiler incubate contrib profiler average "
    "data_feeder param_attr lod_tensor core reader dataset communicator distribute_lookup_table "
    "install_check recordio_writer",
    "fluid.core": "Scope LoDTensor CPUPlace VarDesc EOFException EnforceNotMet "
    "is_compiled_with_cuda get_cuda_device_count op_proto_and_checker_maker",
    "fluid.framework": "Parameter Variable Program Operator Block switch_main_program",
    "fluid.io": "PyReader DataLoader save_vars save_params save_persistables load_vars "
    "load_params load_persistables save_inference_model load_inference_model "
    "get_parameter_value get_parameter_value_by_name batch shuffle",
    "fluid.layers": "data fc mean py_reader create_py_reader_by_data read_file double_buffer",
    "fluid.transpiler.distribute_transpiler": "DistributeTranspiler DistributeTranspilerConfig "
    "ServerRuntimeConfig DistributedMode slice_variable",
    "fluid.transpiler.ps_dispatcher": "PSDispatcher RoundRobin HashName",
    "fluid.transpiler": "RoundRobin HashName",
    "fluid.incubate.fleet.base.role_maker": "Role RoleMakerBase PaddleCloudRoleMaker "
    "UserDefinedRoleMaker UserDefinedCollectiveRoleMaker MPISymetricRoleMaker GeneralRoleMaker",
    "fluid.incubate.fleet.base.fleet_base": "Fleet DistributedOptimizer Mode",
    "fluid.incubate.fleet.parameter_server.distribute_transpiler": "fleet TranspilerOptimizer "
    "DistributeTranspilerConfig StrategyFactory SyncStrategy AsyncStrategy HalfAsyncStrategy "
    "GeoStrategy TrainerRuntimeConfig DistributedStrategy",
    "fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy": ""
    "StrategyFactory SyncStrategy AsyncStrategy HalfAsyncStrategy GeoStrategy",
    "fluid.incubate.fleet.collective": "fleet CollectiveOptimizer DistributedStrategy TrainStatus",
    "fluid.incubate.data_generator": "DataGenerator MultiSlotDataGenerator "
    "MultiSlotStringDataGenerator",
    "fluid.contrib.trainer": "Trainer CheckpointConfig BeginEpochEvent EndStepEvent "
    "save_checkpoint load_checkpoint clean_checkpoint",
    "fluid.contrib.layers": "shuffle_batch tdm_child tdm_sampler ctr_metric_bundle sparse_embedding",
    "fluid.entry_attr": "CountFilterEntry ProbabilityEntry",
    "distributed": "CountFilterEntry ProbabilityEntry",
    "distributed.fleet": "init is_worker is_server DistributedStrategy distributed_optimizer",
    "distributed.fleet.base.role_maker": "PaddleCloudRoleMaker",
    "distributed.launch": "launch",
    "distributed.launch_ps": "launch",
}


@pytest.mark.parametrize("module", NAMES)
def test_names(module):
    found = importlib.import_module(("paddlewheel." + module).rstrip("."))
    missing = [name for name in NAMES[module].split() if not hasattr(found, name)]
    assert not missing


def test_what_is_not_there_says_so():
    import paddlewheel.fluid as fluid
    from paddlewheel.fluid.incubate.fleet.parameter_server.pslib import fleet

    with pytest.raises(NotImplementedError, match="not yet"):
        fleet.init(None)
    with pytest.raises(ValueError, match="datafeed class Other does not exist"):
        fluid.DatasetFactory().create_dataset("Other")
