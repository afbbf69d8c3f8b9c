"""Flips bits in files that a running job has kept, kills processes, and looks whether the job comes to the same end.

    python flips.py --flips 200 --seed 0 [--per_job 5]

A flip changes one bit of one file: the seed draws the kind of file, the file of that kind and the bit. Then a process is killed, also drawn,
and the job must make cuts again. Jobs with loops of `exe.run`, jobs that got another number of servers, and jobs with global shuffles take
turns, so that every kind of file is there. A job ends well if it ends with 0 and what it saves has the bytes of an undisturbed job.

The last lines are how many flips there were of each kind of file, and `N passed, M failed`.
"""

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time

import kills
import scales
from kills import Failed, wait_until

#: Kinds of kept files, by their names below the folder of snapshots.
KINDS = [
    ("base", r"server\.\d+/base\.[\d.a-f]+"),
    ("increment", r"server\.\d+/cut\.[\d.a-f]+"),
    ("term", r"server\.\d+/term\.\d+\.\d+"),
    ("journal", r"server\.\d+/journal\.\d+\.\d+"),
    ("samples of a shuffle", r"trainer\.\d+/shuffle-\d+"),
    ("job", r"job"),
    ("list of servers", r"servers"),
    ("place of the logs", r"logs"),
]
SECOND = ".again"
VARIANTS = ("run", "scaled", "shuffle")
WHO = ("trainer", "trainer", "server", "server", "launcher")


def kept_files(job):
    """The kept files of a job, by kind."""
    root = os.path.join(job.folder, "snapshots")
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, root)
            plain = short[: -len(SECOND)] if short.endswith(SECOND) else short
            for kind, pattern in KINDS:
                if re.fullmatch(pattern, plain):
                    kind += ", second copy" if plain != short else ""
                    found.setdefault(kind, []).append(path)
    return {kind: sorted(paths) for kind, paths in sorted(found.items())}


def flip(job, rng, counts):
    """Flips one bit; returns its place, or nothing if the file went away."""
    kinds = kept_files(job)
    kind = rng.choice(list(kinds))
    path = rng.choice(kinds[kind])
    try:
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return False
            bit = rng.randrange(8 * size)
            file.seek(bit // 8)
            byte = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))
    except FileNotFoundError:
        return False
    counts[kind] = counts.get(kind, 0) + 1
    job.killed.append("%s, bit %d" % (os.path.relpath(path, job.folder), bit))
    return True


def newest(job):
    """When each server has last written a cut."""
    root = os.path.join(job.folder, "snapshots")
    times = []
    for name in sorted(name for name in os.listdir(root) if re.fullmatch(r"server\.\d+", name)):
        try:
            files = [os.stat(path).st_mtime_ns for path in paths_of(os.path.join(root, name))]
        except FileNotFoundError:
            files = [0]
        times.append(max(files, default=0))
    return times


def paths_of(folder):
    names = os.listdir(folder)
    return [os.path.join(folder, name) for name in names if re.fullmatch(r"(cut|base)\.\d+", name)]


def disturb(job, rng, counts):
    """One flip, one kill; then the job continues, or has finished."""
    if not flip(job, rng, counts):
        return False
    if not scales.kill(job, rng.choice(WHO), rng):
        job.killed.append("nobody")
    since = time.time_ns()
    is_through = lambda: job.launcher.poll() is not None  # noqa: E731
    wait_until(lambda: is_through() or min(newest(job), default=0) > since, "it hangs: it makes no cut any more")
    if is_through() and job.launcher.returncode != 0:
        raise Failed("it ended: the launcher with %d" % job.launcher.returncode)
    return True


def run(folder, options, rng, n_flips, counts):
    """One job; returns the saved files, its last number of servers, and its flips."""
    os.makedirs(folder)
    job = kills.Job(folder, options)
    n_servers, n_done = options.n_servers, 0
    try:
        job.start()
        wait_until(lambda: scales.has_cuts(job, n_servers), "no cut is made")
        if options.variant == "scaled":
            n_servers = 3
            if not scales.answered(job, scales.ask(job, n_servers), n_servers):
                raise Failed("`scale` is refused")
            wait_until(lambda: scales.has_cuts(job, n_servers), "no cut is made")
        while n_done < n_flips and job.launcher.poll() is None:
            # The moment is drawn, it is not waited for anything.
            time.sleep(rng.uniform(0, 0.7))
            n_done += disturb(job, rng, counts)
        job.hurry()
        job.finish()
        return job.digest(), n_servers, n_done
    except Failed as failure:
        failure.args = ("%s; flipped and killed: %s\n%s" % (failure, "; ".join(job.killed), scales.tail(job)),)
        raise
    finally:
        job.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--per_job", type=int, default=5, help="flips of one job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(VARIANTS))
    parser.add_argument("--snapshot_secs", type=float, default=0.3)
    parser.add_argument("--keep", action="store_true", help="leave the folders of failed jobs")
    return argparse.Namespace(mode="sync", n_servers=2, kills=1, **vars(parser.parse_args()))


def main():
    options = arguments()
    os.environ.setdefault("RIG_PACE", "0.02")
    root = tempfile.mkdtemp(prefix="flips-")
    wanted, counts, ends = {}, {}, {"ended": 0, "hung": 0, "other": 0}
    n_passed = n_failed = n_flips = job = 0
    while n_flips < options.flips and job < 10 + options.flips:
        variant = options.variants[job % len(options.variants)]
        seed, job = options.seed + job, job + 1
        own = argparse.Namespace(**vars(options), variant=variant, source="shuffle" if variant == "shuffle" else "run")
        folder, began = os.path.join(root, "job-%d" % seed), time.monotonic()
        n = min(options.per_job, options.flips - n_flips)
        try:
            saved, n_servers, n = run(folder, own, random.Random(seed), n, counts)
            key = own.source, n_servers
            if key not in wanted:
                wanted[key] = scales.calm(os.path.join(root, own.source), own, n_servers)
            if saved != wanted[key]:
                raise Failed("other bytes than an undisturbed job")
            n_passed += 1
            print("seed %d (%s): %d flips, %.1f s, as it should be" % (seed, variant, n, time.monotonic() - began), flush=True)
        except Failed as failure:
            n_failed += 1
            text = str(failure)
            ends["hung" if "hang" in text else "ended" if "ended" in text else "other"] += 1
            again = "--seed %d --flips %d --variants %s" % (seed, n, variant)
            print("seed %d FAILED: %s\nrepeat it: python flips.py %s" % (seed, text, again), flush=True)
        n_flips += n
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if not (options.keep and n_failed):
        shutil.rmtree(root, ignore_errors=True)
    for kind, count in sorted(counts.items()):
        print("%d flips: %s" % (count, kind))
    print("%d flips, %d jobs ended, %d hung, %d otherwise wrong" % (sum(counts.values()), *ends.values()))
    print("%d passed, %d failed" % (n_passed, n_failed))
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
