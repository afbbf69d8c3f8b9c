"""Kills processes while they save into one folder again and again, and looks what a reader finds there.

    python saves.py --kills 200 --seed 0 [--what alone,cluster]

Every kill is `kill -9` at a moment drawn by the seed: alone of the process that saves, in each way that there is in turn; in a cluster of
one trainer and two servers of one of them. Then a reader must find the last save that was done, or the next one, whole. A killed
process is started again and saves into the same folder. The last line is `N passed, M failed`.
"""

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import saver

HERE = os.path.dirname(os.path.abspath(__file__))
SAVER = os.path.join(HERE, "saver.py")
#: Numbers of one process; no process saves so often.
STRIDE = 4096
#: A process that has not saved by then does not.
LIMIT = 60


def free_endpoints(n):
    """Free end points."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ["127.0.0.1:%d" % port for port in ports]


class Savers:
    """The processes that save: one, or a trainer and two servers."""

    def __init__(self, folder, way, start, is_job):
        self.processes = []
        command = [sys.executable, "-u", SAVER, way, "saved", str(start)]
        roles = [{}]
        if is_job:
            servers = free_endpoints(2)
            job = {"TRAINING_ROLE": "any", "SERVERS": ",".join(servers)}
            roles = [job] + [{**job, "SERVER": one} for one in servers]
        self.log = open(os.path.join(folder, "log"), "ab")
        for role in roles:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **role},
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
            )
            self.processes.append(process)

    def saved(self):
        """The number of the next save that is done; None at the end."""
        line = self.processes[0].stdout.readline()
        return int(line) if line.strip() else None

    def kill(self, victim):
        """Kills one, then the others; the number of the last save that was done after those that were read."""
        for process in [self.processes[victim]] + self.processes:
            process.kill()
            process.wait()
        numbers = [number for number in iter(self.saved, None)]
        self.log.close()
        return numbers[-1] if numbers else None


def try_once(rng, folder, way, at, is_job):
    """Kills once; returns what is wrong, if anything is, and whether the kill came in the middle of a save."""
    savers = Savers(folder, way, STRIDE * (at + 1), is_job)
    # A process that hangs is killed, and has saved nothing more then.
    watchdog = threading.Timer(LIMIT, lambda: [process.kill() for process in savers.processes])
    watchdog.start()
    first = savers.saved()
    # A moment of the saves that follow.
    time.sleep(rng.random() * (0.25 if is_job else 0.06))
    last = savers.kill(rng.randrange(len(savers.processes))) or first
    watchdog.cancel()
    saved = os.path.join(folder, "saved")
    is_amid = any(is_left(name) for _, names, _ in os.walk(saved) for name in names)
    if first is None:
        return "nothing was saved", is_amid
    try:
        found = (saver.loaded_by_servers if is_job else saver.loaded)(way, saved)
    except Exception as error:  # After any error the folder cannot be loaded.
        return "%s: %s" % (type(error).__name__, error), is_amid
    if len(found) == 1 and found <= {last, last + 1}:
        return None, is_amid
    return "%s after save %d was done" % (sorted(found), last), is_amid


def is_left(name):
    """Whether a folder is what a save has only while it runs."""
    return name.startswith(("stage-", "commit-"))


def run(options):
    """All kills; returns how many went well and how many did not."""
    n_passed = n_failed = n_amid = 0
    wanted = options.what.split(",")
    ways = [(way, False) for way in saver.WAYS if "alone" in wanted]
    ways += [("persistables", True), ("checkpoint", True)] * 2 if "cluster" in wanted else []
    root = tempfile.mkdtemp(prefix="saves")
    for at in range(options.kills):
        way, is_job = ways[at % len(ways)]
        rng = random.Random(options.seed * 1000003 + at)
        folder = os.path.join(root, "%s-%s" % (way, is_job))
        os.makedirs(folder, exist_ok=True)
        problem, is_amid = try_once(rng, folder, way, at, is_job)
        n_amid += is_amid
        if problem is None:
            n_passed += 1
            continue
        n_failed += 1
        print("kill %d of seed %d, %s%s: %s" % (at, options.seed, way, " of a job" * is_job, problem))
        print("  the folder is " + folder)
        with open(os.path.join(folder, "log"), errors="replace") as log:
            print(log.read()[-3000:])
    if n_failed == 0:
        shutil.rmtree(root)
    print("%d kills in the middle of a save" % n_amid)
    print("%d passed, %d failed" % (n_passed, n_failed))
    return n_failed


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--what", default="alone,cluster")
    sys.exit(1 if run(parser.parse_args()) else 0)


if __name__ == "__main__":
    main()
