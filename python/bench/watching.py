"""What watching a job costs.

    python watching.py [--rounds 3] [--pairs 8] [--window 5] [--modes sync,async] [--same]

The job of recovery.py on two servers and two trainers, twice at the same time: one is not watched (`--metrics False`). Of the other every
process answers HTTP, the launcher asks each of them once a second, and a client reads the page and its numbers every second. Only one
of them runs at a time: they take turns of some seconds, and the other is stopped (SIGSTOP) meanwhile. A turn of one and the next turn
of the other are a pair, so that a machine which is slower for a minute is slower for both. Every round has new jobs.

The figures are medians over the pairs: the speed, watched to not watched, and the processor time of a sample, not watched to watched
(all processes of a job; less noisy than the speed). The goal of both is 0.99. `middle_half` has the ratios of half of the pairs, `error`
the standard error of the median. `--same` watches neither job: then 1.000 is right, and the rest is what this bench cannot see. Prints two
`BENCH` lines for each mode.
"""

import argparse
import os
import signal
import socket
import statistics
import tempfile
import threading
import time
import urllib.request

from recovery import Job, make_data, wait_until

GOAL = 0.99
BATCH = 100
#: A trainer prints a record for so many batches; this is how its samples are counted.
PERIOD = 5
#: More than any job does until it is ended.
PASSES = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    """A port that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Client(threading.Thread):
    """Reads the page once, and its numbers every second, while it is told to."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.at, self.reads, self.n = "http://127.0.0.1:%d/" % port, threading.Event(), 0

    def run(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            self.reads.wait()
            try:
                opener.open(self.at if self.n == 0 else self.at + "job.json", timeout=5).read()
                self.n += 1
            except OSError:
                pass  # The job begins, or was stopped at this moment.
            time.sleep(1)


def stat_of(pid):
    """The fields of a process after its name, or nothing if it has ended."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(") ")[2].split()
    except OSError:
        return []


class Side:
    """A job that runs in turns."""

    def __init__(self, folder, mode, data, is_watched):
        os.mkdir(folder)
        self.port = free_port()
        options = ["--web=127.0.0.1:%d" % self.port] if is_watched else ["--metrics", "False"]
        arguments = ["--train", mode, str(BATCH), data, str(PASSES), str(PERIOD)]
        self.job = Job(folder, arguments, [*options, "--log_dir", os.path.join(folder, "logs")])
        self.client = Client(self.port) if is_watched else None
        if self.client:
            self.client.start()
        try:
            wait_until("both trainers train", lambda: min(self.records()) > 0 or self.has_ended(), 120)
            self.stop()
        except BaseException:
            self.end()
            raise

    def has_ended(self):
        if self.job.launcher.poll() is not None:
            raise SystemExit("launch_ps failed:\n" + self.job.said())
        return False

    def records(self):
        """How many records each trainer has printed."""
        return [self.job.log("workerlog.%d" % at).count("layout: NCHW") for at in range(2)]

    def samples(self):
        return sum(self.records()) * PERIOD * BATCH

    def processes(self):
        """The launcher and all that it and its children have started."""
        children = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            if fields := stat_of(int(name)):
                children.setdefault(int(fields[1]), []).append(int(name))
        found = [self.job.launcher.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def signal(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # A reader at the end of its file.

    def is_stopped(self):
        """Whether nothing of the job runs. What was started while the others were stopped is stopped now."""
        if all(fields[0] in "TZX" for fields in map(stat_of, self.processes()) if fields):
            return True
        self.signal(signal.SIGSTOP)
        return False

    def stop(self):
        if self.client:
            self.client.reads.clear()
        self.signal(signal.SIGSTOP)
        wait_until("the job is stopped", self.is_stopped, 10)

    def processor_seconds(self):
        """Of all processes of the job and of those that they have waited for."""
        ticks = 0
        for fields in map(stat_of, self.processes()):
            ticks += sum(map(int, fields[11:15]))
        return ticks / TICKS

    def turn(self, seconds):
        """Runs for some time: samples a second, and processor seconds of a sample."""
        samples, used, began = self.samples(), self.processor_seconds(), time.monotonic()
        self.signal(signal.SIGCONT)
        if self.client:
            self.client.reads.set()
        time.sleep(seconds)
        self.stop()
        took = time.monotonic() - began
        self.has_ended()
        done = self.samples() - samples
        if done == 0:
            raise SystemExit("nothing was trained in a turn; give a longer --window")
        return done / took, (self.processor_seconds() - used) / done

    def end(self):
        if self.client:
            self.client.reads.clear()
        self.signal(signal.SIGCONT)
        self.job.end()


def pairs_of(mode, data, params):
    """The turns of two new jobs, in pairs, and how often the client was answered."""
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        try:
            for name in ("plain", "watched"):
                is_watched = name == "watched" and not params.same
                sides.append(Side(os.path.join(folder, name), mode, data, is_watched))
            plain, watched = sides
            pairs = []
            for at in range(params.pairs + 1):
                order = sides if at % 2 else sides[::-1]
                turns = {side: side.turn(params.window) for side in order}
                pairs.append((turns[plain], turns[watched]))
            # The first turns are warm-up.
            return pairs[1:], watched.client.n if watched.client else 0
        finally:
            for side in sides:
                side.end()


def line(name, ratios, plain, watched, more):
    """Prints a figure: the median of the ratios."""
    middle = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    # The standard error of a median, from the middle half of a normal distribution.
    error = 1.2533 * (high - low) / 1.349 / len(ratios) ** 0.5
    figure = "ours=%.4g against=unwatched=%.4g" % (statistics.median(watched), statistics.median(plain))
    spread = "pairs=%d middle_half=%.3f..%.3f error=%.4f" % (len(ratios), low, high, error)
    print("BENCH %s ratio=%.4f %s goal=%.2f %s%s" % (name, middle, figure, GOAL, spread, more), flush=True)


def main():
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--window", type=float, default=5)
    parser.add_argument("--modes", default="sync,async")
    parser.add_argument("--same", action="store_true")
    params = parser.parse_args()
    kind = "watching_nobody" if params.same else "watching"
    with tempfile.TemporaryDirectory() as data:
        make_data(data)
        for mode in params.modes.split(","):
            pairs, n_answers = [], 0
            for _ in range(params.rounds):
                found, n = pairs_of(mode, data, params)
                pairs += found
                n_answers += n
            plain, watched = [[pair[side] for pair in pairs] for side in (0, 1)]
            speeds = [ours[0] / against[0] for against, ours in pairs]
            line("%s_%s" % (kind, mode), speeds, [s for s, _ in plain], [s for s, _ in watched], " answers=%d" % n_answers)
            costs = [against[1] / ours[1] for against, ours in pairs]
            micros = [[1e6 * cost for _, cost in side] for side in (plain, watched)]
            line("%s_processor_%s" % (kind, mode), costs, *micros, " unit=us_of_a_sample")


if __name__ == "__main__":
    main()
