"""Kills processes of a job at random moments, and looks whether the job comes to the same end.

    python kills.py --mode sync --source dataset --kills 20 --seed 0 [--who server,trainer,launcher,keeper,pipe]

Every kill is `kill -9` of one process, drawn by the seed, at a moment drawn by the seed. A killed launcher takes its processes
with it and is started again with the same command. A run ends well if every job ends with 0 and

- sync: the saved folder has the bytes of an undisturbed job;
- other modes: the row of every sample says that it was counted once. (With bounded staleness, a step reads the newest parameters
  there are, so two undisturbed jobs differ as well.)

`RIG_EPOCHS` in the environment makes jobs longer. The last line is `N passed, M failed`; a job that failed
prints its seed, its deaths with their times, and its logs' ends.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import job_data

HERE = os.path.dirname(os.path.abspath(__file__))
#: A job that is not over so long after its last kill hangs.
LIMIT = 120
KINDS = ("server", "trainer", "launcher", "keeper", "pipe")


class Failed(Exception):
    """The job did not come to its end, or not to the right one."""


class Job:
    """One job in a folder of its own."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.launcher = None
        self.killed = []
        job_data.write(folder, only_numbers=options.mode != "sync")

    def start(self):
        """Starts the launcher, or starts it again."""
        options = self.options
        command = [sys.executable, "-m", "paddlewheel", "launch_ps", "--worker_num", "2"]
        command += ["--server_num", str(getattr(options, "n_servers", 2))]
        if options.kills:
            command += ["--snapshot_dir", "snapshots", "--snapshot_secs", str(options.snapshot_secs)]
            command += ["--max_restarts", "10000"]
        command += [os.path.join(HERE, "job.py"), options.mode, options.source, "saved"]
        with open(os.path.join(self.folder, "launcher.log"), "ab") as log:
            self.launcher = subprocess.Popen(
                command, cwd=self.folder, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def processes(self):
        """(kind, pid) of all processes but the launcher, as the system sees them now."""
        found = []
        for pid in descendants(self.launcher.pid):
            words = command_of(pid)
            if words[:1] == ["/bin/sh"] and "read -r _" in " ".join(words):
                found.append(("keeper", pid))
            elif any(word.endswith("filter.py") for word in words):
                found.append(("pipe", pid))
            elif any(word.endswith("job.py") for word in words) and "launch_ps" not in words:
                role = environment_of(pid).get("TRAINING_ROLE")
                found.append(("server" if role == "PSERVER" else "trainer", pid))
        return sorted(found)

    def kill_one(self, rng):
        """Kills a process that the seed draws; whether there was one."""
        kind = rng.choice(self.options.who)
        of_kind = [("launcher", self.launcher.pid)] if kind == "launcher" else self.processes()
        of_kind = [one for one in of_kind if one[0] == kind]
        if not of_kind:
            return False
        kind, pid = rng.choice(of_kind)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.killed.append("%s %d" % (kind, pid))
        if kind == "launcher":
            others = [pid for _, pid in self.processes()]
            self.launcher.wait()
            wait_until(lambda: not any(map(is_alive, others)), "the launcher's processes outlive it")
            self.start()
        return True

    def hurry(self):
        """Nothing more is to happen to it."""
        with open(os.path.join(self.folder, "hurry"), "w"):
            pass

    def restart_killed(self):
        """Kills the launcher, and starts it again with the same command."""
        others = [pid for _, pid in self.processes()]
        self.launcher.kill()
        self.launcher.wait()
        wait_until(lambda: not any(map(is_alive, others)), "the launcher's processes outlive it")
        self.start()

    def finish(self):
        """Waits for the end."""
        try:
            code = self.launcher.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed("it hangs") from None
        if code != 0:
            raise Failed("the launcher ended with %d" % code)

    def end(self):
        """Ends what is left."""
        if self.launcher and self.launcher.poll() is None:
            self.launcher.kill()
            self.launcher.wait()

    def digest(self):
        """The bytes of the saved files, by file, without the time of writing."""
        saved = os.path.join(self.folder, "saved")
        digests = {}
        for folder, folders, names in os.walk(saved):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = os.path.join(folder, name)
                if not name.startswith(".") and name != "MANIFEST":
                    with open(path, "rb") as file:
                        digests[os.path.relpath(path, saved)] = hashlib.sha256(file.read()).hexdigest()
        return digests

    def check(self, wanted):
        """Whether the saved files are as they should be."""
        if wanted is not None and self.digest() != wanted:
            differing = sorted(name for name in wanted if self.digest().get(name) != wanted[name])
            raise Failed("other bytes in %s" % (differing or "the list of files"))
        if self.options.mode != "sync":
            self.check_ledger()

    def check_ledger(self):
        """Every sample was counted once."""
        counts = rows_of_table(os.path.join(self.folder, "saved", "ledger"))
        # Rounds average over two trainers; in GEO, one of two sends half of its difference.
        once = -0.5 if self.options.mode in ("geo", "ssp") else -1.0
        wrong = [(at, value) for at, value in enumerate(counts) if value != once]
        if len(counts) != job_data.SAMPLES or wrong:
            raise Failed("%d of %d samples were not counted once: %s" % (len(wrong), len(counts), wrong[:8]))

    def tail(self):
        """The ends of the logs."""
        parts = []
        names = [os.path.join(self.folder, "launcher.log")]
        logs = os.path.join(self.folder, "logs", "latest")
        names += [os.path.join(logs, name) for name in sorted(os.listdir(logs))] if os.path.isdir(logs) else []
        for name in names:
            with open(name, errors="replace") as file:
                parts.append("--- %s\n%s" % (name, "".join(file.readlines()[-25:])))
        return "\n".join(parts)


def environment():
    """Variables of a launcher: this Python, this package, `paddle` meaning it."""
    import paddlewheel

    package = os.path.dirname(os.path.abspath(paddlewheel.__file__))
    paths = [HERE, os.path.dirname(package), os.path.join(package, "_alias")]
    path = [os.path.dirname(sys.executable), os.environ["PATH"]]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(paths), PATH=os.pathsep.join(path))


