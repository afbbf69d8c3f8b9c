"""`paddlewheel completion`: the real shells complete with what it prints, installed as its help says."""

import os
import pty
import shutil
import subprocess
import sys

import pytest
from clusters import wait_until
from conftest import PACKAGES

#: The words so far, and how the last one is completed.
CASES = [
    ("launch_", "launch_ps"),
    ("launch_ps --worker", "--worker_num"),
    ("launch_ps --on sl", "slurm"),
    ("export model --to on", "onnx"),
]


def script(shell):
    """The output of the command for a shell."""
    command = [sys.executable, "-m", "paddlewheel", "completion", shell]
    environment = {**os.environ, "PYTHONPATH": PACKAGES}
    return subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60).stdout


def installed(shell):
    """The path of a shell, or no test."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip("%s is not installed: apt-get install %s" % (shell, shell))
    return path


def test_fish_completes(tmp_path):
    fish, folder = installed("fish"), tmp_path / ".config" / "fish" / "completions"
    folder.mkdir(parents=True)
    (folder / "paddlewheel.fish").write_bytes(script("fish"))
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    # A command that is not there is not completed.
    (tmp_path / "paddlewheel").touch(mode=0o755)
    environment["PATH"] = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    for line, wanted in CASES:
        ask = [fish, "-c", "complete --do-complete='paddlewheel %s'" % line]
        done = subprocess.run(ask, env=environment, capture_output=True, text=True, timeout=60)
        offered = [one.split("\t")[0] for one in done.stdout.splitlines()]
        assert offered == [wanted], (line, done.stdout, done.stderr)


#: Function keys of the test: they write the line to a file and clear it.
ZSHRC = """
fpath=(~/.zfunc $fpath)
autoload -Uz compinit && compinit -u -D
report() { print -r -- "$BUFFER" >> ~/lines; BUFFER= }
zle -N report
bindkey '^X' report
precmd() { touch ~/ready }
"""


def test_zsh_completes(tmp_path):
    zsh = installed("zsh")
    (tmp_path / ".zfunc").mkdir()
    (tmp_path / ".zfunc" / "_paddlewheel").write_bytes(script("zsh"))
    (tmp_path / ".zshrc").write_text(ZSHRC)
    lines = tmp_path / "lines"
    environment = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "xterm"}
    ours, its = pty.openpty()
    own = {"stdin": its, "stdout": its, "stderr": its, "start_new_session": True, "cwd": str(tmp_path)}
    shell = subprocess.Popen([zsh, "-i"], env=environment, **own)
    os.close(its)
    os.set_blocking(ours, False)
    shown = []

    def drawn():
        """Takes what the shell draws, so that it never waits for its terminal."""
        try:
            shown.append(os.read(ours, 65536))
        except BlockingIOError:
            pass
        assert shell.poll() is None, b"".join(shown)
        return b"".join(shown).decode(errors="replace")

    def got(n):
        drawn()
        return lines.exists() and len(lines.read_text().splitlines()) == n

    try:
        wait_until("a prompt", lambda: drawn() and (tmp_path / "ready").exists(), context=drawn)
        for at, (line, wanted) in enumerate(CASES):
            os.write(ours, ("paddlewheel %s\t\x18" % line).encode())
            wait_until(line, lambda: got(at + 1), context=drawn)  # noqa: B023
            # An option that has a value may end with the sign before it.
            last = lines.read_text().splitlines()[at].split()[-1]
            assert last.rstrip("=") == wanted, (line, last, drawn())
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
