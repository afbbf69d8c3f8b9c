"""One side of the exchange: `python side.py fluid|ours save|check FOLDER`.

`save` trains both models a little and leaves them in FOLDER in every form that Fluid has, together
with what they predict. `check` loads what the other side left there and says what differs, a line
of JSON each. Runs unchanged on Fluid 1.8.5 (Python 3.7) and on ours.
"""

import json
import os
import sys

import numpy as np
from models import MODELS, batch

STEPS = 5
PROBE = 100
LOD_TENSOR, SELECTED_ROWS = 7, 8
# A model that was not loaded is at least so far away.
UNLIKE = 1e-3
# How each way to save persistables names its one file; None is a file for each variable.
COMBINED = {"separate": None, "combined": "all"}
PROGRAMS = ["main", "startup", "saved.pdmodel"]
PROGRAMS += ["inference/%s/__model__" % form for form in COMBINED]


def fluid_of(side):
    if side == "ours":
        import paddlewheel.fluid as fluid
    else:
        import paddle.fluid as fluid
    return fluid


class Built:
    """A model in programs, a scope and names of its own."""

    def __init__(self, fluid, model):
        self.fluid, self.model = fluid, model
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.inputs, self.predict, self.measured = MODELS[model](fluid)
        self.test = self.main.clone(for_test=True)._prune([self.predict])
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.exe.run(self.startup)

    def train(self, first, steps):
        """The measurements of some steps (losses, AUCs), one after the other."""
        with self.fluid.scope_guard(self.scope):
            run = lambda step: self.exe.run(
                self.main, feed=batch(self.fluid, self.model, step), fetch_list=self.measured
            )
            return np.array(
                [[said.item() for said in run(step)] for step in range(first, first + steps)]
            )

    def predicted(self, program=None, names=None, target=None):
        """The results of the model, or of one that was loaded, for the probe batch."""
        feed = batch(self.fluid, self.model, PROBE)
        feed = {name: feed[name] for name in names or self.inputs}
        fetch = [self.predict if target is None else target]
        with self.fluid.scope_guard(self.scope):
            return self.exe.run(program or self.test, feed=feed, fetch_list=fetch)[0]


def description(program):
    """Operators and variables of a program, as plain data."""
    return [
        {
            "ops": [operator(op) for op in block.ops],
            "vars": {name: variable(var) for name, var in sorted(block.vars.items())},
        }
        for block in program.blocks
    ]


def operator(op):
    # Those that the file has: `op.attr_names` of ours also lists defaults, as Fluid's does for ops that Python
    # made. The place of Python when the operator was made concerns only the writer.
    attrs = sorted(set(op.desc.attr_names()) - {"op_callstack"})
    return {
        "type": op.type,
        "inputs": {name: list(op.input(name)) for name in sorted(op.input_names)},
        "outputs": {name: list(op.output(name)) for name in sorted(op.output_names)},
        "attrs": {name: plain(op.attr(name)) for name in attrs},
    }


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def variable(var):
    said = {"type": int(var.type), "persistable": bool(var.persistable)}
    # Only tensors and keyed rows have a shape, and only tensors have sequences.
    if said["type"] in (LOD_TENSOR, SELECTED_ROWS):
        said.update(shape=list(var.shape), dtype=int(var.dtype))
    if said["type"] == LOD_TENSOR:
        said.update(lod_level=int(var.lod_level))
    return said


def binary(program):
    """A program's bytes, as either side gives them."""
    ours = getattr(program, "serialize_to_string", None)
    return ours() if ours else program.desc.serialize_to_string()


def save(fluid, folder):
    for model in MODELS:
        at = os.path.join(folder, model)
        os.makedirs(at)
        built = Built(fluid, model)
        built.train(0, STEPS)
        # Written first: Fluid's save_inference_model leaves a `scale` in the program it is given.
        for name, program in (("main", built.main), ("startup", built.startup)):
            with open(os.path.join(at, name), "wb") as file:
                file.write(binary(program))
        with fluid.scope_guard(built.scope):
            fluid.save(built.main, os.path.join(at, "saved"))
            for form, name in COMBINED.items():
                fluid.io.save_persistables(
                    built.exe, os.path.join(at, "persistables", form), built.main, name
                )
                fluid.io.save_inference_model(
                    os.path.join(at, "inference", form),
                    built.inputs,
                    [built.predict],
                    built.exe,
                    built.main,
                    params_filename=name,
                )
        write_programs(fluid, at)
        np.save(os.path.join(at, "predicted.npy"), built.predicted())
        # Taken last: these steps move the parameters that were saved.
        np.save(os.path.join(at, "measured.npy"), built.train(STEPS, STEPS))


