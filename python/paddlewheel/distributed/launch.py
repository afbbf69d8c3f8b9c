"""`python -m paddle.distributed.launch`, and `fleetrun`: starts the processes of a training.

With `--server_num`, `--worker_num`, `--servers`, `--workers` or `--run_mode ps` they are parameter servers and
trainers, as in version 2; else trainers alone.
"""

import sys

from .._cli import main

#: What version 2 calls the options of `launch_ps`.
NAMES = {"--trainer_num": "--worker_num", "--servers": "--endpoints"}
PS = {"--server_num", "--worker_num", "--trainer_num", "--servers", "--workers"}
#: Options of version 2 that need no value of ours: processes find each other by themselves.
UNUSED = {"--gloo_port", "--http_port", "--run_mode", "--devices", "--gpus", "--nnodes", "--job_id", "--master", "--rank"}


def _options(argv):
    """Pairs of option and value (None for a flag), and the script with its arguments."""
    pairs, at = [], 0
    while at < len(argv) and argv[at].startswith("-"):
        name, is_joined, value = argv[at].partition("=")
        is_flag = not is_joined and (at + 1 == len(argv) or argv[at + 1].startswith("-"))
        if not is_joined and not is_flag and name in PS | UNUSED | {"--log_dir", "--ips"}:
            value, at = argv[at + 1], at + 1
        pairs.append((name, value if value or is_joined else None))
        at += 1
    return pairs, argv[at:]


def translated(argv):
    """The words of our own command for those of `paddle.distributed.launch`."""
    pairs, script = _options(argv)
    given = dict(pairs)
    if not PS & set(given) and given.get("--run_mode") != "ps":
        return ["launch", *argv]
    words = ["launch_ps"]
    for name, value in pairs:
        if name in UNUSED:
            continue
        if name == "--workers":
            name, value = "--worker_num", str(_on_this_machine(value))
        elif name == "--ips":
            name = "--cluster_node_ips"
        elif name == "--servers":
            _on_this_machine(value)
        words.append(NAMES.get(name, name))
        words.extend([] if value is None else [value])
    return words + script


def _on_this_machine(endpoints):
    """How many end points there are; an error if they are on several machines."""
    endpoints = endpoints.split(",")
    if len({endpoint.partition(":")[0] for endpoint in endpoints}) > 1:
        raise SystemExit(
            "several machines: start `paddlewheel launch_ps --cluster_node_ips ... --node_ip ...` on each of them"
        )
    return len(endpoints)


def launch(argv=None):
    """Starts the processes, waits for them, and ends with their exit code."""
    sys.exit(main(translated(sys.argv[1:] if argv is None else list(argv))))


if __name__ == "__main__":
    launch()
