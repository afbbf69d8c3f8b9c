"""What watching a job costs.

    python watching.py [--rounds 3] [--modes sync,async]

The job of recovery.py on two servers and two trainers. A job that is not watched (`--metrics False`) takes turns with one that is:
every process answers HTTP, the launcher asks each of them once a second, and a client reads the page and its numbers every second. The
figure is the ratio of the median speeds, watched to not watched; the goal is 0.99. Prints a `BENCH` line for each mode.
"""

import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

from recovery import make_data

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.dirname(sys.executable)
GOAL = 0.99


def free_port():
    """A port that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Client(threading.Thread):
    """Reads the page once, and its numbers every second."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.at, self.stops, self.n = "http://127.0.0.1:%d/" % port, threading.Event(), 0

    def run(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self.stops.wait(1):
            try:
                opener.open(self.at if self.n == 0 else self.at + "job.json", timeout=5).read()
                self.n += 1
            except OSError:
                pass  # The job begins or ends.


def speed(mode, data, is_watched):
    """Samples a second of a job, of the passes after the first; and how often the client was answered."""
    port = free_port()
    with tempfile.TemporaryDirectory() as logs:
        options = ["--web=127.0.0.1:%d" % port] if is_watched else ["--metrics", "False"]
        options += ["--worker_num", "2", "--server_num", "2", "--log_dir", logs]
        script = [os.path.join(HERE, "recovery.py"), "--train", mode, "100", data]
        client = Client(port)
        if is_watched:
            client.start()
        command = [os.path.join(BIN, "paddlewheel"), "launch_ps", *options, *script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        client.stops.set()
        assert done.returncode == 0, done.stderr
        total = 0.0
        for trainer in range(2):
            with open(os.path.join(logs, "workerlog.%d" % trainer)) as file:
                passes = [float(text) for text in re.findall(r"^PASS (\S+)$", file.read(), re.M)]
            total += statistics.mean(passes[1:])
    return total, client.n


def main():
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default="sync,async")
    params = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        make_data(data)
        for mode in params.modes.split(","):
            plain, watched, n_answers = [], [], 0
            for turn in range(params.rounds):
                for side in [plain, watched] if turn % 2 else [watched, plain]:
                    found, n = speed(mode, data, side is watched)
                    side.append(found)
                    n_answers += n
            ours, against = statistics.median(watched), statistics.median(plain)
            spread = (max(plain) - min(plain)) / against
            figure = "ours=%.0f against=unwatched=%.0f samples/s" % (ours, against)
            more = "goal=%.2f answers=%d spread_of_unwatched=%.3f" % (GOAL, n_answers, spread)
            print("BENCH watching_%s ratio=%.3f %s %s" % (mode, ours / against, figure, more), flush=True)


if __name__ == "__main__":
    main()
