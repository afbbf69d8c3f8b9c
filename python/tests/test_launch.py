"""The launchers, as users call them."""

import os
import subprocess
import sys

import pytest
from clusters import wait_until
from conftest import PACKAGES

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
    assert result.stderr.endswith("all parameter server are killed\nthe job has finished\n")
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


#: Writes lines in pieces, as Python does without a buffer; the last one has no end.
PIECES = """
import os, signal, sys
who = os.environ["PADDLE_TRAINER_ID"]
for n in range(300):
    for stream in (1, 2):
        for piece in ("worker ", who, " line ", str(n), "\\n"):
            os.write(stream, piece.encode())
os.write(1, ("worker %s says no more" % who).encode())
if "killed" in sys.argv and who == "1":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("words, code", [((), 0), (("killed",), 1)])
def test_workers_that_share_the_output_write_whole_lines(child, tmp_path, words, code):
    (tmp_path / "train.py").write_text(PIECES)
    result = child("-m", "paddle.distributed.launch", "--nproc_per_node", "3", "train.py", *words, alias=True)
    assert result.returncode == code, result.stderr
    for text in (result.stdout, result.stderr):
        lines = text.splitlines()
        for who in ("1",) if code else "012":
            own = [line for line in lines if line.startswith("worker %s line" % who)]
            assert own == ["worker %s line %d" % (who, n) for n in range(300)], text
    # Nothing is glued to anything, and the last words of one that was killed are there.
    assert "worker 1 says no more" in result.stdout.splitlines(), result.stdout
    if code:
        last = result.stderr.rindex("worker 1 line 299\n")
        assert last < result.stderr.index("was killed by "), "what it said comes before how it ended"


def test_a_reader_that_is_slow_gets_everything(tmp_path):
    text = """
import os, sys
open("begun-" + os.environ["PADDLE_TRAINER_ID"], "w").close()
for n in range(20000):
    sys.stdout.write("%d %s\\n" % (n, "x" * 50))
"""
    (tmp_path / "train.py").write_text(text)
    command = [sys.executable, "-m", "paddlewheel", "launch", "--nproc_per_node", "2", "train.py"]
    environment = {**os.environ, "PYTHONPATH": PACKAGES}
    job = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        # Nothing is read before; their output is much more than pipes hold.
        wait_until("both write", lambda: all((tmp_path / ("begun-%d" % at)).exists() for at in range(2)))
        said, _ = job.communicate(timeout=60)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 0
    assert said.count("\n") == 40000 and said.count("x" * 50 + "\n") == 40000


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
