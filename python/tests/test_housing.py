"""A script that says `import paddle`, under the command and under the alias."""

import os

from conftest import PROGRAMS, saved_in

SCRIPT = os.path.join(PROGRAMS, "housing.py")


def test_it_trains_under_the_command(child):
    result = child("-m", "paddlewheel", "run", SCRIPT)
    assert result.returncode == 0, result.stderr


def test_it_trains_under_the_alias(child, tmp_path):
    result = child(SCRIPT, alias=True)
    assert result.returncode == 0, result.stderr
    saved = saved_in(tmp_path / "housing.model")
    assert saved == ["fc_0.b_0", "fc_0.w_0", "learning_rate_0"]
