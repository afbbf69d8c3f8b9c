"""Layers that cut, arrange and multiply tensors, and layers for images, called from Python: every result, and the
gradients of `sum(first result²)` by inputs of fractions.

    python gen_tensors.py ..

The test (python/tests/test_tensors_golden.py) runs the same CASES on our package.
"""
import sys

import numpy as np


def numbers(*shape):
    """Numbers without a pattern, no two alike nearby."""
    count = int(np.prod(shape))
    return (((np.arange(count) * 37 + 11) % 101) / 25.0 - 2.0).astype("float32").reshape(shape)


def whole(*shape):
    return (np.arange(int(np.prod(shape))) * 7 % 13).astype("int64").reshape(shape)


X = numbers(3, 4)
CUBE = numbers(3, 4, 5)
IMAGE = numbers(2, 4, 5, 6)
DEEP = numbers(1, 2, 3, 4, 5)
N = np.array([2], "int32")
GRID = (numbers(2, 5, 6, 2) / 1.7).astype("float32")
THETA = numbers(2, 2, 3)


def weights(fluid, *shape):
    """A parameter with numbers that do not come from a random stream."""
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(numbers(*shape)))


def resize(name, **options):
    return lambda F, v: getattr(F.layers, name)(v["x"], **options)


# name: (inputs by name; the layer of (fluid, variables))
CASES = {
    # indexing
    "item": ({"x": CUBE}, lambda F, v: v["x"][1]),
    "item_last": ({"x": CUBE}, lambda F, v: v["x"][-1, 1:3]),
    "item_steps": ({"x": CUBE}, lambda F, v: v["x"][0:3:2, 1]),
    "item_back": ({"x": CUBE}, lambda F, v: v["x"][2:0:-1, :, 4:0:-2]),
    "item_reversed": ({"x": CUBE}, lambda F, v: v["x"][:, ::-1]),
    "item_variable": ({"x": CUBE, "n": N}, lambda F, v: v["x"][v["n"], 1:v["n"]]),
    "strided_slice": ({"x": CUBE}, lambda F, v: F.layers.strided_slice(v["x"], [0, 2], [0, -1], [3, -6], [2, -2])),
    "strided_slice_variables": (
        {"x": CUBE, "n": N},
        lambda F, v: F.layers.strided_slice(v["x"], [0, 2], [0, v["n"]], [3, 5], [v["n"], 1]),
    ),
    "strided_slice_whole": (
        {"x": CUBE, "s": np.array([0, 1], "int32")},
        lambda F, v: F.layers.strided_slice(v["x"], [1, 2], v["s"], [4, 5], [2, 3]),
    ),
    "slice_variables": ({"x": CUBE, "n": N}, lambda F, v: F.layers.slice(v["x"], [0, 1], [1, 0], [3, v["n"]])),
    "crop": ({"x": X}, lambda F, v: F.layers.crop(v["x"], shape=[2, 2], offsets=[1, 1])),
    "crop_like": ({"x": X, "y": numbers(2, 3)}, lambda F, v: F.layers.crop(v["x"], shape=v["y"])),
    "crop_tensor": ({"x": CUBE}, lambda F, v: F.layers.crop_tensor(v["x"], shape=[-1, 2, 3], offsets=[1, 0, 2])),
    "crop_tensor_variables": (
        {"x": CUBE, "n": N},
        lambda F, v: F.layers.crop_tensor(v["x"], shape=[v["n"], 2, 3], offsets=[0, v["n"], 1]),
    ),
    "index_select": ({"x": CUBE, "i": np.array([3, 0, 3], "int64")}, lambda F, v: F.layers.index_select(v["x"], v["i"], 1)),
    "index_sample": (
        {"x": X, "i": np.array([[3, 0], [1, 1], [2, 3]], "int64")},
        lambda F, v: F.layers.index_sample(v["x"], v["i"]),
    ),
    "unique_with_counts": ({"i": whole(9) % 4}, lambda F, v: F.layers.unique_with_counts(v["i"])),
    "nonzero": ({"i": whole(3, 4) % 3}, lambda F, v: F.layers.nonzero(v["i"])),
    "nonzero_tuple": ({"i": whole(3, 4) % 3}, lambda F, v: F.layers.nonzero(v["i"], as_tuple=True)),
    "rank": ({"i": whole(3, 4)}, lambda F, v: F.layers.reshape(F.layers.rank(v["i"]), [1])),
    "size": ({"i": whole(3, 4).astype("int32")}, lambda F, v: F.layers.size(v["i"])),
    # numbers
    "log1p": ({"x": X + 3}, lambda F, v: F.layers.log1p(v["x"])),
    "logsumexp": ({"x": X}, lambda F, v: F.layers.logsumexp(v["x"])),
    "logsumexp_dim": ({"x": X}, lambda F, v: F.layers.logsumexp(v["x"], dim=[-1], keepdim=True)),
    "clamp": ({"x": X}, lambda F, v: F.layers.clamp(v["x"], min=-0.5, max=1.0)),
    "clamp_max": ({"x": X}, lambda F, v: F.layers.clamp(v["x"], max=1.0)),
    "addmm": (
        {"i": numbers(1, 2), "x": X, "y": numbers(4, 2)},
        lambda F, v: F.layers.addmm(v["i"], v["x"], v["y"], alpha=0.5, beta=2.0),
    ),
    "addcmul": ({"x": X, "y": X + 1, "z": X - 1}, lambda F, v: F.layers.addcmul(v["x"], v["y"], v["z"], value=0.5)),
    "bmm": ({"x": numbers(2, 3, 4), "y": numbers(2, 4, 2)}, lambda F, v: F.layers.bmm(v["x"], v["y"])),
    "dist": ({"x": X, "y": X[:1] * 2}, lambda F, v: F.layers.dist(v["x"], v["y"])),
    "dist_3": ({"x": X, "y": X * 2}, lambda F, v: F.layers.dist(v["x"], v["y"], p=3)),
    "dot": ({"x": X, "y": X + 1}, lambda F, v: F.layers.dot(v["x"], v["y"])),
    "t": ({"x": X}, lambda F, v: F.layers.t(v["x"])),
    "cross": ({"x": X, "y": X * X}, lambda F, v: F.layers.cross(v["x"], v["y"])),
    "diag": ({"i": whole(3)}, lambda F, v: F.layers.diag(v["i"])),
    "diag_array": ({}, lambda F, v: F.layers.diag(numbers(3))),
    "diag_embed": ({"i": whole(2, 3)}, lambda F, v: F.layers.diag_embed(v["i"], offset=-1, dim1=0, dim2=2)),
    "kron": ({"x": X, "y": numbers(2, 2)}, lambda F, v: F.layers.kron(v["x"], v["y"])),
    "meshgrid": (
        {"x": numbers(3), "y": numbers(2) + 1},
        lambda F, v: F.layers.elementwise_mul(*F.layers.meshgrid([v["x"], v["y"]])),
    ),
    "trace": ({"x": CUBE}, lambda F, v: F.layers.trace(v["x"], offset=1, dim1=0, dim2=2)),
    "tril": ({"x": X}, lambda F, v: F.layers.tril(v["x"], 1)),
    "triu": ({"x": CUBE}, lambda F, v: F.layers.triu(v["x"], -1)),
    "flip": ({"x": CUBE}, lambda F, v: F.layers.flip(v["x"], [0, -1])),
    "roll": ({"x": CUBE}, lambda F, v: F.layers.roll(v["x"], [1, -2], [0, 2])),
    "roll_all": ({"x": X}, lambda F, v: F.layers.roll(v["x"], 3)),
    "log_softmax": ({"x": X}, lambda F, v: F.layers.log_softmax(v["x"], axis=0)),
    "allclose": ({"i": whole(3)}, lambda F, v: F.layers.allclose(F.layers.cast(v["i"], "float32"), F.layers.cast(v["i"], "float32"))),
    "elementwise_equal": ({"i": whole(3), "j": whole(3)}, lambda F, v: F.layers.elementwise_equal(v["i"], v["j"])),
    "full": ({}, lambda F, v: F.layers.full([2, 3], 1.5)),
    "full_like": ({"i": whole(3)}, lambda F, v: F.layers.full_like(v["i"], 2.0, dtype="float32")),
    "arange": ({}, lambda F, v: F.layers.arange(1, 8, 3, "int64")),
    "randint": ({}, lambda F, v: F.layers.randint(3, 9, shape=[5], seed=4)),
    "randperm": ({}, lambda F, v: F.layers.randperm(9, seed=4)),
    "random_crop": ({"x": CUBE}, lambda F, v: F.layers.random_crop(v["x"], [2, 3], seed=5)),
    "selu": ({"x": X}, lambda F, v: F.layers.selu(v["x"])),
    "selu_own": ({"x": X}, lambda F, v: F.layers.selu(v["x"], scale=1.5, alpha=0.5)),
    "mish": ({"x": X * 2}, lambda F, v: F.layers.mish(v["x"], threshold=2)),
    "maxout": ({"x": IMAGE}, lambda F, v: F.layers.maxout(v["x"], 2)),
    "maxout_last": ({"x": IMAGE}, lambda F, v: F.layers.maxout(v["x"], 3, axis=-1)),
    # images
    "pad2d": ({"x": IMAGE}, lambda F, v: F.layers.pad2d(v["x"], [1, 2, 3, 0], pad_value=0.5)),
    "pad2d_reflect": ({"x": IMAGE}, lambda F, v: F.layers.pad2d(v["x"], [1, 2, 3, 0], "reflect")),
    "pad2d_edge": ({"x": IMAGE}, lambda F, v: F.layers.pad2d(v["x"], [1, 2, 3, 0], "edge", data_format="NHWC")),
    "pad_constant_like": (
        {"y": X},
        lambda F, v: F.layers.pad_constant_like(F.layers.zeros([4, 5], "float32"), v["y"], 7.0),
    ),
    "space_to_depth": ({"x": numbers(2, 4, 4, 6)}, lambda F, v: F.layers.space_to_depth(v["x"], 2)),
    "pixel_shuffle": ({"x": IMAGE}, lambda F, v: F.layers.pixel_shuffle(v["x"], 2)),
    "shuffle_channel": ({"x": IMAGE}, lambda F, v: F.layers.shuffle_channel(v["x"], 2)),
    "temporal_shift": ({"x": numbers(4, 4, 2, 2)}, lambda F, v: F.layers.temporal_shift(v["x"], 2, 0.25)),
    "unfold": ({"x": IMAGE}, lambda F, v: F.layers.unfold(v["x"], [2, 3], 2, [1, 0, 2, 1], 1)),
    "affine_channel": (
        {"x": IMAGE, "s": numbers(4), "b": numbers(4) + 1},
        lambda F, v: F.layers.affine_channel(v["x"], v["s"], v["b"]),
    ),
    "affine_grid": ({"x": THETA}, lambda F, v: F.layers.affine_grid(v["x"], [2, 3, 4, 5])),
    "grid_sampler": ({"x": IMAGE, "g": GRID}, lambda F, v: F.layers.grid_sampler(v["x"], v["g"])),
    "lrn": ({"x": IMAGE}, lambda F, v: F.layers.lrn(v["x"], n=3, alpha=0.1)),
    "bilinear": ({"x": IMAGE}, resize("resize_bilinear", out_shape=[3, 9])),
    "bilinear_edges": ({"x": IMAGE}, resize("resize_bilinear", out_shape=[7, 9], align_corners=False)),
    "bilinear_halves": ({"x": IMAGE}, resize("resize_bilinear", scale=1.5, align_corners=False, align_mode=0)),
    "bilinear_last": ({"x": IMAGE}, resize("resize_bilinear", out_shape=[3, 9], data_format="NHWC")),
    "nearest": ({"x": IMAGE}, resize("resize_nearest", out_shape=[3, 9])),
    "nearest_edges": ({"x": IMAGE}, resize("resize_nearest", scale=0.7, align_corners=False)),
    "trilinear": ({"x": DEEP}, resize("resize_trilinear", out_shape=[2, 6, 3])),
    "trilinear_halves": ({"x": DEEP}, resize("resize_trilinear", scale=2.0, align_corners=False, align_mode=0)),
    "bicubic": ({"x": IMAGE}, resize("interpolate", out_shape=[7, 4], resample="BICUBIC")),
    "bicubic_edges": ({"x": IMAGE}, resize("interpolate", scale=1.5, resample="BICUBIC", align_corners=False)),
    "resize_short": ({"x": IMAGE}, lambda F, v: F.layers.image_resize_short(v["x"], 4)),
    "resize_variable": (
        {"x": IMAGE, "n": N},
        lambda F, v: F.layers.image_resize(v["x"], out_shape=[v["n"], 7], resample="NEAREST"),
    ),
    "pool3d": ({"x": DEEP}, lambda F, v: F.layers.pool3d(v["x"], 2, "max", [1, 2, 2], [0, 1, 1], ceil_mode=True)),
    "pool3d_average": ({"x": DEEP}, lambda F, v: F.layers.pool3d(v["x"], 2, "avg", 2, 1, exclusive=False)),
    "pool3d_global": ({"x": DEEP}, lambda F, v: F.layers.pool3d(v["x"], pool_type="avg", global_pooling=True)),
    "adaptive_pool3d": ({"x": DEEP}, lambda F, v: F.layers.adaptive_pool3d(v["x"], [2, 3, 2], "avg")),
    "adaptive_pool3d_max": ({"x": DEEP}, lambda F, v: F.layers.adaptive_pool3d(v["x"], [2, 3, 2], "max")),
    "conv3d": (
        {"x": DEEP},
        lambda F, v: F.layers.conv3d(v["x"], 4, [2, 2, 3], 1, [0, 1, 1], 1, 2, weights(F, 4, 1, 2, 2, 3), weights(F, 4)),
    ),
    "conv2d_transpose": (
        {"x": IMAGE},
        lambda F, v: F.layers.conv2d_transpose(
            v["x"], 6, filter_size=3, padding=[1, 0], stride=[2, 1], groups=2, param_attr=weights(F, 4, 3, 3, 3), bias_attr=False
        ),
    ),
    "conv2d_transpose_size": (
        {"x": IMAGE},
        lambda F, v: F.layers.conv2d_transpose(
            v["x"], 2, output_size=[12, 14], filter_size=3, stride=2, param_attr=weights(F, 4, 2, 3, 3), bias_attr=weights(F, 2)
        ),
    ),
    "conv2d_transpose_dilated": (
        {"x": IMAGE},
        lambda F, v: F.layers.conv2d_transpose(
            v["x"], 2, filter_size=2, dilation=2, param_attr=weights(F, 4, 2, 2, 2), bias_attr=False
        ),
    ),
    "conv3d_transpose": (
        {"x": DEEP},
        lambda F, v: F.layers.conv3d_transpose(
            v["x"], 2, filter_size=2, stride=[1, 2, 1], param_attr=weights(F, 2, 2, 2, 2, 2), bias_attr=False
        ),
    ),
    "group_norm": (
        {"x": IMAGE},
        lambda F, v: F.layers.group_norm(v["x"], 2, 0.01, weights(F, 4), weights(F, 4)),
    ),
    "group_norm_last": ({"x": IMAGE}, lambda F, v: F.layers.group_norm(v["x"], 3, data_layout="NHWC")),
    "instance_norm": ({"x": IMAGE}, lambda F, v: F.layers.instance_norm(v["x"], 0.001, weights(F, 4), weights(F, 4))),
}


