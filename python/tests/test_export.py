"""The contents of a folder, shown and in other formats; rows that come back."""

import os
import re
import subprocess
import sys
import xml.dom.minidom

import numpy as np
import pytest

import paddlewheel
import paddlewheel.fluid as fluid
from conftest import HERE
from paddlewheel import _core
from test_sparse_embedding import run_job

L = fluid.layers
GOLDEN = os.path.join(HERE, "..", "..", "crates", "testing", "golden", "files")


def rows(n, seed=3):
    return np.random.RandomState(seed).rand(n, 4).astype("float32")


def deep_model(folder, lod_level=0, **saving):
    """Two look-ups (one with padding), dense numbers, three layers; returns what predicts."""
    dense = fluid.data("dense", [None, 4], "float32")
    ids = [fluid.data(name, [None, 1], "int64", lod_level=lod_level) for name in ("C1", "C2")]
    found = [
        L.embedding(ids[0], [50, 8], is_sparse=True, param_attr="emb"),
        L.embedding(ids[1], [50, 8], is_sparse=True, param_attr="emb", padding_idx=0),
    ]
    if lod_level:
        found = [L.sequence_pool(one, "sum") for one in found]
    hidden = L.fc(L.concat(found + [dense], axis=1), 16, act="relu")
    hidden = L.dropout(L.fc([hidden, dense], 8, act="tanh"), 0.3)
    predict = L.fc(hidden, 1, act="sigmoid")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder), ["dense", "C1", "C2"], [predict], exe, **saving)
    return exe


def predicted(folder, feed, **loading):
    """The results of our executor."""
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor()
        program, _, fetch = fluid.io.load_inference_model(str(folder), exe, **loading)
        return exe.run(program, feed=feed, fetch_list=fetch)


