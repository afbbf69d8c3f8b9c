"""Layers of ranking, matching and decoding models, called from Python: every result, and the gradients of `sum(first result)` by inputs
of fractions and by parameters.

    python gen_ranking.py ..

The test (python/tests/test_ranking_golden.py) runs the same CASES on our package.
"""
import sys

import numpy as np


def some(*shape):
    """Numbers without a pattern."""
    n = int(np.prod(shape))
    return (((np.arange(n) * 7 + 3) % 11) / 4.0 - 1.0).astype("f4").reshape(shape)


def ids(*rows):
    return np.array(rows, "i8")


def weights(fluid, *shape):
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(some(*shape)))


def hashed(fluid, x):
    """The operator itself: the layer of Fluid 1.8.5 refuses every size."""
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="hashed", dtype="int64", stop_gradient=True)
    block.append_op(type="hash", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"num_hash": 3, "mod_by": 1000})
    return out


def search(fluid, v):
    scores = fluid.layers.lod_reset(v["s"], target_lod=[0, 2, 4])
    return fluid.layers.beam_search(v["p"], v["q"], v["i"], scores, 2, 0, return_parent_idx=True)


X = some(4, 3)
LABELS = ids([1], [0], [4], [2])
TAGS = np.array([[0], [1], [4], [2], [0], [0]], "i8")
TRUE_TAGS = np.array([[0], [1], [4], [0], [0], [0]], "i8")
PATHS = {"x": X, "l": LABELS, "t": ids([0, 2, -1], [0, 1, 4], [3, -1, -1], [1, 2, 3]), "c": ids([0, 1, -1], [1, 0, 0], [1, -1, -1], [0, 0, 1])}
IMAGES = {
    "x": (some(16, 1), [12, 4]),
    "r": (some(3, 1), [2, 1]),
    "c": (some(5, 1), [3, 2]),
}

