"""Faults of the disk of a job's snapshots, and of its processes, short of death.

    python faults.py [--rounds 10]

runs the tests of ../test_recovery_faults.py again and again. The first round that fails ends it; its number is the exit code.
"""

import argparse
import errno
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def why_no_disk():
    """Why a small disk cannot be made here; nothing if it can."""
    if os.geteuid() != 0:
        return "only root may mount a small disk"
    return None


class SmallDisk:
    """A disk in memory that can be filled, and made read-only while files on it are open."""

    def __init__(self, folder, megabytes):
        self.folder = str(folder)
        self.filler = os.path.join(self.folder, "filler")
        self.n_mounts = 0
        os.makedirs(self.folder, exist_ok=True)
        self._mount("-t", "tmpfs", "-o", "size=%dm" % megabytes, "tmpfs", self.folder)

    def _mount(self, *arguments, adds=True):
        subprocess.run(["mount", *arguments], check=True)
        self.n_mounts += adds

    def _unmount(self):
        # Processes of a job may hold it open a moment longer than they live.
        subprocess.run(["umount", "--lazy", self.folder], check=True)
        self.n_mounts -= 1

    def fill(self):
        """Leaves no space."""
        with open(self.filler, "ab", buffering=0) as file:
            n_bytes = 1 << 20
            while n_bytes:
                try:
                    file.write(bytes(n_bytes))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    n_bytes //= 2

    def free(self):
        """Gives the space back."""
        os.remove(self.filler)

    def forbid_writing(self):
        """Read-only for every process that opens a file from now on."""
        self._mount("--bind", self.folder, self.folder)
        self._mount("-o", "remount,ro,bind", self.folder, adds=False)

    def allow_writing(self):
        """As before."""
        self._unmount()

    def close(self):
        """Takes it away."""
        while self.n_mounts:
            self._unmount()


def damage_newest_cuts(folder, n):
    """Changes a byte in the middle of each of the newest files of a server's folder, and of their second copies; returns their names."""
    names = [name for name in os.listdir(folder) if re.fullmatch(r"(cut|base)\.\d+", name)]
    newest = sorted(names, key=lambda name: int(name.split(".")[1]))[-n:]
    for name in newest + [name + ".again" for name in newest]:
        path = os.path.join(folder, name)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x10]))
    return newest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    tests = os.path.join(os.path.dirname(HERE), "test_recovery_faults.py")
    for at in range(1, parser.parse_args().rounds + 1):
        long = dict(os.environ, SERVER_SECS="25")
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", tests], env=long)
        print("round %d: %s" % (at, "as it should be" if done.returncode == 0 else "FAILED"), flush=True)
        if done.returncode:
            sys.exit(at)


if __name__ == "__main__":
    main()
