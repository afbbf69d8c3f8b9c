"""Processes of real jobs are killed at random moments; the jobs save the files that they should.

`make soak` does the same much longer; rig/kills.py says what is drawn and compared.
"""

import os
import subprocess
import sys

import pytest
from conftest import HERE

KILLS = os.path.join(HERE, "rig", "kills.py")


@pytest.mark.parametrize(
    "mode, source, kills",
    [
        ("sync", "dataset", 5),
        ("sync", "run", 5),
        ("sync", "pipe", 2),
        ("async", "dataset", 3),
        ("half_async", "run", 2),
        ("geo", "run", 2),
        ("ssp", "dataset", 1),
    ],
)
def test_jobs_survive_kills(mode, source, kills):
    command = [sys.executable, KILLS, "--mode", mode, "--source", source, "--kills", str(kills)]
    done = subprocess.run(
        command + ["--between", "0.3", "1.0"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert done.stdout.rstrip().endswith(" passed, 0 failed"), done.stdout


@pytest.mark.parametrize(
    "rig, arguments",
    [
        ("scales.py", ["--kills", "2", "--per_job", "2", "--who", "trainer,launcher"]),
        ("flips.py", ["--flips", "4", "--per_job", "4", "--variants", "scaled"]),
    ],
)
def test_jobs_survive_kills_around_scale_and_flipped_bits(rig, arguments):
    command = [sys.executable, os.path.join(HERE, "rig", rig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("1 passed, 0 failed"), done.stdout


def test_a_process_that_is_killed_while_it_saves_leaves_one_save_whole():
    command = [sys.executable, os.path.join(HERE, "rig", "saves.py"), "--kills", "9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("9 passed, 0 failed"), done.stdout