# name: (inputs by name, each an array or (array, lengths of sequences); the layer of (fluid, variables))
CASES = {
    "nce_uniform": (
        {"x": X, "l": LABELS},
        lambda F, v: F.layers.nce(v["x"], v["l"], 5, num_neg_samples=3, seed=5, param_attr=weights(F, 5, 3), bias_attr=weights(F, 5, 1)),
    ),
    "nce_log_uniform": (
        {"x": X, "l": LABELS, "w": some(4, 1)},
        lambda F, v: F.layers.nce(
            v["x"], v["l"], 5, sample_weight=v["w"], num_neg_samples=3, sampler="log_uniform", seed=7, param_attr=weights(F, 5, 3)
        ),
    ),
    "nce_custom": (
        {"x": X, "l": LABELS},
        lambda F, v: F.layers.nce(
            v["x"], v["l"], 5, num_neg_samples=3, sampler="custom_dist", custom_dist=[0.1, 0.3, 0.1, 0.2, 0.3], seed=9,
            param_attr=weights(F, 5, 3), bias_attr=False,
        ),
    ),
    "hsigmoid": (
        {"x": X, "l": LABELS},
        lambda F, v: F.layers.hsigmoid(v["x"], v["l"], 6, param_attr=weights(F, 5, 3), bias_attr=weights(F, 5, 1)),
    ),
    "hsigmoid_custom": (
        PATHS,
        lambda F, v: F.layers.hsigmoid(
            v["x"], v["l"], 5, path_table=v["t"], path_code=v["c"], is_custom=True, param_attr=weights(F, 5, 3), bias_attr=False
        ),
    ),
    "sampled_softmax": (
        {"x": some(4, 6), "l": LABELS},
        lambda F, v: F.layers.sampled_softmax_with_cross_entropy(v["x"], v["l"], 3, seed=3),
    ),
    "hash": ({"x": (ids([1, 2], [3, 4], [5, -6]), [1, 2])}, lambda F, v: hashed(F, v["x"])),
    "sampling_id": ({"x": np.tile(np.array([[0.2, 0.3, 0.5]], "f4"), (6, 1))}, lambda F, v: F.layers.sampling_id(v["x"], seed=7)),
    "filter_by_instag": (
        {"x": X, "t": (ids([0], [1], [1], [2], [0]), [2, 1, 1, 1]), "f": np.array([1], "i8")},
        lambda F, v: F.layers.filter_by_instag(v["x"], v["t"], v["f"], False),
    ),
    "teacher_student": (
        {"x": some(6, 1), "l": np.array([[-2.0], [-1.0], [0.25], [1.5], [0.0], [1.0]], "f4")},
        lambda F, v: F.layers.teacher_student_sigmoid_loss(v["x"], v["l"]),
    ),
    "npair_loss": ({"x": X, "y": some(4, 3)[::-1].copy(), "l": np.array([1, 0, 1, 2], "f4")}, lambda F, v: F.layers.npair_loss(v["x"], v["y"], v["l"])),
    "center_loss": ({"x": X, "l": LABELS}, lambda F, v: F.layers.center_loss(v["x"], v["l"], 5, 0.1, weights(F, 5, 3))),
    "dice_loss": ({"x": np.abs(X) / 4, "l": ids([1], [0], [2], [2])}, lambda F, v: F.layers.dice_loss(v["x"], v["l"])),
    "bilinear": (
        {"x": X, "y": some(4, 2)},
        lambda F, v: F.layers.bilinear_tensor_product(v["x"], v["y"], 2, act="tanh", param_attr=weights(F, 2, 3, 2), bias_attr=weights(F, 1, 2)),
    ),
    "edit_distance": (
        {"x": (ids([1], [2], [3], [4], [5]), [3, 2]), "y": (ids([1], [3], [3], [4], [6], [5]), [4, 2])},
        lambda F, v: F.layers.edit_distance(v["x"], v["y"], ignored_tokens=[4]),
    ),
    "warpctc": (
        {"x": (some(7, 3), [4, 3]), "l": (np.array([[1], [2], [1]], "i4"), [2, 1])},
        lambda F, v: F.layers.warpctc(v["x"], v["l"], norm_by_times=True),
    ),
    "warpctc_padded": (
        {"x": some(4, 2, 3), "l": np.array([[1, 1], [2, 0]], "i4"), "m": np.array([4, 3], "i8"), "n": np.array([2, 1], "i8")},
        lambda F, v: F.layers.warpctc(v["x"], v["l"], input_length=v["m"], label_length=v["n"]),
    ),
    "ctc_greedy_decoder": ({"x": (some(7, 3), [4, 3])}, lambda F, v: F.layers.ctc_greedy_decoder(v["x"], 0)),
    "chunk_eval": ({"x": (TAGS, [4, 2]), "y": (TRUE_TAGS, [4, 2])}, lambda F, v: F.layers.chunk_eval(v["x"], v["y"], "IOB", 2)),
    "row_conv": ({"x": (some(5, 2), [2, 3])}, lambda F, v: F.layers.row_conv(v["x"], 1, param_attr=weights(F, 2, 2))),
    "im2sequence": ({"x": some(1, 2, 3, 3)}, lambda F, v: F.layers.im2sequence(v["x"], [2, 2], stride=[2, 1], padding=[1, 0, 0, 1])),
    "add_position_encoding": ({"x": some(2, 2, 4)}, lambda F, v: F.layers.add_position_encoding(v["x"], 0.5, 2.0)),
    "similarity_focus": ({"x": np.linspace(0, 1, 24, dtype="f4")[[(i * 7) % 24 for i in range(24)]].reshape(1, 2, 3, 4)}, lambda F, v: F.layers.similarity_focus(v["x"], 1, [0])),
    "gather_tree": (
        {"i": ids([[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]), "p": ids([[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]])},
        lambda F, v: F.layers.gather_tree(v["i"], v["p"]),
    ),
    "beam_search": (
        {
            "p": np.array([[1], [2], [3], [0]], "i8"),
            "q": np.array([[0.1], [0.2], [0.3], [0.4]], "f4"),
            "i": ids([4, 2], [5, 2], [1, 3], [5, 3]),
            "s": np.array([[0.5, 0.3], [0.9, 0.5], [0.5, 0.2], [0.8, 0.1]], "f4"),
        },
        search,
    ),
    "dynamic_lstmp": (
        {"x": (some(5, 8), [2, 3])},
        lambda F, v: F.layers.dynamic_lstmp(v["x"], 8, 3, param_attr=F.ParamAttr(initializer=F.initializer.Constant(0.25)), bias_attr=weights(F, 1, 14), proj_clip=0.5),
    ),
    "fsp_matrix": ({"x": some(2, 3, 2, 2), "y": some(2, 2, 2, 2)}, lambda F, v: F.layers.fsp_matrix(v["x"], v["y"])),
    "shuffle_channel": ({"x": some(1, 4, 2, 1)}, lambda F, v: F.layers.shuffle_channel(v["x"], 2)),
    "mean_iou": ({"x": np.array([0, 1, 1, 2], "i4"), "l": np.array([0, 1, 2, 2], "i4")}, lambda F, v: F.layers.mean_iou(v["x"], v["l"], 4)),
    "fused_elemwise_activation": (
        {"x": some(2, 3), "y": some(3)},
        lambda F, v: F.contrib.layers.fused_elemwise_activation(v["x"], v["y"], ["elementwise_add", "relu"]),
    ),
    "fused_elemwise_scale": (
        {"x": some(2, 3), "y": some(3)},
        lambda F, v: F.contrib.layers.fused_elemwise_activation(v["x"], v["y"], "scale,elementwise_add", scale=0.5),
    ),
    "fused_embedding_seq_pool": (
        {"x": (ids([0], [2], [1]), [2, 1])},
        lambda F, v: F.contrib.layers.fused_embedding_seq_pool(v["x"], [3, 2], param_attr=weights(F, 3, 2)),
    ),
    "match_matrix_tensor": (
        {"x": (some(3, 2), [1, 2]), "y": (some(4, 2), [3, 1])},
        lambda F, v: F.contrib.layers.match_matrix_tensor(v["x"], v["y"], 3, param_attr=weights(F, 2, 3, 2)),
    ),
    "var_conv_2d": (
        IMAGES,
        lambda F, v: F.contrib.layers.var_conv_2d(v["x"], v["r"], v["c"], 2, 2, [2, 3], [1, 2], param_attr=weights(F, 2, 12)),
    ),
    "sequence_topk_avg_pooling": (
        {"x": (np.array([[1], [5], [3], [2], [4], [6], [7], [8]], "f4"), [6, 2]), "r": (some(4, 1), [2, 2]), "c": (some(4, 1), [3, 1])},
        lambda F, v: F.contrib.layers.sequence_topk_avg_pooling(v["x"], v["r"], v["c"], [1, 2], 1),
    ),
    "tree_conv": (
        {"x": some(1, 4, 2), "e": np.array([[[1, 2], [1, 3], [3, 4]]], "i4")},
        lambda F, v: F.contrib.layers.tree_conv(v["x"], v["e"], 2, 1, 3, param_attr=weights(F, 2, 3, 2, 1), bias_attr=False),
    ),
    "partial_concat": ({"x": some(2, 3), "y": some(2, 3)}, lambda F, v: F.contrib.layers.partial_concat([v["x"], v["y"]], 1, 2)),
    "partial_sum": ({"x": some(2, 3), "y": some(2, 3)}, lambda F, v: F.contrib.layers.partial_sum([v["x"], v["y"]], 1, 2)),
}

# Results that no gradient passes.
FLAT = {"sampling_id", "similarity_focus", "beam_search", "ctc_greedy_decoder"}


def run(fluid, name):
    """The results of a case with their sequences, and the gradients by input and by parameter."""
    inputs, layer = CASES[name]
    main, startup = fluid.Program(), fluid.Program()
    feed, variables, trained = {}, {}, []
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        for key, given in inputs.items():
            array, lengths = given if isinstance(given, tuple) else (given, None)
            shape = array.shape if lengths is None else (-1,) + array.shape[1:]
            variables[key] = fluid.data(key, shape, str(array.dtype), 0 if lengths is None else 1)
            learns = array.dtype.kind == "f" and name not in FLAT and key in ("x", "y")
            variables[key].stop_gradient = not learns
            feed[key] = array if lengths is None else fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())
            trained += [variables[key]] if learns else []
        made = layer(fluid, variables)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        if trained or main.global_block().all_parameters():
            trained += [p for p in main.global_block().all_parameters() if not p.stop_gradient and "int" not in str(p.dtype)]
        grads = fluid.gradients(fluid.layers.reduce_sum(made[0]), trained) if trained else []
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        if startup.global_block().ops:
            executor.run(startup)
        got = executor.run(main, feed=feed, fetch_list=made + grads, return_numpy=False)
    arrays = {"%s/out/%d" % (name, at): np.array(value) for at, value in enumerate(got[: len(made)])}
    for at, value in enumerate(got[: len(made)]):
        arrays.update({"%s/lod/%d/%d" % (name, at, level): np.array(offsets, "i8") for level, offsets in enumerate(value.lod())})
    arrays.update({"%s/grad/%s" % (name, var.name): np.array(value) for var, value in zip(trained, got[len(made) :])})
    return arrays


if __name__ == "__main__":
    import paddle.fluid

    from common import save_npz

    arrays = {}
    for case in sorted(CASES):
        arrays.update(run(paddle.fluid, case))
    save_npz(sys.argv[1], "ranking_layers.npz", **arrays)
    print("ranking_layers", len(arrays))