def descendants(root):
    """Processes below this one."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as file:
                    fields = file.read().rpartition(") ")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [root]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def command_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid) as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return []


def environment_of(pid):
    try:
        with open("/proc/%d/environ" % pid) as file:
            return dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
    except OSError:
        return {}


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until(so, what, every=0.01):
    deadline = time.monotonic() + LIMIT
    while not so():
        if time.monotonic() > deadline:
            raise Failed(what)
        time.sleep(every)


def rows_of_table(path):
    """The numbers of a saved tensor of one column: Fluid's stream of a float tensor."""
    with open(path, "rb") as file:
        data = file.read()
    (levels,) = struct.unpack_from("<Q", data, 4)
    at = 12
    for _ in range(levels):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
    (length,) = struct.unpack_from("<i", data, at + 4)
    numbers = data[at + 8 + length :]
    return struct.unpack("<%df" % (len(numbers) // 4), numbers)


def run(folder, options, rng, n_kills, wanted):
    """One job with so many kills; returns what it saved."""
    os.makedirs(folder)
    job = Job(folder, options)
    try:
        job.start()
        left = n_kills
        while left and job.launcher.poll() is None:
            # The moment is drawn, it is not waited for anything.
            time.sleep(rng.uniform(*options.between))
            left -= job.kill_one(rng)
        job.finish()
        job.check(wanted)
        return job.digest(), n_kills - left
    except Failed as failure:
        failure.args = ("%s; killed: %s\n%s" % (failure, ", ".join(job.killed), job.tail()),)
        raise
    finally:
        job.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", default="sync", choices=["sync", "ssp", "async", "half_async", "geo"])
    parser.add_argument("--source", default="dataset", choices=["run", "dataset", "pipe", "shuffle"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--per_job", type=int, default=10, help="kills of one job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--who", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--between", type=float, nargs=2, default=[0.05, 1.5], help="seconds between kills")
    parser.add_argument("--snapshot_secs", type=float, default=0.3)
    parser.add_argument("--keep", action="store_true", help="leave the folders of failed jobs")
    options = parser.parse_args()
    if options.source != "pipe":
        options.who = [kind for kind in options.who if kind != "pipe"]
    return options


def main():
    options = arguments()
    root = tempfile.mkdtemp(prefix="kills-")
    wanted = None
    if options.mode == "sync":
        calm = argparse.Namespace(**{**vars(options), "kills": 0})
        wanted, _ = run(os.path.join(root, "calm"), calm, random.Random(0), 0, None)
    n_passed = n_failed = n_kills = job = 0
    while n_kills < options.kills and job < 10 + options.kills:
        seed, job = options.seed + job, job + 1
        folder = os.path.join(root, "job-%d" % seed)
        began = time.monotonic()
        try:
            _, killed = run(folder, options, random.Random(seed), min(options.per_job, options.kills - n_kills), wanted)
            n_passed += 1
            n_kills += killed
            print("seed %d: %d kills, %.1f s, as it should be" % (seed, killed, time.monotonic() - began), flush=True)
        except Failed as failure:
            n_failed += 1
            n_kills += options.per_job
            again = "--mode %s --source %s --seed %d --kills %d --per_job %d" % (
                options.mode, options.source, seed, options.per_job, options.per_job)
            print("seed %d FAILED: %s\nrepeat it: python kills.py %s" % (seed, failure, again), flush=True)
            if options.keep:
                continue
        shutil.rmtree(folder, ignore_errors=True)
    if not (options.keep and n_failed):
        shutil.rmtree(root, ignore_errors=True)
    print("%d kills" % n_kills)
    print("%d passed, %d failed" % (n_passed, n_failed))
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
