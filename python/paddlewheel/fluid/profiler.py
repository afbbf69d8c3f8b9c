"""Measures how long operators take: a table as Fluid prints it, and a trace for Chrome's about:tracing."""

import contextlib
import json
import os

from .. import _core

STATES = ("CPU", "GPU", "All")
OPTIONS = ("Default", "OpDetail", "AllOpDetail")

#: How the table may be sorted, and what Fluid calls it.
SORTED = {
    "calls": "number of calls",
    "total": "total time",
    "max": "maximum time",
    "min": "minimum time",
    "ave": "average time",
}
HEAD = "\n------------------------->     Profiling Report     <-------------------------\n"


@contextlib.contextmanager
def profiler(state, sorted_key=None, profile_path="/tmp/profile", tracer_option="Default"):
    """Measures inside the `with`."""
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def start_profiler(state, tracer_option="Default"):
    """Begins to measure."""
    if state not in STATES:
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in OPTIONS:
        raise ValueError("tracer option must be 'Default', 'OpDetail', 'AllOpDetail'.")
    _core.profiler_start()


def stop_profiler(sorted_key=None, profile_path="/tmp/profile"):
    """Ends measuring: prints the table, and writes the trace to `profile_path`."""
    key = "default" if sorted_key is None else sorted_key
    if key not in ("default", *SORTED):
        raise ValueError(
            "The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'"
        )
    times, runs = _core.profiler_stop()
    print(_table(times, key))
    if profile_path:
        _write_trace(runs, profile_path)


def reset_profiler():
    """Forgets what was measured."""
    _core.profiler_reset()


def _rows(times):
    """One row for each type of operator: calls, and milliseconds in total, at least, at most, on average."""
    found = {}
    for op, calls, total, least, most in times:
        row = found.setdefault(op, {"calls": 0, "total": 0.0, "min": least, "max": most})
        row["calls"] += calls
        row["total"] += total
        row["min"] = min(row["min"], least)
        row["max"] = max(row["max"], most)
    for row in found.values():
        row["ave"] = row["total"] / row["calls"]
    return found


def _table(times, key):
    rows = list(_rows(times).items())
    order = "event first end time"
    if key != "default":
        order = SORTED[key]
        rows.sort(key=lambda row: row[1][key], reverse=key != "min")
    all_times = sum(row["total"] for _, row in rows) or 1.0
    direction = "ascending" if key in ("default", "min") else "descending"
    lines = [HEAD, "Place: CPU", "Time unit: ms"]
    lines.append("Sorted by {} in {} order in the same thread\n".format(order, direction))
    width = max([len(op) for op, _ in rows] + [len("Event")]) + 4
    titles = ("Calls", "Total", "Min.", "Max.", "Ave.", "Ratio.")
    lines.append("Event".ljust(width) + "".join(title.ljust(12) for title in titles))
    for op, row in rows:
        numbers = [row["total"], row["min"], row["max"], row["ave"], row["total"] / all_times]
        cells = [str(row["calls"])] + ["%.6g" % number for number in numbers]
        lines.append(op.ljust(width) + "".join(cell.ljust(12) for cell in cells))
    return "\n".join(lines) + "\n"


def _write_trace(runs, path):
    """Each run of an operator as an event: Chrome counts microseconds."""
    events = [
        {"name": op, "cat": "Op", "ph": "X", "ts": begin * 1e3, "dur": time * 1e3, "pid": 0, "tid": 0}
        for op, begin, time in runs
    ]
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


@contextlib.contextmanager
def cuda_profiler(output_file, output_mode=None, config=None):
    """Accepted: there is no graphics card."""
    yield
