"""Whatever a layer is given, a user never sees a panic: it works, or it says what is wrong."""

import inspect

import numpy as np
import pytest

import paddlewheel.fluid as fluid
from paddlewheel import _core

# Programs without operators are nonsense, too.
pytestmark = pytest.mark.filterwarnings("ignore:There are no operators")

LAYERS = {
    name: getattr(fluid.layers, name)
    for name in sorted(dir(fluid.layers))
    if not name.startswith("_") and callable(getattr(fluid.layers, name))
}
#: Made by the program only, never by a call.
NOT_CALLED = {"Variable", "BlockGuard"}


def variables():
    """Variables of all sorts: ranks 0 to 5, known and open sizes, sequences, several types."""
    data = fluid.data
    zero = fluid.layers.create_tensor("float32")
    return {
        "float": data("a_float", [-1, 4]),
        "image": data("an_image", [-1, 3, 8, 8]),
        "whole": data("a_whole", [-1, 1], "int64"),
        "flat": data("a_flat", [-1], "int32"),
        "deep": data("a_deep", [2, 3, 4, 5, 6]),
        "empty": data("an_empty", [0, 4]),
        "open": data("an_open", [-1, -1]),
        "sequence": data("a_sequence", [-1, 4], lod_level=1),
        "truth": data("a_truth", [1], "bool"),
        "double": data("a_double", [-1, 4], "float64"),
        "nothing": zero,
    }


def fed(rows):
    """Numbers for these variables, so many rows where it is open."""
    def numbers(name, shape, dtype="float32"):
        shape = [rows if size < 0 else size for size in shape]
        return name, (np.arange(np.prod(shape)).reshape(shape) % 3).astype(dtype)

    arrays = dict([
        numbers("a_float", [-1, 4]), numbers("an_image", [-1, 3, 8, 8]),
        numbers("a_whole", [-1, 1], "int64"), numbers("a_flat", [-1], "int32"),
        numbers("a_deep", [2, 3, 4, 5, 6]), numbers("an_empty", [0, 4]),
        numbers("an_open", [-1, 3]), numbers("a_truth", [1], "bool"),
        numbers("a_double", [-1, 4], "float64"),
    ])
    lengths = [[rows]] if rows else [[0]]
    arrays["a_sequence"] = fluid.create_lod_tensor(arrays["a_float"], lengths, fluid.CPUPlace())
    return arrays


def run(made):
    """Runs what a layer built, on a batch and on an empty one."""
    executor = fluid.Executor()
    first = made[0] if isinstance(made, (list, tuple)) and made else made
    fetch = [first] if isinstance(first, fluid.framework.Variable) else []
    for rows in (3, 1, 0):
        call(executor.run, {"program": fluid.default_startup_program()})
        arguments = {"feed": fed(rows), "fetch_list": fetch, "return_numpy": False}
        call(executor.run, arguments)


def nonsense():
    """Wrong values that a user may give a parameter."""
    made = variables()
    plain = [
        None, [], (), "", "x", 0, 1, -1, 2, 3, 10**12, -(10**12), 0.5, float("nan"), float("inf"),
        True, [0], [-1], [1, 2], [[]], [None], ["x"], [10**12], {}, object(), len, b"x",
        np.array([1, 2]), np.float32(1), np.zeros((0,)), np.zeros((0, 3)), lambda *a: None,
    ]
    of_vars = list(made.values()) + [[var] for var in made.values()]
    of_vars += [[made["float"], made["image"]], [made["float"], made["whole"]], [made["float"]] * 2]
    return made, plain + of_vars


def call(layer, arguments):
    """Calls a layer; an error of any sort is fine as long as it is not a panic."""
    try:
        made = layer(**arguments)
    except Exception as error:
        text = str(error)
        assert "panicked" not in text and "PanicException" not in text, text
        return None
    except BaseException as error:  # A panic is not an Exception.
        said = {name: describe(value) for name, value in arguments.items()}
        pytest.fail("{} in {}({})".format(error, getattr(layer, "__name__", layer), said))
    return made


def describe(value):
    return value.name if isinstance(value, fluid.framework.Variable) else repr(value)


def parameters(layer):
    try:
        signature = inspect.signature(layer)
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p for p in signature.parameters.values() if p.kind not in kinds}


@pytest.mark.parametrize("name", sorted(set(LAYERS) - NOT_CALLED))
def test_nonsense_is_never_a_panic(name):
    layer = LAYERS[name]
    wanted = parameters(layer)
    assert wanted is not None, name
    made, values = nonsense()
    required = [p.name for p in wanted.values() if p.default is p.empty]
    # All required arguments the same nonsense; then one of them, the others plausible.
    for value in values:
        call(layer, dict.fromkeys(required, value))
    for base in ("float", "image", "whole", "sequence"):
        plausible = {parameter: made[base] for parameter in required}
        for parameter in required:
            if parameter in NUMBERS:
                plausible[parameter] = NUMBERS[parameter]
        call(layer, plausible)
        for parameter in wanted:
            for value in values:
                call(layer, dict(plausible, **{parameter: value}))



@pytest.mark.parametrize("base", ["float", "image", "whole", "flat", "sequence", "empty", "deep"])
@pytest.mark.parametrize("name", sorted(set(LAYERS) - NOT_CALLED - {"While"}))
def test_what_was_built_runs_or_says_why_not(name, base):
    layer, made = LAYERS[name], variables()
    required = [p.name for p in parameters(layer).values() if p.default is p.empty]
    built = call(layer, {p: NUMBERS.get(p, made[base]) for p in required})
    if built is not None:
        run(built)


@pytest.mark.parametrize("op", sorted(_core.op_types()))
def test_an_operator_without_its_inputs_says_so(op):
    """Descriptions that a file or `append_op` may bring, however empty."""
    for ports in ({}, {"X": []}, {"X": ["a_float"]}, {"X": ["a_float"], "Y": ["a_whole"]}):
        for outputs in ({}, {"Out": ["made"]}):
            program = fluid.Program()
            with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
                variables()
                block = program.global_block()
                block.create_var(name="made", dtype="float32", shape=[1])
                arguments = {"type": op, "inputs": ports, "outputs": outputs}
                if op not in SERVING and call(block.append_op, arguments) is not None:
                    call(fluid.Executor().run, {"program": program, "feed": fed(2)})


#: The value of a required argument of this name when nothing else is wrong.
NUMBERS = {
    "act": "relu",
    "array": None,
    "axes": [0],
    "axis": 0,
    "dim": 0,
    "dtype": "float32",
    "depth": 4,
    "ends": [1],
    "expand_times": [1, 2],
    "factor": 2.0,
    "filter_size": 3,
    "k": 1,
    "max": 1.0,
    "max_norm": 1.0,
    "maxlen": 4,
    "min": 0.0,
    "num": 2,
    "num_chunk_types": 2,
    "num_classes": 4,
    "num_filters": 2,
    "num_or_sections": 2,
    "paddings": [0, 1, 0, 1],
    "perm": [1, 0],
    "pool_type": "max",
    "shape": [2, 2],
    "size": 4,
    "starts": [0],
    "value": 1.0,
}

#: Operators that wait for others, which do not come here.
SERVING = {"listen_and_serv"}
