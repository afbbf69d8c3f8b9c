"""Memory that runs out, wherever that is: an error that names the bytes, in a process that goes on."""

import os
import sys

import pytest

from conftest import HERE

SCARCE = os.path.join(HERE, "jobs", "scarce.py")
sys.path.insert(0, os.path.join(HERE, "jobs"))
import scarce  # noqa: E402


@pytest.mark.parametrize("case", sorted(scarce.CASES))
def test_no_memory_is_an_error_and_the_process_goes_on(child, case):
    ended = child(SCARCE, case)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = ended.stdout.splitlines()
    assert said[-1] == "goes on", ended.stdout + ended.stderr
    # It began too scarce and had enough in the end.
    refused = said[:-1]
    assert refused, ended.stdout + ended.stderr
    for line in refused:
        kind, _, text = line.partition(": ")
        assert kind in ("EnforceNotMet", "MemoryError", "_ArrayMemoryError"), line
        assert "memory" in text or "allocate" in text, line
        assert "MB" in text or "MiB" in text or "GiB" in text or "kB" in text, line
