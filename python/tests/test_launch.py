"""The launchers, as users call them."""

import pytest

TRAIN = """
import os, sys, time
import paddle
from paddle.fluid.incubate.fleet.base import role_maker
role = role_maker.PaddleCloudRoleMaker()
role.generate_role()
print("I am", "server" if role.is_server() else "worker", role.worker_index(), sys.argv[1:])
assert "http_proxy" not in os.environ
if role.is_server():
    time.sleep(1000)
if "fail" in sys.argv and role.worker_index() == 1:
    raise ValueError("no such file: part-7")
"""


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "paddlewheel", "launch_ps"),
        ("-m", "paddlewheel.distributed.launch_ps"),
        ("-m", "paddle.distributed.launch_ps"),
    ],
)
def test_a_job_of_two_and_two(child, tmp_path, command):
    (tmp_path / "train.py").write_text(TRAIN)
    options = ("--worker_num", "2", "--server_num", "2", "train.py", "--is_cloud=1")
    environment = {"http_proxy": "http://nowhere"}
    result = child(*command, *options, alias=command[1] != "paddlewheel", environment=environment)
    assert result.returncode == 0, result.stderr
    assert "all workers exit, going to finish parameter server\n" in result.stderr
    assert result.stderr.endswith("all parameter server are killed\n")
    for who in ("server", "worker"):
        for index in (0, 1):
            log = (tmp_path / "logs" / "{}log.{}".format(who, index)).read_text()
            assert "I am {} {} ['--is_cloud=1']\n".format(who, index) in log


def test_the_culprit_is_named(child, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    result = child("-m", "paddlewheel", "launch_ps", "train.py", "fail")
    assert result.returncode == 1
    assert "worker 1 (pid" in result.stderr and "failed with exit code 1" in result.stderr
    assert "  | ValueError: no such file: part-7\n" in result.stderr


def test_trainers_alone(child, tmp_path):
    script = "import os\nprint(os.environ['PADDLE_TRAINER_ID'], os.environ['PADDLE_TRAINERS_NUM'])"
    (tmp_path / "train.py").write_text(script)
    options = ("--nproc_per_node", "2", "--log_dir", "out", "train.py")
    result = child("-m", "paddle.distributed.launch", *options, alias=True)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "workerlog.1").read_text() == "1 2\n"


def test_a_command_line_that_makes_no_sense(child):
    result = child("-m", "paddlewheel", "launch_ps", "--workers", "2", "train.py")
    assert result.returncode == 2 and "error: unexpected argument '--workers'" in result.stderr
    result = child("-m", "paddlewheel", "launch_ps")
    assert result.returncode == 2 and "<SCRIPT>" in result.stderr
    assert child("-m", "paddlewheel", "launch", "--help").returncode == 0


HASH = "print(hash('feature:7'))"


def test_all_processes_of_a_job_have_one_hash(child, tmp_path):
    (tmp_path / "train.py").write_text(HASH)
    zero = child("train.py", environment={"PYTHONHASHSEED": "0"}).stdout
    assert child("-m", "paddlewheel", "run", "train.py", environment={"PYTHONHASHSEED": ""}).stdout == zero
    options = ("--nproc_per_node", "2", "--log_dir", "out", "train.py")
    command = ("-m", "paddle.distributed.launch")
    for seed, same in (("", True), ("7", False)):
        result = child(*command, *options, alias=True, environment={"PYTHONHASHSEED": seed})
        assert result.returncode == 0, result.stderr
        logs = {(tmp_path / "out" / "workerlog.{}".format(n)).read_text() for n in (0, 1)}
        assert len(logs) == 1 and (logs == {zero}) == same, "the user's word goes first"