#: Fluid has no gradient of these, or it fails where a step meets a dimension that goes.
WITHOUT_GRADIENTS = {"item_steps", "random_crop"}


def run(fluid, name):
    """The results of a case, and the gradients by input."""
    inputs, layer = CASES[name]
    main, startup = fluid.Program(), fluid.Program()
    variables, trained = {}, []
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        for key, array in inputs.items():
            variables[key] = fluid.data(key, array.shape, str(array.dtype))
            variables[key].stop_gradient = array.dtype.kind != "f"
            trained += [key] if array.dtype.kind == "f" and name not in WITHOUT_GRADIENTS else []
        made = layer(fluid, variables)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        grads = []
        if trained:
            loss = fluid.layers.reduce_sum(made[0] * made[0])
            grads = fluid.gradients(loss, [variables[key] for key in trained])
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        if startup.global_block().ops:
            executor.run(startup)
        wanted = made + [grad for grad in grads if grad is not None]
        got = [np.array(value) for value in executor.run(main, feed=dict(inputs), fetch_list=wanted, return_numpy=False)]
    arrays = {"%s/out/%d" % (name, at): value for at, value in enumerate(got[: len(made)])}
    with_grads = [key for key, grad in zip(trained, grads) if grad is not None]
    arrays.update({"%s/grad/%s" % (name, key): value for key, value in zip(with_grads, got[len(made) :])})
    return arrays


if __name__ == "__main__":
    import paddle.fluid

    from common import save_npz

    arrays = {}
    for case in sorted(CASES):
        try:
            arrays.update(run(paddle.fluid, case))
        except Exception as error:
            raise RuntimeError(case) from error
    save_npz(sys.argv[1], "tensors.npz", **arrays)
    print("tensors", len(arrays))
