"""Kills processes of a job while it gets another number of servers, and looks whether the job comes to the same end.

    python scales.py --kills 40 --seed 0 [--who trainer,server,launcher] [--per_job 3]

A round asks for another number of servers and kills one process: right after the request, when the new servers stand by and the old
ones are asked to end, when the first of those has ended, or when the list names the new ones, and up to a quarter of a second after that. The seed draws number, process and
moment. A killed launcher is started again with the same command. `paddlewheel scale` must say 0 only if the job has the servers that were
asked for; if it does not, it is asked again. A job ends well if it ends with 0 and what it saves has the bytes of an undisturbed job that had
the last number of servers from the start.

The last line is `N passed, M failed`; a job that failed prints its seed, its deaths with their times, and its logs' ends.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import kills
from kills import Failed, wait_until

#: Moments, with how many seconds after them processes are killed at most.
MOMENTS = {"asked": 0.25, "standing by": 0.25, "ending": 0.05, "switched": 0.25}


def n_servers(job):
    """The servers that the job has, as its folder says."""
    with open(os.path.join(job.folder, "snapshots", "job")) as file:
        return int(re.search(r"^servers (\d+)$", file.read(), re.M)[1])


def switched(job):
    """The file with the addresses of the servers."""
    try:
        return os.stat(os.path.join(job.folder, "snapshots", "servers")).st_ino
    except FileNotFoundError:
        return None


def n_standing_by(job):
    names = os.listdir(os.path.join(job.folder, "snapshots"))
    return sum(name.startswith("standby.") and not name.startswith("standby.server.") for name in names)


def ask(job, n):
    with open(os.path.join(job.folder, "scale.log"), "ab") as log:
        command = [sys.executable, "-m", "paddlewheel", "scale", "snapshots", "--servers", str(n)]
        return subprocess.Popen(command, cwd=job.folder, env=kills.environment(), stdout=log, stderr=log)


def answered(job, asked, n):
    """Whether the job has the servers that were asked for. An answer that is not so is a failure."""
    try:
        code = asked.wait(kills.LIMIT)
    except subprocess.TimeoutExpired:
        asked.kill()
        asked.wait()
        raise Failed("`scale` gets no answer") from None
    if code == 0 and n_servers(job) != n:
        raise Failed("`scale` says that there are %d servers, and there are %d" % (n, n_servers(job)))
    return code == 0


def kill(job, kind, rng):
    """Kills a process; whether there was one."""
    if kind == "launcher":
        job.killed.append("launcher")
        job.restart_killed()
        return True
    of_kind = [pid for found, pid in job.processes() if found == kind]
    if not of_kind:
        return False
    pid = rng.choice(of_kind)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    job.killed.append("%s %d" % (kind, pid))
    return True


def disturb(job, n, options, rng, counts):
    """Asks for so many servers, and kills one process meanwhile."""
    before = switched(job)
    moment, kind = rng.choice(options.moments), rng.choice(options.who)
    later = rng.uniform(0, MOMENTS[moment])
    old = [pid for found, pid in job.processes() if found == "server"]
    asked = ask(job, n)
    reached = {
        "asked": lambda: True,
        "standing by": lambda: n_standing_by(job) == n or switched(job) != before,
        "ending": lambda: not all(map(kills.is_alive, old)),
        "switched": lambda: switched(job) != before,
    }[moment]
    wait_until(lambda: reached() or asked.poll() is not None, "the new servers do not come", every=0.001)
    # The moment is drawn, it is not waited for anything.
    time.sleep(later)
    if kill(job, kind, rng):
        counts[moment, kind] = counts.get((moment, kind), 0) + 1
        job.killed[-1] += " (%s, %.3f s after: %s)" % (n, later, moment)
    is_done = answered(job, asked, n)
    for _ in range(10):
        if is_done:
            return
        # No process is killed now, but one that was may still be on its way back.
        wait_until(lambda: job.launcher.poll() is not None or is_in_use(job), "the launcher does not come")
        is_done = answered(job, ask(job, n), n)
    raise Failed("the job does not get %d servers" % n)


def is_in_use(job):
    with open(os.path.join(job.folder, "snapshots", "launcher.lock"), "a") as lock:
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def run(folder, options, rng, n_kills, counts):
    """One job; its last number of servers, and what it saved."""
    os.makedirs(folder)
    job = kills.Job(folder, options)
    try:
        job.start()
        n = options.n_servers
        wait_until(lambda: has_cuts(job, n), "no cut is made")
        for _ in range(n_kills):
            n = rng.choice([m for m in (1, 2, 3) if m != n])
            disturb(job, n, options, rng, counts)
        job.hurry()
        job.finish()
        return n, job.digest()
    except Failed as failure:
        failure.args = ("%s; killed: %s\n%s" % (failure, "; ".join(job.killed), tail(job)),)
        raise
    finally:
        job.end()


def has_cuts(job, n):
    folder = os.path.join(job.folder, "snapshots")
    names = [os.path.join(folder, "server.%d" % at) for at in range(n)]
    cuts = [os.listdir(name) if os.path.isdir(name) else [] for name in names]
    return all(any(re.fullmatch(r"(cut|base)\.[1-9]\d*", name) for name in names) for names in cuts)


def tail(job):
    path = os.path.join(job.folder, "scale.log")
    if not os.path.exists(path):
        return job.tail()
    with open(path, errors="replace") as file:
        return "--- scale\n%s\n%s" % (file.read(), job.tail())


def calm(root, options, n):
    """The files that an undisturbed job saves with so many servers."""
    calm_options = argparse.Namespace(**{**vars(options), "kills": 0, "n_servers": n})
    folder = os.path.join(root, "calm-%d" % n)
    os.makedirs(folder)
    job = kills.Job(folder, calm_options)
    try:
        job.hurry()
        job.start()
        job.finish()
        return job.digest()
    finally:
        job.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--per_job", type=int, default=3, help="kills of one job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--who", type=lambda text: text.split(","), default=["trainer", "trainer", "server", "launcher"])
    parser.add_argument("--moments", type=lambda text: text.split(","), default=list(MOMENTS))
    parser.add_argument("--snapshot_secs", type=float, default=0.3)
    parser.add_argument("--keep", action="store_true", help="leave the folders of failed jobs")
    return argparse.Namespace(mode="sync", source="run", n_servers=2, **vars(parser.parse_args()))


def main():
    options = arguments()
    os.environ.setdefault("RIG_PACE", "0.02")
    root = tempfile.mkdtemp(prefix="scales-")
    wanted, counts = {}, {}
    n_passed = n_failed = n_kills = job = 0
    while n_kills < options.kills:
        seed, job = options.seed + job, job + 1
        folder = os.path.join(root, "job-%d" % seed)
        began, n = time.monotonic(), min(options.per_job, options.kills - n_kills)
        n_kills += n
        try:
            last, saved = run(folder, options, random.Random(seed), n, counts)
            if last not in wanted:
                wanted[last] = calm(root, options, last)
            if saved != wanted[last]:
                raise Failed("other bytes than a job with %d servers" % last)
            n_passed += 1
            print("seed %d: %d kills, %.1f s, as it should be" % (seed, n, time.monotonic() - began), flush=True)
        except Failed as failure:
            n_failed += 1
            print("seed %d FAILED: %s\nrepeat it: python scales.py --seed %d --kills %d" % (seed, failure, seed, n), flush=True)
            if options.keep:
                continue
        shutil.rmtree(folder, ignore_errors=True)
    if not (options.keep and n_failed):
        shutil.rmtree(root, ignore_errors=True)
    for (moment, kind), count in sorted(counts.items()):
        print("%d times %s, when %s" % (count, kind, moment))
    print("%d kills" % sum(counts.values()))
    print("%d passed, %d failed" % (n_passed, n_failed))
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