def programs(fluid, at):
    """Every program in a folder as this side reads it."""
    for name in PROGRAMS:
        with open(os.path.join(at, name), "rb") as file:
            yield name, description(fluid.Program.parse_from_string(file.read()))


def write_programs(fluid, at):
    with open(os.path.join(at, "programs.json"), "w") as file:
        json.dump(dict(programs(fluid, at)), file)


def check(fluid, folder):
    """Each check with how far the two sides are apart, or with what differs."""
    for model in MODELS:
        at = os.path.join(folder, model)
        for name, run in checks(fluid, model, at):
            try:
                said = run()
            except Exception as error:  # One model that cannot be read must not hide the others.
                said = {"differs": ["%s: %s" % (type(error).__name__, error)]}
            print(json.dumps(dict(said, check="%s %s" % (model, name))), flush=True)


def checks(fluid, model, at):
    for form, name in COMBINED.items():
        yield "save_persistables " + form, lambda: trained_on(
            fluid, model, at, lambda built: fluid.io.load_persistables(
                built.exe, os.path.join(at, "persistables", form), built.main, name
            )
        )
        yield "save_inference_model " + form, lambda: inferred(
            fluid, model, at, os.path.join(at, "inference", form), name
        )
    yield "fluid.save", lambda: trained_on(
        fluid, model, at, lambda built: fluid.load(built.main, os.path.join(at, "saved"), built.exe)
    )
    yield "fluid.save, load_program_state", lambda: trained_on(
        fluid, model, at, lambda built: fluid.io.set_program_state(
            built.main, fluid.io.load_program_state(os.path.join(at, "saved"))
        )
    )
    with open(os.path.join(at, "programs.json")) as file:
        written = json.load(file)
    for name, read in programs(fluid, at):
        yield "program " + name, lambda: {"differs": list(differences(written[name], read, ""))}
    built = Built(fluid, model)
    for name, made in (("main", built.main), ("startup", built.startup)):
        made = description(fluid.Program.parse_from_string(binary(made)))
        yield "program %s, as built here" % name, lambda: {
            "differs": list(differences(*shared(written[name], made), ""))
        }


def shared(written, made):
    """Two descriptions without what only one of them writes.

    Fluid writes every attribute at its default and slots with nothing in them, ours writes those
    that say something. Fluid also numbers a name scope for each parameter's update.
    """
    written, made = (json.loads(json.dumps(blocks)) for blocks in (written, made))
    for left, right in zip(written, made):
        for one, other in zip(left["ops"], right["ops"]):
            for op in (one, other):
                for slots in ("inputs", "outputs"):
                    op[slots] = {slot: names for slot, names in op[slots].items() if names}
            both = set(one["attrs"]) & set(other["attrs"]) - {"op_namescope"}
            for op in (one, other):
                op["attrs"] = {name: op["attrs"][name] for name in both}
    return written, made


def trained_on(fluid, model, at, load):
    """Loads parameters and optimizer state: predicts the same, and continues the same."""
    built = Built(fluid, model)
    predicted = np.load(os.path.join(at, "predicted.npy"))
    if apart(built.predicted(), predicted) < UNLIKE:
        return {"differs": ["a model that was not loaded predicts the same"]}
    with fluid.scope_guard(built.scope):
        load(built)
    said = apart(built.predicted(), predicted)
    measured = apart(built.train(STEPS, STEPS), np.load(os.path.join(at, "measured.npy")))
    return {"apart": max(said, measured)}


def inferred(fluid, model, at, folder, name):
    built = Built(fluid, model)
    with fluid.scope_guard(built.scope):
        program, names, targets = fluid.io.load_inference_model(
            folder, built.exe, params_filename=name
        )
    if names != built.inputs:
        return {"differs": ["feeds %s, not %s" % (names, built.inputs)]}
    said = built.predicted(program, names, targets[0])
    return {"apart": apart(said, np.load(os.path.join(at, "predicted.npy")))}


def apart(left, right):
    """The largest difference; relative where the numbers are larger than one."""
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        raise ValueError("shapes %s and %s" % (left.shape, right.shape))
    return float((np.abs(left - right) / np.maximum(1, np.abs(right))).max())


def differences(written, read, path):
    """Where two descriptions differ."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key in sorted(set(written) | set(read)):
            if key in written and key in read:
                yield from differences(written[key], read[key], path + "/" + key)
            else:
                where = "is missing" if key in written else "is extra"
                yield "%s/%s %s" % (path, key, where)
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for index, (left, right) in enumerate(zip(written, read)):
            yield from differences(left, right, "%s/%d" % (path, index))
    elif written != read:
        yield "%s: %s, not %s" % (path, read, written)


def main():
    side, action, folder = sys.argv[1:]
    {"save": save, "check": check}[action](fluid_of(side), folder)


if __name__ == "__main__":
    main()