def in_onnx(path, feed):
    """The results of onnxruntime, after the checker of ONNX has looked at the file."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (make test installs it)")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make test installs it)")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    runtime.set_default_logger_severity(3)
    return runtime.InferenceSession(path).run(None, feed)


FEED = {
    "dense": rows(5),
    "C1": np.array([[1], [0], [49], [7], [7]], "int64"),
    "C2": np.array([[0], [3], [0], [48], [1]], "int64"),
}


def command(folder, *arguments):
    """Runs the command line; returns what came of it."""
    return subprocess.run(
        [sys.executable, "-m", "paddlewheel", *map(str, arguments)],
        cwd=str(folder), capture_output=True, text=True, timeout=120,
    )


def test_show_lists_variables_and_ops(tmp_path):
    deep_model(tmp_path / "model")
    shown = command(tmp_path, "show", "model")
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout
    assert text.startswith("model: 9 files, ") and "checksums match\n" in text
    assert "saved: model\n" in text
    assert re.search(r"^emb +float32 +\[50, 8\] +1,600 +emb$", text, re.M), text
    assert "feeds: dense, C1, C2\n" in text
    assert re.search(r"^ *\d+ +lookup_table +W=emb Ids=C2|Ids=C2 W=emb", text, re.M), text
    assert "op_callstack" not in text
    assert paddlewheel.show(tmp_path / "model").replace(str(tmp_path) + "/", "") == text


def test_show_reads_every_kind_of_save(tmp_path):
    x = fluid.data("x", [None, 3], "float32")
    loss = L.mean(L.fc(x, 1))
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_persistables(exe, str(tmp_path / "each"))
    fluid.io.save_persistables(exe, str(tmp_path / "one"), filename="all")
    fluid.save(fluid.default_main_program(), str(tmp_path / "state" / "m"))
    program = fluid.default_main_program()
    fluid.io.save_checkpoint(exe, str(tmp_path / "checkpoints"), 0, program)
    for path in ("each", "one", "state", "state/m", "checkpoints"):
        text = paddlewheel.show(tmp_path / path)
        assert re.search(r"^fc_0.w_0 +float32 +\[3, 1\] +12 ", text, re.M), text
        assert "fc_0.w_0_moment1_0" in text
    assert "program m.pdmodel: " in paddlewheel.show(tmp_path / "state")


def test_a_picture_is_svg_and_the_same_again(tmp_path):
    deep_model(tmp_path / "model")
    assert command(tmp_path, "show", "model", "--svg", "a.svg").returncode == 0
    assert command(tmp_path, "show", "model", "--svg=b.svg").returncode == 0
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    drawn = xml.dom.minidom.parseString(text)
    n_ops = int(re.search(r", (\d+) ops", paddlewheel.show(tmp_path / "model")).group(1))
    assert len(drawn.getElementsByTagName("rect")) == n_ops
    again = command(tmp_path, "show", "model", "--svg", "a.svg")
    assert again.returncode == 1 and "a.svg is there already" in again.stderr


def test_predictions_in_onnx_are_ours(tmp_path):
    deep_model(tmp_path / "model")
    path = paddlewheel.export(tmp_path / "model", to="onnx")
    assert path == str(tmp_path / "model.onnx")
    np.testing.assert_allclose(in_onnx(path, FEED), predicted(tmp_path / "model", FEED), atol=1e-6)


def test_a_model_in_one_file_goes_to_onnx(tmp_path):
    deep_model(tmp_path / "model", params_filename="params")
    path = paddlewheel.export(tmp_path / "model", "onnx", out=tmp_path / "x.onnx")
    ours = predicted(tmp_path / "model", FEED, params_filename="params")
    np.testing.assert_allclose(in_onnx(path, FEED), ours, atol=1e-6)


def test_sequences_of_one_id_go_to_onnx_if_that_is_said(tmp_path):
    deep_model(tmp_path / "model", lod_level=1)
    with pytest.raises(ValueError, match=r"`sequence_pool` \(op \d+ of block 0, which makes `sequence_pool_0"):
        paddlewheel.export(tmp_path / "model", "onnx")
    assert not (tmp_path / "model.onnx").exists()
    path = paddlewheel.export(tmp_path / "model", "onnx", one_id=True)
    ones = [[1] * 5]
    feed = {n: a if n == "dense" else fluid.create_lod_tensor(a, ones, fluid.CPUPlace()) for n, a in FEED.items()}
    np.testing.assert_allclose(in_onnx(path, FEED), predicted(tmp_path / "model", feed), atol=1e-6)


@pytest.mark.parametrize("form", ["inference", "inference_combined"])
def test_a_model_of_the_real_fluid_goes_to_onnx(tmp_path, form):
    folder = os.path.join(GOLDEN, "ctr", form)
    path = paddlewheel.export(folder, "onnx", out=tmp_path / "model.onnx", one_id=True)
    feed = {"C1": np.array([[3], [0], [19]], "int64"), "dense_input": rows(3)[:, :3]}
    ours = dict(feed, C1=fluid.create_lod_tensor(feed["C1"], [[1, 1, 1]], fluid.CPUPlace()))
    names = {} if form == "inference" else {"model_filename": "model.bin", "params_filename": "params.bin"}
    np.testing.assert_allclose(in_onnx(path, feed), predicted(folder, ours, **names), atol=1e-6)


def test_large_tables_are_inputs_after_the_look_up(tmp_path):
    deep_model(tmp_path / "model")
    done = command(tmp_path, "export", "model", "--to", "onnx", "--table-bytes-max", "100")
    assert done.returncode == 0, done.stderr
    assert "is the rows of table emb for the ids C1\n" in done.stdout
    (first,) = re.findall(r"^(\S+) is the rows of table emb for the ids C1$", done.stdout, re.M)
    (second,) = re.findall(r"^(\S+) is the rows of table emb for the ids C2; zeros for the id 0$", done.stdout, re.M)
    table = fluid.io.load_program_state(str(tmp_path / "model"))["emb"]
    feed = {"dense": FEED["dense"], first: table[FEED["C1"][:, 0]]}
    feed[second] = table[FEED["C2"][:, 0]] * (FEED["C2"] != 0)
    path = str(tmp_path / "model.onnx")
    np.testing.assert_allclose(in_onnx(path, feed), predicted(tmp_path / "model", FEED), atol=1e-6)


def in_layers(x, ids):
    """Layers of recommendation models, by name: each from a batch of numbers and of ids."""
    y = L.scale(x, 0.5, 1.0)
    cube = L.reshape(x, [-1, 2, 2])
    left, right = L.split(x, 2, dim=1)
    return {
        "scale": L.scale(x, 2.0, 1.0, bias_after_scale=False),
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y,
        "max": L.elementwise_max(x, y), "min": L.elementwise_min(x, y), "pow": L.elementwise_pow(x, y),
        "axis": L.elementwise_mul(cube, L.reduce_sum(cube, dim=2), axis=0),
        "reduce_mean": L.reduce_mean(cube, dim=[1, 2]), "reduce_max": L.reduce_max(cube, dim=-1, keep_dim=True),
        "reduce_min": L.reduce_min(x, dim=1), "reduce_prod": L.reduce_prod(x, dim=1),
        "reduce_all": L.reduce_sum(x), "mean": L.mean(x), "sum": L.sums([x, y, x]),
        "transpose": L.transpose(cube, [0, 2, 1]), "concat": L.concat([right, left], axis=1),
        "stack": L.stack([x, y], axis=1), "slice": L.slice(x, axes=[1], starts=[1], ends=[3]),
        "squeeze": L.squeeze(L.unsqueeze(x, [1, 3]), [3]), "flatten": L.flatten(cube), "expand": L.expand(x, [1, 2]),
        "matmul": L.matmul(cube, cube, transpose_y=True, alpha=0.5), "fc of 3": L.fc(cube, 3, num_flatten_dims=2),
        "fc flat": L.fc(cube, 3), "relu": L.relu(x), "sigmoid": L.sigmoid(x), "tanh": L.tanh(x),
        "softmax": L.softmax(x), "leaky": L.leaky_relu(x, 0.1), "swish": L.swish(x), "gelu": L.gelu(x),
        "square": L.square(x), "sqrt": L.sqrt(x), "exp": L.exp(x), "log": L.log(x), "abs": L.abs(x),
        "clip": L.clip(x, 0.2, 0.6), "relu6": L.relu6(x), "hard_sigmoid": L.hard_sigmoid(x),
        "logsigmoid": L.logsigmoid(x), "softplus": L.softplus(x), "pow of 3": L.pow(x, 3.0),
        "cast": L.cast(L.cast(x * 10.0, "int64"), "float32"), "l2": L.l2_normalize(x, axis=1),
        "layer_norm": L.layer_norm(x), "batch_norm": L.batch_norm(x), "cos_sim": L.cos_sim(x, y),
        "one_hot": L.one_hot(ids, 50), "top_k": L.topk(x, 2)[0], "argmax": L.cast(L.argmax(x, axis=1), "float32"),
        "fill": L.fill_constant_batch_size_like(x, [-1, 3], "float32", 2.5),
        "less": L.cast(L.less_than(x, y), "float32"), "prelu": L.prelu(x - 0.5, "all"),
        "v2": fluid.embedding(L.squeeze(ids, [1]), [50, 3]),
    }


def test_every_usual_layer_is_the_same_in_onnx(tmp_path):
    x, ids = fluid.data("x", [None, 4], "float32"), fluid.data("ids", [None, 1], "int64")
    made = in_layers(x, ids)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x", "ids"], list(made.values()), exe)
    path = paddlewheel.export(tmp_path / "model", "onnx")
    feed = {"x": rows(5) + 0.1, "ids": FEED["C1"]}
    ours = predicted(tmp_path / "model", feed)
    theirs = in_onnx(path, feed)
    assert len(ours) == len(theirs) == len(made)
    for name, mine, other in zip(made, ours, theirs):
        assert np.array(mine).shape == other.shape, name
        np.testing.assert_allclose(other, mine, atol=1e-6, rtol=1e-6, err_msg=name)


def in_images(x):
    """Windows over images, by name."""
    last = L.transpose(x, [0, 2, 3, 1])
    return {
        "conv": L.conv2d(x, 6, 3, act="relu"), "strides": L.conv2d(x, 6, [3, 2], stride=[2, 1], padding=[1, 0]),
        "four paddings": L.conv2d(x, 4, 3, padding=[1, 0, 2, 1]), "same": L.conv2d(x, 4, 4, stride=2, padding="SAME"),
        "groups": L.conv2d(x, 4, 3, groups=2), "dilated": L.conv2d(x, 4, 3, dilation=2, padding="VALID"),
        "depthwise": L.conv2d(x, 2, 3, groups=2, use_cudnn=False), "last": L.conv2d(last, 4, 3, data_format="NHWC"),
        "max": L.pool2d(x, 2, "max", 2), "average": L.pool2d(x, 3, "avg", 2, 1),
        "with padding": L.pool2d(x, 3, "avg", 2, 1, exclusive=False), "ceil": L.pool2d(x, 3, "max", 2, ceil_mode=True),
        "ceil average": L.pool2d(x, 3, "avg", 2, ceil_mode=True), "all": L.pool2d(x, pool_type="avg", global_pooling=True),
        "ceil with padding": L.pool2d(x, 3, "avg", 2, ceil_mode=True, exclusive=False),
        "pool last": L.pool2d(last, 2, "max", 2, data_format="NHWC"),
        "one": L.adaptive_pool2d(x, 1, "avg"), "shared out": L.adaptive_pool2d(x, [5, 3], "max"),
        "norm": L.batch_norm(x), "norm last": L.batch_norm(last, data_layout="NHWC"),
        "sums": L.cumsum(x, axis=2, exclusive=True, reverse=True),
    }


def test_images_are_the_same_in_onnx(tmp_path):
    x = fluid.data("x", [None, 2, 10, 9], "float32")
    made = in_images(x)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], list(made.values()), exe)
    path = paddlewheel.export(tmp_path / "model", "onnx")
    feed = {"x": np.random.RandomState(5).rand(3, 2, 10, 9).astype("float32") - 0.3}
    ours, theirs = predicted(tmp_path / "model", feed), in_onnx(path, feed)
    for name, mine, other in zip(made, ours, theirs):
        assert np.array(mine).shape == other.shape, name
        np.testing.assert_allclose(other, mine, atol=1e-6, rtol=1e-6, err_msg=name)


def test_the_books_digits_go_to_onnx(tmp_path):
    image = fluid.data("img", [None, 1, 28, 28], "float32")
    nets = fluid.nets.simple_img_conv_pool
    hidden = nets(image, filter_size=5, num_filters=20, pool_size=2, pool_stride=2, act="relu")
    hidden = nets(L.batch_norm(hidden), filter_size=5, num_filters=50, pool_size=2, pool_stride=2, act="relu")
    prediction = L.fc(hidden, 10, act="softmax")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["img"], [prediction], exe)
    path = paddlewheel.export(tmp_path / "model", "onnx")
    feed = {"img": np.random.RandomState(5).rand(4, 1, 28, 28).astype("float32")}
    np.testing.assert_allclose(in_onnx(path, feed), predicted(tmp_path / "model", feed), atol=1e-6)


def test_windows_that_onnx_lacks_are_named(tmp_path):
    x = fluid.data("x", [None, 2, None, 9], "float32")
    out = L.pool2d(x, 3, "max", 2, ceil_mode=True)
    exe = fluid.Executor()
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], [out], exe)
    with pytest.raises(ValueError, match=r"`pool2d` \(op \d+ of block 0.*size of an image, which is not known"):
        paddlewheel.export(tmp_path / "model", "onnx")


def test_one_step_of_a_sequence_goes_to_onnx(tmp_path):
    x = fluid.data("x", [None, 4], "float32", lod_level=1)
    made = [L.sequence_conv(x, 3, 3, bias_attr=False), L.sequence_softmax(L.fc(x, 1)), L.sequence_first_step(x)]
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], made, exe)
    path = paddlewheel.export(tmp_path / "model", "onnx", one_id=True)
    ours = paddlewheel.Predictor(tmp_path / "model").predict({"x": rows(3)})
    for mine, other in zip(ours, in_onnx(path, {"x": rows(3)})):
        np.testing.assert_allclose(other, mine, atol=1e-6)


def test_an_op_that_onnx_lacks_is_named(tmp_path):
    x = fluid.data("x", [None, 4], "float32", lod_level=1)
    hidden, _ = L.dynamic_lstm(L.fc(x, 16), 16)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], [hidden], exe)
    done = command(tmp_path, "export", "model", "--to", "onnx")
    assert done.returncode == 1
    assert re.search(r"`lstm` \(op \d+ of block 0, which makes `\S+`\) cannot go to ONNX", done.stderr), done.stderr
    assert "Save the model again with targets before this op" in done.stderr


def test_safetensors_are_read_by_their_own_library(tmp_path):
    numpy_side = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)")
    deep_model(tmp_path / "model")
    path = paddlewheel.export(tmp_path / "model", "safetensors")
    theirs = numpy_side.load_file(path)
    ours = fluid.io.load_program_state(str(tmp_path / "model"))
    assert sorted(theirs) == sorted(ours)
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype and (value == theirs[name]).all(), name


def test_parquet_is_read_by_pandas(tmp_path):
    fastparquet = pytest.importorskip("fastparquet", reason="fastparquet is not installed (make test installs it)")
    deep_model(tmp_path / "model")
    folder = paddlewheel.export(tmp_path / "model", "parquet")
    ours = fluid.io.load_program_state(str(tmp_path / "model"))
    assert sorted(os.listdir(folder)) == sorted(name + ".parquet" for name in ours)
    frame = fastparquet.ParquetFile(os.path.join(folder, "emb.parquet")).to_pandas()
    assert list(frame.columns) == ["id"] + ["v%d" % k for k in range(8)]
    assert (frame["id"] == np.arange(50)).all()
    assert (frame.iloc[:, 1:].to_numpy() == ours["emb"]).all()
    one = paddlewheel.export(tmp_path / "model", "parquet", table="fc_0.b_0", out=tmp_path / "b.parquet")
    assert (fastparquet.ParquetFile(one).to_pandas()["v0"] == ours["fc_0.b_0"]).all()


def test_rows_come_back_from_parquet_and_are_predicted_with(tmp_path):
    fastparquet = pytest.importorskip("fastparquet", reason="fastparquet is not installed (make test installs it)")
    import pandas

    deep_model(tmp_path / "model")
    before = predicted(tmp_path / "model", FEED)[0]
    frame = pandas.DataFrame(np.full((2, 8), 0.5, "float32"), columns=["v%d" % k for k in range(8)])
    frame.insert(0, "id", np.array([7, 48], "int64"))
    fastparquet.write(str(tmp_path / "new.parquet"), frame, write_index=False)
    done = command(tmp_path, "import", "model", "emb", "new.parquet")
    assert (done.returncode, done.stdout) == (0, "emb: 2 rows replaced, 0 added\n"), done.stderr
    after = predicted(tmp_path / "model", FEED)[0]
    changed = (before != after)[:, 0].tolist()
    assert changed == [False, False, False, True, True]
    table = fluid.io.load_program_state(str(tmp_path / "model"))["emb"]
    assert (table[[7, 48]] == 0.5).all()
    paddlewheel.show(tmp_path / "model")


def test_rows_go_into_a_scope(tmp_path):
    numpy_side = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)")
    deep_model(tmp_path / "model")
    new = {"emb.ids": np.array([3, 1], "int64"), "emb.rows": np.stack([np.full(8, 3.0, "float32"), np.ones(8, "float32")])}
    numpy_side.save_file(new, tmp_path / "new.safetensors")
    assert paddlewheel.import_rows(fluid.global_scope(), "emb", tmp_path / "new.safetensors") == (2, 0)
    table = np.array(fluid.global_scope().find_var("emb").get_tensor())
    assert (table[3] == 3.0).all() and (table[1] == 1.0).all()


def test_a_table_by_rows_is_shown_exported_and_imported_into(tmp_path):
    numpy_side = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)")
    said = run_job(tmp_path, "sync", "None", 2)
    assert said["rows"] == [4.0]
    folder = tmp_path / "model"
    text = paddlewheel.show(folder)
    assert re.search(r"^table +float32 +\[1099511627776, 8\] +4 +160 +__lookup_table__/table_0of2 … \(2 parts\)$", text, re.M), text
    assert re.search(r"^saved: \w+, after step \d+, sync mode, 2 servers$", text, re.M), text
    held = numpy_side.load_file(paddlewheel.export(folder, "safetensors"))
    assert held["table.ids"].tolist() == [3, 99, 2**20, 2**40 - 1]
    assert held["table.rows"].shape == (4, 8)
    new = {"table.ids": np.array([3, 12345], "int64"), "table.rows": np.full((2, 8), 7.0, "float32")}
    numpy_side.save_file(new, tmp_path / "new.safetensors")
    with pytest.raises(ValueError, match="has the row 12345, .* the state `table_moment_0` of its optimizer"):
        paddlewheel.import_rows(folder, "table", tmp_path / "new.safetensors")
    numpy_side.save_file({name: value[:1] for name, value in new.items()}, tmp_path / "old.safetensors")
    assert paddlewheel.import_rows(folder, "table", tmp_path / "old.safetensors") == (1, 0)
    # Servers load it; row 3 counts as 7 in the first step.
    os.mkdir(tmp_path / "again")
    said = run_job(tmp_path / "again", "sync", "None", 1, str(folder))
    assert said["rows"] == [4.0]
    assert said["loss"][0] == pytest.approx((7.0 * 8 + held["table.rows"][1:].sum()) / 32, abs=1e-5)


def test_rows_are_added_to_a_table_without_states(tmp_path):
    numpy_side = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)")
    run_job(tmp_path, "sync", "None", 2)
    folder = tmp_path / "model"
    for name in os.listdir(folder / "__lookup_table__"):
        if name.startswith("table_moment"):
            os.remove(folder / "__lookup_table__" / name)
    os.remove(folder / ".paddlewheel")
    new = {"ids": np.array([3, 12345], "int64"), "rows": np.full((2, 8), 7.0, "float32")}
    numpy_side.save_file(new, tmp_path / "new.safetensors")
    assert paddlewheel.import_rows(folder, "table", tmp_path / "new.safetensors") == (1, 1)
    held = numpy_side.load_file(paddlewheel.export(folder, "safetensors"))
    assert held["table.ids"].tolist() == [3, 99, 12345, 2**20, 2**40 - 1]
    assert (held["table.rows"][[0, 2]] == 7.0).all() and not (held["table.rows"][[1, 3, 4]] == 7.0).any()
    assert re.search(r"^table .* 5 .*\(2 parts\)$", paddlewheel.show(folder), re.M)


def write_rows(path, ids, values):
    numpy_side = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)")
    numpy_side.save_file({"ids": np.array(ids, "int64"), "rows": np.array(values)}, path)


def test_wrong_rows_change_nothing(tmp_path):
    deep_model(tmp_path / "model")
    before = paddlewheel.show(tmp_path / "model")
    good = np.ones((2, 8), "float32")
    wrong = {
        "the id 7 twice": ([7, 7], good),
        "ids from 0 to 49": ([7, 50], good),
        "rows of 7 numbers, and those of `emb` have 8": ([7, 8], good[:, :7]),
        "float64 numbers, and those of `emb` are float32": ([7, 8], good.astype("float64")),
        "has 3 ids": ([7, 8, 9], good),
    }
    for text, (ids, values) in wrong.items():
        write_rows(tmp_path / "new.safetensors", ids, values)
        with pytest.raises(ValueError, match=text):
            paddlewheel.import_rows(tmp_path / "model", "emb", tmp_path / "new.safetensors")
    write_rows(tmp_path / "new.safetensors", [7, 8], good)
    with pytest.raises(ValueError, match="no table `em`. Did you mean `emb`"):
        paddlewheel.import_rows(tmp_path / "model", "em", tmp_path / "new.safetensors")
    with pytest.raises(TypeError, match="a folder or a scope"):
        paddlewheel.import_rows(7, "emb", tmp_path / "new.safetensors")
    (tmp_path / "new.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(ValueError, match="new.parquet cannot be read"):
        paddlewheel.import_rows(tmp_path / "model", "emb", tmp_path / "new.parquet")
    (tmp_path / "new.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="new.safetensors cannot be read"):
        paddlewheel.import_rows(tmp_path / "model", "emb", tmp_path / "new.safetensors")
    assert paddlewheel.show(tmp_path / "model") == before


def test_bad_folders_and_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere"):
        paddlewheel.show(tmp_path / "nowhere")
    os.mkdir(tmp_path / "empty")
    with pytest.raises(ValueError, match="empty holds no variables and no program"):
        paddlewheel.export(tmp_path / "empty", "safetensors")
    deep_model(tmp_path / "model")
    with pytest.raises(ValueError, match="no format `onx`: use onnx, safetensors or parquet. Did you mean `onnx`"):
        paddlewheel.export(tmp_path / "model", "onx")
    (tmp_path / "there").write_text("mine")
    with pytest.raises(FileExistsError, match="--force"):
        paddlewheel.export(tmp_path / "model", "safetensors", out=tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"
    paddlewheel.export(tmp_path / "model", "safetensors", out=tmp_path / "there", force=True)
    with pytest.raises(OSError, match="no/such/place"):
        paddlewheel.export(tmp_path / "model", "onnx", out=tmp_path / "no/such/place")
    with open(tmp_path / "model" / "emb", "r+b") as file:
        file.seek(100)
        file.write(b"damage")
    for to in ("onnx", "safetensors", "parquet"):
        with pytest.raises(_core.EnforceNotMet, match="model/emb"):
            paddlewheel.export(tmp_path / "model", to)
    with pytest.raises(_core.EnforceNotMet, match="model/emb"):
        paddlewheel.show(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["empty", "model", "there"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_to_write_is_said(tmp_path):
    deep_model(tmp_path / "model")
    os.mkdir(tmp_path / "closed", 0o500)
    with pytest.raises(PermissionError, match="closed/x.onnx"):
        paddlewheel.export(tmp_path / "model", "onnx", out=tmp_path / "closed" / "x.onnx")


def test_wrong_words_are_answered_with_the_usage(tmp_path):
    for words in (["show"], ["export", "x"], ["import", "x"], ["show", "x", "--nonsense", "1"], ["export", "x", "--to"]):
        done = command(tmp_path, *words)
        assert done.returncode == 2 and "error: " in done.stderr and "--help" in done.stderr, words
    assert "Usage: paddlewheel export [OPTIONS] --to <FORMAT> <DIR>" in command(tmp_path, "export", "--help").stdout


DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "guides", "export.md")


def test_the_commands_of_the_document_run(tmp_path):
    pytest.importorskip("fastparquet", reason="fastparquet is not installed (make test installs it)")
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    deep_model(tmp_path / "model")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]
    assert len(lines) >= 6
    for line in lines:
        words = line.split("#")[0].split()
        assert words[0] == "paddlewheel", line
        done = command(tmp_path, *words[1:])
        assert done.returncode == 0, line + "\n" + done.stderr
    (script,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=str(tmp_path), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
