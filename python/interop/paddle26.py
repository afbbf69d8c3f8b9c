"""Paddle 2.6.2 loads the inference models in FOLDER: `python paddle26.py FOLDER`."""

import json
import os
import sys

import numpy as np
import paddle
from models import MODELS, batch
from side import COMBINED, PROBE, apart


def predicted(model, folder, name):
    """Paddle's results for the probe batch with a model that another program saved."""
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, names, targets = paddle.static.load_inference_model(
            folder, exe, model_filename="__model__", params_filename=name
        )
        feed = batch(paddle.base, model, PROBE)
        feed = {name: feed[name] for name in names}
        return exe.run(program, feed=feed, fetch_list=targets)[0]


def main():
    (folder,) = sys.argv[1:]
    paddle.enable_static()
    for model in MODELS:
        at = os.path.join(folder, model)
        wanted = np.load(os.path.join(at, "predicted.npy"))
        for form, name in COMBINED.items():
            said = {"check": "%s load_inference_model %s" % (model, form)}
            try:
                given = predicted(model, os.path.join(at, "inference", form), name)
                said["apart"] = apart(given, wanted)
            except Exception as error:  # One model that cannot be read must not hide the others.
                said["differs"] = ["%s: %s" % (type(error).__name__, error)]
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
