"""The single-machine program of the distributed training guide, character by character."""

import os
import time

from conftest import HERE

SCRIPT = os.path.join(HERE, "seeds", "fit_a_line_single.py")
DOCUMENT = os.path.join(HERE, *[".."] * 3, "shared", "seeds", "000_3a72be38772427e6.txt")


def test_the_script_is_the_documents():
    """Where the document is at hand, the script equals its first program."""
    with open(SCRIPT, encoding="utf-8") as file:
        script = file.read()
    assert script.startswith("import paddle.v2 as paddle\n")
    if os.path.exists(DOCUMENT):
        with open(DOCUMENT, encoding="utf-8") as file:
            assert script == file.read().split("```python\n")[1].split("```")[0]


def test_it_trains_under_the_command(child):
    start = time.monotonic()
    result = child("-m", "paddlewheel", "run", SCRIPT)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - start < 30


def test_it_trains_under_the_alias(child, tmp_path):
    result = child(SCRIPT, alias=True)
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path / "fit_a_line.model"))[:2] == ["fc_0.b_0", "fc_0.w_0"]
