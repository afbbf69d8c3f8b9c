"""Models in the forms of Paddle 2.x: `python paddle2_models.py save FOLDER`, `python paddle2_models.py check FOLDER`.

Either side saves (`.pdmodel` with `.pdiparams`, and `.pdparams` with `.pdopt`), the other one loads and predicts.
"""

import json
import os
import sys

import numpy
import paddle
import paddle.nn.functional as F
from paddle import nn

paddle.enable_static()
IDS = numpy.arange(12).reshape(4, 3) % 7
DENSE = numpy.linspace(-1, 1, 20).reshape(4, 5).astype("float32")


def ctr(ids, dense):
    """Embeddings, products and a batch norm."""
    rows = paddle.sum(nn.Embedding(7, 4, padding_idx=0)(ids), axis=1)
    x = paddle.concat([rows, dense], axis=-1)
    x = F.relu(nn.BatchNorm1D(8)(nn.Linear(9, 8)(x)))
    return F.sigmoid(nn.Linear(8, 1)(x))


def text(ids, dense):
    """Convolutions, pools and attention."""
    x = nn.Embedding(7, 4)(ids)
    x = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)(x)
    pooled = F.max_pool1d(nn.Conv1D(3, 2, 2)(x), 3).squeeze(-1)
    return F.softmax(nn.Linear(2, 3)(pooled) + paddle.mean(dense, axis=1, keepdim=True))


def shapes(ids, dense):
    """Shapes, products and choices."""
    x = paddle.tile(paddle.unsqueeze(dense, 1), [1, 3, 1]) * paddle.cast(paddle.unsqueeze(ids, 2), "float32")
    x = paddle.where(x > 0, x, paddle.expand(paddle.full([1], 0.5), [1, 3, 5]) * x)
    x = paddle.matmul(x, x, transpose_y=True)
    x = paddle.flatten(paddle.stack(paddle.split(x, 3, axis=1), axis=1), 1, -1)
    best, _ = paddle.topk(nn.Linear(9, 4)(x), 2)
    return paddle.clip(best, -2.0, 2.0)


MODELS = {"ctr": ctr, "text": text, "shapes": shapes}


def built(model):
    """Program, startup program and what it predicts."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 5
    with paddle.static.program_guard(main, startup):
        ids, dense = paddle.static.data("ids", [None, 3], "int64"), paddle.static.data("dense", [None, 5], "float32")
        out = MODELS[model](ids, dense)
        paddle.optimizer.Adam(0.01).minimize(paddle.mean(out * out))
    return main, startup, [ids, dense], out


def feed():
    return {"ids": IDS.astype("int64"), "dense": DENSE}


def save(folder):
    for model in MODELS:
        names = paddle.base.unique_name if hasattr(paddle, "base") else paddle.utils.unique_name
        with names.guard(), paddle.static.scope_guard(paddle.static.Scope()):
            main, startup, feeds, out = built(model)
            exe = paddle.static.Executor(paddle.CPUPlace())
            exe.run(startup)
            for _ in range(3):
                exe.run(main, feed=feed(), fetch_list=[out])
            at = os.path.join(folder, model)
            os.makedirs(at, exist_ok=True)
            paddle.static.save_inference_model(os.path.join(at, "infer"), feeds, [out], exe, program=main)
            paddle.static.save(main, os.path.join(at, "train"))
            (predicted,) = exe.run(main.clone(for_test=True), feed=feed(), fetch_list=[out.name])[:1]
            program, names_fed, fetched = paddle.static.load_inference_model(os.path.join(at, "infer"), exe)
            (predicted,) = exe.run(program, feed=feed(), fetch_list=fetched)
            numpy.save(os.path.join(at, "predicted.npy"), predicted)


def apart(given, wanted):
    return float(abs(numpy.asarray(given, "float64") - wanted).max()) if given.shape == wanted.shape else 9.0


def check(folder):
    for model in MODELS:
        at = os.path.join(folder, model)
        wanted = numpy.load(os.path.join(at, "predicted.npy"))
        for form, load in (("inference model", loaded), ("train state", continued)):
            said = {"check": "2.x {} {}".format(model, form)}
            try:
                said["apart"] = apart(load(model, at), wanted)
            except Exception as error:
                said["differs"] = ["{}: {}".format(type(error).__name__, str(error)[-500:])]
            print(json.dumps(said), flush=True)


def loaded(model, at):
    """What a saved inference model predicts."""
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, names, fetched = paddle.static.load_inference_model(os.path.join(at, "infer"), exe)
        given = {name: feed()[name] for name in names}
        return exe.run(program, feed=given, fetch_list=fetched)[0]


def continued(model, at):
    """What the same model predicts with the parameters of the other side."""
    names = paddle.base.unique_name
    with names.guard(), paddle.static.scope_guard(paddle.static.Scope()):
        main, startup, _, out = built(model)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        paddle.static.load(main, os.path.join(at, "train"), exe)
        test = main.clone(for_test=True)
        test = test._prune([out]) if hasattr(test, "_prune") else test
        return exe.run(test, feed={k: v for k, v in feed().items() if test.global_block().has_var(k)}, fetch_list=[out.name])[0]


if __name__ == "__main__":
    {"save": save, "check": check}[sys.argv[1]](sys.argv[2])
