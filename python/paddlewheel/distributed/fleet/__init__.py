"""The fleet of version 2: the same trainers and servers under shorter names."""

from ...fluid._not_yet import not_yet_class, not_yet_function
from .base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker

DistributedStrategy = not_yet_class("DistributedStrategy")
init = not_yet_function("fleet.init")
is_first_worker = not_yet_function("fleet.is_first_worker")
worker_index = not_yet_function("fleet.worker_index")
worker_num = not_yet_function("fleet.worker_num")
is_worker = not_yet_function("fleet.is_worker")
is_server = not_yet_function("fleet.is_server")
init_worker = not_yet_function("fleet.init_worker")
init_server = not_yet_function("fleet.init_server")
run_server = not_yet_function("fleet.run_server")
stop_worker = not_yet_function("fleet.stop_worker")
distributed_optimizer = not_yet_function("fleet.distributed_optimizer")
save_persistables = not_yet_function("fleet.save_persistables")
save_inference_model = not_yet_function("fleet.save_inference_model")
