"""Tables that servers keep, for a program on one machine."""

from ..._not_yet import not_yet_function

WHY = (
    "a table spread over servers is saved by fleet.save_persistables and read by fleet.init_server; "
    "for inference fleet.save_inference_model leaves a model that is whole"
)

convert_dist_to_sparse_program = not_yet_function(
    "fluid.contrib.utils.convert_dist_to_sparse_program", WHY
)
load_persistables_for_increment = not_yet_function(
    "fluid.contrib.utils.load_persistables_for_increment", WHY
)
load_persistables_for_inference = not_yet_function(
    "fluid.contrib.utils.load_persistables_for_inference", WHY
)
get_inference_model = not_yet_function("fluid.contrib.utils.get_inference_model", WHY)
