"""The command `paddlewheel`."""

import importlib.util
import os
import signal
import sys

ALIAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_alias")

USAGE = """usage: paddlewheel run [python options] script.py [arguments]
       paddlewheel launch_ps [options] script [arguments]
       paddlewheel launch [options] script [arguments]
       paddlewheel scale DIR --servers N
       paddlewheel watch HOST:PORT …
       paddlewheel render k8s|jobset|slurm [options] script [arguments]
       paddlewheel serve DIR [--follow] [--host HOST] [--port PORT] [options]
       paddlewheel fit FILE --target COLUMN [options]
       paddlewheel criteo-reader N [options], paddlewheel csv-reader SLOT=COLUMN …,
       paddlewheel parquet-reader SLOT=COLUMN …
       paddlewheel make-criteo FOLDER [--rows N] [--files N] [--seed N]
       paddlewheel show DIR, paddlewheel export DIR --to onnx|safetensors|parquet,
       paddlewheel import DIR TABLE FILE
       paddlewheel --version

`paddlewheel run` is `python` with `import paddle` meaning `import paddlewheel`; so it does in
scripts that the launchers start. `launch_ps` starts parameter servers and trainers, `launch`
trainers alone; `scale` gives a running job another number of servers; `watch` shows a running job on a page
(so does `launch_ps --web`); `render` prints what to
submit to a cluster; `serve` answers predictions of a saved model over HTTP, on this machine only
unless another `--host` is named; `fit` trains a click-through model on
a table; `--help` behind them says more. The readers are pipe commands of a dataset: text
on standard input becomes samples on standard output; a dataset that is told to use one does the
same without a process. `make-criteo` makes up click logs to try things with. `show` says what a
saved folder holds, `export` writes it in other formats, `import` puts rows into its tables;
`--help` behind them says more."""


READERS = ["criteo-reader", "csv-reader", "parquet-reader"]
FOLDER_COMMANDS = ["show", "export", "import"]
COMMANDS = [
    "run", "launch_ps", "launch", "scale", "watch", "render", "serve", "fit", *READERS, "make-criteo",
    *FOLDER_COMMANDS, "version", "help",
]


def is_ours(spec):
    """Whether a module found as `paddle` is our alias."""
    if spec.origin is None or not os.path.isfile(spec.origin):
        return False
    with open(spec.origin, encoding="utf-8", errors="replace") as file:
        return "paddlewheel._paddle" in file.read()


def warn_of_another_paddle():
    """Says that ours is used, if there is another."""
    spec = importlib.util.find_spec("paddle")
    if spec is not None and not is_ours(spec):
        where = os.path.dirname(spec.origin) if spec.origin else "this environment"
        text = "paddlewheel: `import paddle` means paddlewheel here, not the one in " + where
        print(text, file=sys.stderr)


def run(arguments):
    """Becomes the interpreter, with the alias before all installed packages."""
    warn_of_another_paddle()
    environment = dict(os.environ)
    paths = [ALIAS, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    # Readers make ids with `hash`, which must be the same in every process and every run.
    environment["PYTHONHASHSEED"] = environment.get("PYTHONHASHSEED") or "0"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def start(launcher, arguments):
    """Runs a launcher; returns the exit code."""
    from paddlewheel._core import fleet

    return getattr(fleet, launcher)(arguments, sys.executable, ALIAS)


def render(arguments):
    """Prints what to submit to a cluster; returns the exit code."""
    from paddlewheel._core import fleet

    try:
        print(fleet.render(arguments), end="")
    except ValueError as error:
        print("paddlewheel render:", error, file=sys.stderr)
        return 2
    return 0


def work(arguments):
    """Is the pipe command of a dataset, makes up clicks, or looks at a saved folder; returns the exit code."""
    from paddlewheel import _core

    # While the core is busy, nobody would look at what Python notes of Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if arguments[0] == "make-criteo":
            print(_core.make_criteo(arguments[1:]))
        elif arguments[0] in FOLDER_COMMANDS:
            print(_core.run_folder_command(arguments), end="")
        elif arguments[0] == "fit":
            _core.fit_command(arguments[1:])
        else:
            _core.run_reader(arguments)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        print("paddlewheel:", error, file=sys.stderr)
        return 1
    return 0


def serve(arguments):
    """Answers predictions over HTTP until a signal comes; returns the exit code."""
    import argparse

    from paddlewheel import _core

    parser = argparse.ArgumentParser(prog="paddlewheel serve", description="Predictions over HTTP.")
    add = parser.add_argument
    add("dirname", metavar="DIR", help="a folder that save_inference_model wrote")
    add("--follow", action="store_true", help="takes over newer models in the folder")
    add("--every", type=float, default=1.0, help="seconds between two looks at the folder")
    add("--host", default="127.0.0.1", help="the address to listen on (this machine only)")
    add("--port", type=int, default=8866, help="the port; 0 for any that is free")
    add("--threads", type=int, help="threads that predict (one for each core)")
    add("--model_filename", help="the file of the program, if it is not __model__")
    add("--params_filename", help="the file of all parameters, if there is one")
    add("--connections", type=int, help="connections at the same time (256)")
    add("--request_bytes", type=int, help="bytes of one request (16777216)")
    add("--total_bytes", type=int, help="bytes of all requests in memory (268435456)")
    add("--queued_samples", type=int, help="samples that may wait (8192)")
    add("--batch_samples", type=int, help="samples that are predicted at once (1024)")
    add("--deadline", type=float, help="seconds that a request may wait for its prediction (1)")
    add("--client_timeout", type=float, help="seconds that a client may take for a request (10)")
    options = vars(parser.parse_args(arguments))
    folder = options.pop("dirname")
    # The usual way of ending a server is no error.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _core.serve(folder, lambda at: print("serving on http://" + at, flush=True), **options)
    except KeyboardInterrupt:
        return 0
    except (RuntimeError, ValueError, OSError, OverflowError) as error:
        print("paddlewheel:", error, file=sys.stderr)
        return 1


def main(argv=None):
    """Entry point of the command; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["run"] and len(arguments) > 1:
        return run(arguments[1:])
    if arguments[:1] in (["launch_ps"], ["launch"], ["scale"], ["watch"]):
        return start(arguments[0], arguments[1:])
    if arguments[:1] == ["render"]:
        return render(arguments[1:])
    if arguments[:1] == ["serve"]:
        return serve(arguments[1:])
    if arguments[:1] == ["fit"]:
        return work(arguments)
    if arguments and arguments[0] in (*READERS, "make-criteo", *FOLDER_COMMANDS):
        return work(arguments)
    if arguments in (["--version"], ["version"]):
        from paddlewheel import __version__, _core

        print("paddlewheel {}, answers to Fluid {}".format(_core.__version__, __version__))
        return 0
    if arguments in (["--help"], ["-h"], ["help"]):
        print(USAGE)
        return 0
    print(USAGE, file=sys.stderr)
    if arguments and arguments[0] not in COMMANDS:
        from paddlewheel import _core

        text = "paddlewheel: there is no command `{}`.".format(arguments[0])
        print(text + _core.did_you_mean(arguments[0], COMMANDS), file=sys.stderr)
    elif arguments:
        print("paddlewheel: {} needs a script".format(arguments[0]), file=sys.stderr)
    return 2
