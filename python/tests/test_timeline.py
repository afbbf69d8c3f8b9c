"""The script that draws the pictures of docs/guides/modes.md reads the messages of today's protocol."""

import os

from conftest import HERE

SCRIPT = os.path.join(HERE, os.pardir, os.pardir, "docs", "tools", "timeline.py")


def test_a_sync_step_is_seen_on_the_wire(child):
    ended = child("-m", "paddlewheel", "run", SCRIPT, "sync", "--text")
    assert ended.returncode == 0, ended.stderr
    lines = [line.split() for line in ended.stdout.splitlines()]
    said = {(line[2], line[5], line[7]) for line in lines}
    for message in ("look-up", "push", "barrier", "pull"):
        assert ("trainer", "server", message) in said, ended.stdout
    for message in ("rows", "parameters"):
        assert ("server", "trainer", message) in said, ended.stdout
