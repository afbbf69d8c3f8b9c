"""Names that can be imported and not used: each says why, and what to use instead."""

from ._not_yet import not_yet_class

PASSES = "Executor.train_from_dataset makes its threads by itself"
GEO = "DistributeTranspiler with config.geo_sgd_mode = True does it"

#: Modules with their names, and why these are refused.
TABLE = {
    "trainer_desc": ("DistMultiTrainer MultiTrainer PipelineTrainer TrainerDesc", PASSES),
    "device_worker": (
        "DeviceWorker DeviceWorkerFactory DownpourSGD DownpourSGDOPT Hogwild Section",
        PASSES,
    ),
    "trainer_factory": ("FetchHandlerMonitor TrainerFactory", PASSES),
    "transpiler.geo_sgd_transpiler": ("GeoSgdTranspiler", GEO),
}
MODULES = {module: names for module, (names, _) in TABLE.items()}

for _module, (_names, _why) in TABLE.items():
    for _name in _names.split():
        globals()[_name] = not_yet_class("fluid.{}.{}".format(_module, _name), _why)
