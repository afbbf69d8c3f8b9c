"""The same job on machines of its own: network namespaces on a switch that reaches nothing else. Needs root and iproute2.

    python machines.py --mode sync --source dataset --faults 6 --seed 0

One launcher on each of two machines, each with one server, one trainer and a folder of snapshots of its own. Faults are drawn by
the seed: a whole machine gone (all its processes killed at once, started again later), a cable that is cut and comes back, a slow
link. The job must come to the same end as an undisturbed one; see kills.py. The last line is `N passed, M failed`.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import job_data
import kills
from kills import Failed

MACHINES = 2
SWITCH = "pwrig"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def name_of(machine):
    return "%s%d" % (SWITCH, machine)


def address_of(machine):
    return "10.78.0.%d" % (machine + 1)


def connect():
    """Makes the machines and the switch between them."""
    disconnect()
    ip("netns", "add", SWITCH)
    ip("-n", SWITCH, "link", "add", "br0", "type", "bridge")
    ip("-n", SWITCH, "link", "set", "br0", "up")
    for machine in range(MACHINES):
        name = name_of(machine)
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", SWITCH, "link", "add", "port%d" % machine, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", SWITCH, "link", "set", "port%d" % machine, "master", "br0", "up")
        ip("-n", name, "addr", "add", address_of(machine) + "/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")


def disconnect():
    for name in [name_of(machine) for machine in range(MACHINES)] + [SWITCH]:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Job(kills.Job):
    """One job on all machines."""

    def __init__(self, folder, options):
        super().__init__(folder, options)
        self.launchers = [None] * MACHINES

    def start_on(self, machine):
        """Starts the launcher of a machine, or starts it again."""
        options = self.options
        nodes = ",".join(map(address_of, range(MACHINES)))
        command = ["ip", "netns", "exec", name_of(machine), sys.executable, "-m", "paddlewheel", "launch_ps"]
        command += ["--cluster_node_ips", nodes, "--node_ip", address_of(machine)]
        command += ["--worker_num", "1", "--server_num", "1", "--log_dir", "logs"]
        if options.faults:
            command += ["--snapshot_dir", "snapshots.%d" % machine, "--snapshot_secs", str(options.snapshot_secs)]
            command += ["--max_restarts", "10000"]
        command += [os.path.join(kills.HERE, "job.py"), options.mode, options.source, "saved"]
        with open(os.path.join(self.folder, "launcher.log"), "ab") as log:
            self.launchers[machine] = subprocess.Popen(
                command,
                cwd=self.folder,
                # Launchers do not know each other: the job is given its secret.
                env={**kills.environment(), "PADDLEWHEEL_SECRET": "the secret of this job"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def everybody_on(self, machine):
        launcher = self.launchers[machine].pid
        return [launcher] + kills.descendants(launcher)

    def lose_machine(self, machine, rng):
        """All processes of a machine are gone at once; after a while it comes back."""
        for pid in self.everybody_on(machine):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.launchers[machine].wait() != 0:
            time.sleep(rng.uniform(0, 2))
            self.start_on(machine)

    def cut_cable(self, machine, rng):
        """Nothing goes to or from a machine, for a while."""
        ip("-n", SWITCH, "link", "set", "port%d" % machine, "down")
        time.sleep(rng.uniform(0.5, 6))
        ip("-n", SWITCH, "link", "set", "port%d" % machine, "up")

    def slow_link(self, machine, rng):
        """A machine's link is slow for a while."""
        link = ["dev", "eth0", "root"]
        words = ["ip", "netns", "exec", name_of(machine), "tc", "qdisc"]
        rate = ["tbf", "rate", rng.choice(["1mbit", "10mbit"]), "burst", "32kb", "latency", "400ms"]
        subprocess.run(words + ["add"] + link + rate, check=True, capture_output=True)
        time.sleep(rng.uniform(1, 4))
        subprocess.run(words + ["del"] + link, check=True, capture_output=True)

    def disturb(self, rng):
        kind = rng.choice([self.lose_machine, self.cut_cable, self.slow_link])
        machine = rng.randrange(MACHINES)
        self.killed.append("%s %d" % (kind.__name__, machine))
        kind(machine, rng)

    def is_running(self):
        """Whether all machines work; one that has finished does not come back for the others."""
        return all(launcher.poll() is None for launcher in self.launchers)

    def finish(self):
        for launcher in self.launchers:
            try:
                code = launcher.wait(kills.LIMIT)
            except subprocess.TimeoutExpired:
                raise Failed("it hangs") from None
            if code != 0:
                raise Failed("a launcher ended with %d" % code)

    def end(self):
        for machine, launcher in enumerate(self.launchers):
            if launcher and launcher.poll() is None:
                for pid in self.everybody_on(machine):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                launcher.wait()


def run(folder, options, rng, wanted):
    """One job; returns what it saved."""
    os.makedirs(folder)
    job = Job(folder, options)
    try:
        for machine in range(MACHINES):
            job.start_on(machine)
        left = options.faults
        while left and job.is_running():
            # The moment is drawn, it is not waited for anything.
            time.sleep(rng.uniform(*options.between))
            if job.is_running():
                job.disturb(rng)
                left -= 1
        job.finish()
        job.check(wanted)
        return job.digest()
    except Failed as failure:
        failure.args = ("%s; done to it: %s\n%s" % (failure, ", ".join(job.killed), job.tail()),)
        raise
    finally:
        job.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", default="sync", choices=["sync", "ssp", "async", "half_async", "geo"])
    parser.add_argument("--source", default="dataset", choices=["run", "dataset", "pipe"])
    parser.add_argument("--faults", type=int, default=4, help="of one job")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--between", type=float, nargs=2, default=[0.3, 3.0], help="seconds between faults")
    parser.add_argument("--snapshot_secs", type=float, default=0.3)
    return parser.parse_args()


def main():
    options = arguments()
    root = tempfile.mkdtemp(prefix="machines-")
    n_passed = n_failed = 0
    connect()
    try:
        wanted = None
        if options.mode == "sync":
            calm = argparse.Namespace(**{**vars(options), "faults": 0})
            wanted = run(os.path.join(root, "calm"), calm, random.Random(0), None)
        for seed in range(options.seed, options.seed + options.jobs):
            began = time.monotonic()
            try:
                run(os.path.join(root, "job-%d" % seed), options, random.Random(seed), wanted)
                n_passed += 1
                print("seed %d: %.1f s, as it should be" % (seed, time.monotonic() - began), flush=True)
            except Failed as failure:
                n_failed += 1
                again = "--mode %s --source %s --faults %d --seed %d" % (
                    options.mode, options.source, options.faults, seed)
                print("seed %d FAILED: %s\nrepeat it: python machines.py %s" % (seed, failure, again), flush=True)
    finally:
        disconnect()
        shutil.rmtree(root, ignore_errors=True)
    print("%d passed, %d failed" % (n_passed, n_failed))
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
