"""Exchanges models between ours, Fluid 1.8.5 and Paddle 2.6.2, each in processes of its own.

    python run.py --fluid FLUID_PYTHON --paddle PADDLE26_PYTHON

Prints a line for each check; ends with a non-zero status if one does not hold.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1e-6
MINUTES = 10


def process(python, script, *arguments):
    """The output of a script; an exception with all of it if it failed."""
    done = subprocess.run(
        [python, os.path.join(HERE, script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=60 * MINUTES,
    )
    if done.returncode:
        raise SystemExit(f"{python} {script} {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def report(who, printed):
    """Prints the checks of one process; returns how many there were, and how many failed."""
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    failed = 0
    for said in lines:
        differs, apart = said.get("differs", []), said.get("apart", 0.0)
        holds = not differs and apart <= LIMIT
        failed += not holds
        measured = f"apart={apart:.1e}" if "apart" in said else f"differs={len(differs)}"
        print(f"{'ok  ' if holds else 'FAIL'} {who}: {said['check']} {measured}")
        for line in differs:
            print(f"       {line}")
    return len(lines), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fluid", required=True, help="a Python with paddlepaddle==1.8.5")
    parser.add_argument("--paddle", required=True, help="a Python with paddlepaddle==2.6.2")
    given = parser.parse_args()
    pythons = {"ours": sys.executable, "fluid": given.fluid}
    with tempfile.TemporaryDirectory() as folder:
        for side, python in pythons.items():
            process(python, "side.py", side, "save", os.path.join(folder, side))
        results = [
            report(f"{saved} -> {side}", process(pythons[side], "side.py", side, "check", at))
            for side, saved, at in (
                ("ours", "fluid", os.path.join(folder, "fluid")),
                ("fluid", "ours", os.path.join(folder, "ours")),
            )
        ]
        results += [
            report(f"{side} -> paddle 2.6", process(given.paddle, "paddle26.py", at))
            for side, at in ((side, os.path.join(folder, side)) for side in pythons)
        ]
    failed = sum(failed for _, failed in results)
    print(f"INTEROP checks={sum(count for count, _ in results)} failed={failed}")
    # A process that checked nothing proves nothing.
    sys.exit(bool(failed) or not all(count for count, _ in results))


if __name__ == "__main__":
    main()
