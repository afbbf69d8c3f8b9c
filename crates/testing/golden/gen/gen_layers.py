"""Layers without parameters, called from Python: every result, and the gradients of `sum(first result)` by inputs of fractions.

    python gen_layers.py ..

The test (python/tests/test_layers_golden.py) runs the same CASES on our package.
"""
import sys

import numpy as np

X = np.array([[0.5, -1.5, 2.0, 0.25, 3.0], [1.0, 0.0, -2.0, 1.5, -0.5], [0.1, 0.2, 0.3, 0.4, 0.5]], "f4")
IDS = np.array([2, 3, 3, 1, 5, 3, 2], "i8")

# name: (inputs by name, each an array or (array, lengths of sequences); the layer of (layers, variables))
CASES = {
    "erf": ({"x": X}, lambda L, v: L.erf(v["x"])),
    "eye": ({}, lambda L, v: L.eye(3)),
    "eye_wide": ({}, lambda L, v: L.eye(3, num_columns=4, dtype="int32")),
    "eye_batch": ({}, lambda L, v: L.eye(2, 3, [2, 1])),
    "linspace": ({}, lambda L, v: L.linspace(0, 10, 5, "float32")),
    "linspace_double": ({}, lambda L, v: L.linspace(1.0, -1.0, 4, "float64")),
    "range": ({}, lambda L, v: L.range(0, 10, 3, "int64")),
    "scatter_nd_add": (
        {"x": X, "i": np.array([[1, 1], [0, 1], [1, 1], [2, 4]], "i8"), "u": np.array([1.0, 2.0, 4.0, 8.0], "f4")},
        lambda L, v: L.scatter_nd_add(v["x"], v["i"], v["u"]),
    ),
    "scatter_nd": (
        {"i": np.array([[1], [0], [1]], "i4"), "u": X},
        lambda L, v: L.scatter_nd(v["i"], v["u"], [4, 5]),
    ),
    "sequence_scatter": (
        {
            "x": X,
            "i": (np.array([[0], [4], [1], [1], [3]], "i8"), [2, 1, 2]),
            "u": (np.array([[0.5], [1.0], [2.0], [4.0], [8.0]], "f4"), [2, 1, 2]),
        },
        lambda L, v: L.sequence_scatter(v["x"], v["i"], v["u"]),
    ),
    "shard_index": ({"i": np.array([[1], [6], [12], [19]], "i8")}, lambda L, v: L.shard_index(v["i"], 20, 2, 1)),
    "shard_index_ignored": (
        {"i": np.array([[1], [6], [12], [19]], "i8")},
        lambda L, v: L.shard_index(v["i"], 20, 2, 0, ignore_value=-7),
    ),
    "unique": ({"i": IDS}, lambda L, v: L.unique(v["i"])),
    "unique_long": ({"x": X.reshape(-1)[:6]}, lambda L, v: L.unique(v["x"], dtype="int64")),
}


def run(fluid, name):
    """The results of a case, and the gradients by input."""
    inputs, layer = CASES[name]
    main, startup = fluid.Program(), fluid.Program()
    feed, variables, trained = {}, {}, []
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        for key, given in inputs.items():
            array, lengths = given if isinstance(given, tuple) else (given, None)
            shape = array.shape if lengths is None else (-1,) + array.shape[1:]
            variables[key] = fluid.data(key, shape, str(array.dtype), 0 if lengths is None else 1)
            variables[key].stop_gradient = array.dtype.kind != "f"
            feed[key] = array if lengths is None else fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())
            trained += [key] if array.dtype.kind == "f" and not name.startswith("unique") else []
        made = layer(fluid.layers, variables)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        grads = fluid.gradients(fluid.layers.reduce_sum(made[0]), [variables[key] for key in trained]) if trained else []
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        got = [np.array(value) for value in executor.run(main, feed=feed, fetch_list=made + grads, return_numpy=False)]
    arrays = {"%s/out/%d" % (name, at): value for at, value in enumerate(got[: len(made)])}
    arrays.update({"%s/grad/%s" % (name, key): value for key, value in zip(trained, got[len(made) :])})
    return arrays


if __name__ == "__main__":
    import paddle.fluid

    from common import save_npz

    arrays = {}
    for case in sorted(CASES):
        arrays.update(run(paddle.fluid, case))
    save_npz(sys.argv[1], "layers.npz", **arrays)
    print("layers", len(arrays))
