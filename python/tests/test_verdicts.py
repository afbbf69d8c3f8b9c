"""The obstacles of a job on the page and on the console, each cause made with real processes."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from clusters import Cluster, free_port, wait_until
from conftest import HERE
from test_watching import get

sys.path.insert(0, os.path.join(HERE, "rig"))
import faults  # noqa: E402

JOB = os.path.join(HERE, "jobs", "judged.py")
MINUTES = 180
KEPT = ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.5", "--max_restarts", "20"]


#: Starts a program that comes before the others of a busy machine, if root asks for it; its obstacle is its own then.
FIRST = 'echo -15 > /proc/self/autogroup; exec nice -n -15 "$@"' if os.geteuid() == 0 else 'exec "$@"'
FIRST = ("/bin/sh", "-c", FIRST, "sh")


class Judged:
    """A job with a page."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = Cluster(folder)
        self.web = "127.0.0.1:%d" % free_port()

    def start(self, *options, servers=2, trainers=2, prefix=(), **variables):
        """Starts the launcher; `prefix` is a command that starts it."""
        sizes = ["--worker_num", str(trainers), "--server_num", str(servers), "--web=" + self.web]
        command = [sys.executable, "-m", "paddlewheel", "launch_ps", *sizes, *options, JOB]
        self.cluster._start("launcher", [*prefix, *command], {"PADDLEWHEEL_PROGRESS_SECS": "1", **variables})

    def view(self):
        """The contents of the page; None while there is none."""
        try:
            return json.loads(get(self.web, "/job.json")[1])
        except OSError:
            assert self.cluster.is_running("launcher"), self.cluster.logs()
            return None

    def wait(self, what, so):
        """Waits until the page shows something; returns all of it."""
        seen = []

        def found():
            view = self.view()
            if view:
                seen.append(view["judgement"])
            return view if view and so(view) else None

        return wait_until(what, found, MINUTES, lambda: "%s\n%s" % (seen[-8:], self.cluster.logs()))

    def wait_for_cause(self, cause):
        """Waits for a judgement; returns its words."""
        judged = self.wait(cause, lambda view: view["judgement"]["cause"] == cause)["judgement"]
        return "%s %s" % (judged["who"], judged["why"])

    def wait_for_training(self):
        """Waits until trainers have said what they do."""
        ready = lambda view: view["judgement"]["cause"] not in ("beginning", "restarting")  # noqa: E731
        self.wait("training", ready)

    def states(self):
        """The states of the processes that answer, by name."""
        found = {}
        for line in get(self.web, "/metrics")[1].splitlines():
            labels = re.match(r"paddlewheel_process_up\{(.*)\} 1", line)
            if labels:
                address = re.search(r'address="([^"]*)"', labels[1])[1]
                # It may have died since the page has looked.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    state = json.loads(get(address, "/state")[1])
                    found["%s %d" % (state["role"], state["id"])] = state
        return found

    def pid(self, name):
        """The number of a process: `trainer.1`."""
        return int((self.folder / (name + ".pid")).read_text())

    def end(self):
        """Lets the job end; returns what the launcher has said."""
        (self.folder / "enough").touch()
        return self.cluster.expect("launcher", 0, MINUTES)


@pytest.fixture
def job(tmp_path):
    """A job that is not started."""
    made = Judged(tmp_path)
    yield made
    made.cluster.close()


@pytest.mark.parametrize("who, name", [("trainer.1", "Trainer 1"), ("server.0", "Server 0")])
def test_a_stopped_process_comes_before_speed(job, who, name):
    job.start(SECONDS="0.05")
    job.wait_for_training()
    pid = job.pid(who)
    os.kill(pid, signal.SIGSTOP)
    try:
        words = job.wait_for_cause("stopped")
        assert words.startswith("%s is stopped. " % name) and "kill -CONT %d" % pid in words
        job.cluster.wait_for("launcher", "%s is stopped. " % name)
    finally:
        os.kill(pid, signal.SIGCONT)
    job.wait("an end of it", lambda view: view["judgement"]["cause"] != "stopped")
    job.cluster.wait_for("launcher", ": %s is stopped." % name)
    job.end()


@pytest.mark.parametrize("who, name", [("trainer.1", "Trainer 1"), ("server.0", "Server 0")])
def test_a_killed_process_is_started_again(job, who, name):
    # Longer than the page takes to look again.
    job.start(*KEPT, SECONDS="0.05", AGAIN="3")
    job.wait_for_training()
    job.cluster.wait_for("launcher", "samples/s")
    os.kill(job.pid(who), signal.SIGKILL)
    words = job.wait_for_cause("restarting")
    assert words.startswith(name) and "started again" in words, words
    job.wait("its end", lambda view: view["judgement"]["cause"] not in ("restarting", "passing", "beginning"))
    job.end()


def test_a_full_disk_is_said_with_its_server_and_a_remedy(job):
    if why := faults.why_no_disk():
        pytest.skip(why)
    disk = faults.SmallDisk(job.folder / "snapshots", 8)
    try:
        job.start(*KEPT, SECONDS="0.05")
        job.wait("a snapshot", lambda view: "last snapshot" in [figure["label"] for figure in view["figures"]])
        disk.fill()
        words = job.wait_for_cause("problem")
        assert re.match(r"Server [01]: no space is left for snapshots in .*snapshots", words), words
        assert "Free space on this disk" in words, words
        job.cluster.wait_for("launcher", "no space is left for snapshots in ")
        assert "The script slows the job" not in job.cluster.log("launcher").rpartition("no space")[2]
        disk.free()
        job.wait("space", lambda view: view["judgement"]["cause"] != "problem")
        job.end()
    finally:
        job.cluster.close()
        disk.close()


def test_a_slow_script(job):
    job.start(prefix=FIRST, SECONDS="0.1", MODE="async")
    assert "outside of training" in job.wait_for_cause("script")
    job.end()


def test_a_slow_trainer(job):
    job.start(prefix=FIRST, SECONDS="0.1", SLOW="1")
    words = job.wait_for_cause("trainer")
    assert words.startswith("Trainer 1 slows the job.") and "in its script" in words, words
    job.end()


def test_a_wait_for_a_cut(job):
    """One trainer is ready for cuts, and another one sleeps: it waits half a second for each cut, and trains meanwhile."""
    job.start(*KEPT, SECONDS="4", SLOW="1", MODE="async")
    words = job.wait_for_cause("passing")
    assert words.startswith("Trainer 0: waits for a cut"), words
    job.end()


def test_data_that_come_slowly(job):
    make_data(job.folder, 4, 100)
    job.start(prefix=FIRST, LINES_A_SECOND="20", MODE="async", PASSES="1")
    assert "for data" in job.wait_for_cause("reading")
    job.cluster.expect("launcher", 0, MINUTES)


def test_messages_of_a_job_that_does_little_else(job):
    job.start(servers=1, trainers=1, prefix=FIRST)
    assert "Larger batches" in job.wait_for_cause("messages")
    job.end()


def test_a_server_with_too_much_to_do(job):
    job.start(servers=1, trainers=1, prefix=FIRST, SIZE="4000000")
    words = job.wait_for_cause("server")
    assert words.startswith("Server 0 slows the job.") and "applying" in words, words
    job.end()


BUSY = "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass"


def test_processes_that_compete_for_one_processor(job):
    """Busy programs of another user on the processor that the job may use."""
    processor = min(os.sched_getaffinity(0))
    job.start(servers=1, trainers=1, prefix=("taskset", "-c", str(processor)))
    job.wait_for_training()
    # The kernel shares a processor among sessions, where it is set up so.
    busy = [sys.executable, "-c", BUSY % processor]
    others = [subprocess.Popen(busy, start_new_session=True) for _ in range(4)]
    try:
        words = job.wait_for_cause("processors")
        assert words.startswith("This machine has too few processors for its processes."), words
        assert re.search(r"2 processes of the job used 0\.\d+ processors", words), words
    finally:
        for other in others:
            other.kill()
            other.wait()
    job.end()


@pytest.fixture
def small_share():
    """A group of processes that gets a fifth of a processor."""
    group = "/sys/fs/cgroup/cpu/paddlewheel-test-%d" % os.getpid()
    try:
        os.mkdir(group)
    except OSError as error:
        pytest.skip("no group of processes can be made here: %s" % error)
    try:
        with open(group + "/cpu.cfs_quota_us", "w") as file:
            file.write("20000")
        yield group
    finally:
        wait_until("an empty group", lambda: not open(group + "/cgroup.procs").read())
        os.rmdir(group)


def test_a_container_with_too_small_a_share(small_share, job):
    join = 'echo $$ > %s/cgroup.procs && exec "$@"' % small_share
    job.start(servers=2, trainers=2, prefix=("/bin/sh", "-c", join, "sh"))
    assert "Give the machine or its container more processors" in job.wait_for_cause("processors")
    job.cluster.close()


def make_data(folder, n_files, n_lines):
    """Files of a dataset."""
    (folder / "data").mkdir()
    for at in range(n_files):
        (folder / "data" / ("part-%d" % at)).write_text("4 0.1 0.2 0.3 0.4\n" * n_lines)


def numbers(job, name):
    """A number of each trainer that answers."""
    return [state["numbers"][name] for own, state in job.states().items() if own.startswith("trainer")]


def wait_for_share(job, least, most=1.0):
    """Waits until all trainers have done so much of the pass."""

    def found():
        if not job.view():
            return None
        shares = numbers(job, "trainer_pass_done")
        return shares if len(shares) == 2 and all(least <= share <= most for share in shares) else None

    return wait_until("a share of %g" % least, found, MINUTES, job.cluster.logs)


def test_progress_counts_over_restarts_and_resumes(job):
    """8 files for each trainer, 240 lines in all, 12 s at least."""
    make_data(job.folder, 16, 30)
    job.start(*KEPT, LINES_A_SECOND="20", MODE="async")
    wait_for_share(job, 0.4)
    for who in ("trainer.1", "server.0"):
        pid = job.pid(who)
        before = min(wait_for_share(job, 0.0))
        os.kill(pid, signal.SIGKILL)
        wait_until("another process", lambda pid=pid, who=who: job.pid(who) != pid, MINUTES, job.cluster.logs)
        # The file that it was in is read again.
        wait_for_share(job, before - 0.25)
        check_rest(job)
    wait_for_share(job, 0.6)
    job.cluster.signal("launcher", signal.SIGTERM)
    job.cluster.wait("launcher", MINUTES)
    job.start(*KEPT, LINES_A_SECOND="20", MODE="async")
    wait_for_share(job, 0.35)
    check_rest(job)
    said = job.cluster.expect("launcher", 0, MINUTES)
    shares = [int(share) for share in re.findall(r"(\d+) % of pass 1 is done", said)]
    assert shares and max(shares) > 80, said


def check_rest(job):
    """The time left fits the time that the share has taken."""
    for state in job.states().values():
        own = state["numbers"]
        done, taken = own.get("trainer_pass_done", 0), own.get("trainer_pass_seconds", 0)
        if 0 < done < 1 and own["trainer_pass_left_seconds"] > 0:
            expected = taken * (1 - done) / done
            assert abs(own["trainer_pass_left_seconds"] - expected) <= 1 + 0.2 * expected, own
            assert taken > 3, own


def test_servers_that_have_left_are_not_on_the_page(job):
    job.start(*KEPT, SECONDS="0.02")
    job.wait_for_training()
    job.wait("a snapshot", lambda view: "last snapshot" in [figure["label"] for figure in view["figures"]])
    job.cluster.start("scale", "-m", "paddlewheel", "scale", "snapshots", "--servers", "1")
    assert job.cluster.wait("scale", MINUTES) == 0, job.cluster.logs()
    names = lambda view: sorted(process["name"] for process in view["processes"])  # noqa: E731
    left = ["server 0", "trainer 0", "trainer 1"]
    running = lambda view: all(process["condition"] == "running" for process in view["processes"])  # noqa: E731
    view = job.wait("one server", lambda view: names(view) == left and running(view))
    assert "has left the job" in json.dumps(view["events"])
    # The work of trainers in the last seconds may be waits for servers that have left.
    parts = lambda view: [part["name"] for process in view["processes"] for part in process["parts"]]  # noqa: E731
    job.wait("no other server", lambda view: not re.search(r"waiting for \d", " ".join(parts(view))))
    job.end()


LINE = re.compile(r'(?P<name>[a-z_:][a-z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)')
LABEL = re.compile(r'([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parse(text):
    """A strict reader of the text format of Prometheus: the kind of each family, and the value of each series."""
    kinds, helped, series, current = {}, set(), {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            if word == "TYPE":
                assert name not in kinds and rest in ("counter", "gauge"), line
                kinds[name], current = rest, name
            else:
                assert word == "HELP" and name == current and name not in helped and rest, line
                helped.add(name)
            continue
        found = LINE.fullmatch(line)
        assert found and found["name"] == current, line
        labels, at = {}, 0
        while at < len(found["labels"]):
            label = LABEL.match(found["labels"], at)
            assert label and label[1] not in labels, line
            labels[label[1]], at = label[2], label.end()
        key = (found["name"], tuple(sorted(labels.items())))
        assert key not in series, "twice: %s" % line
        series[key] = float(found["value"])
    assert set(kinds) == helped
    return kinds, series


def test_the_page_has_the_numbers_of_all_processes(job):
    job.start(SECONDS="0.02")
    job.wait_for_training()
    ask = lambda accept: raw(job.web, "/metrics", accept)  # noqa: E731

    def all_there():
        kind, text = ask("text/plain;version=0.0.4;q=0.3")
        return text if kind.startswith("text/plain; version=0.0.4") and "trainer_fetched" in text else None

    kinds, series = parse(wait_until("all numbers", all_there, MINUTES, job.cluster.logs))
    assert kinds["paddlewheel_trainer_samples_total"] == "counter" and kinds["paddlewheel_server_rows"] == "gauge"
    processes = {(dict(labels)["role"], dict(labels)["index"]) for _, labels in series}
    assert processes == {(role, index) for role in ("server", "trainer") for index in "01"}
    hosts = {dict(labels)["host"] for _, labels in series}
    assert hosts == {os.uname().nodename}
    up = {labels: value for (name, labels), value in series.items() if name == "paddlewheel_process_up"}
    assert sorted(up.values()) == [1, 1, 1, 1]
    waits = [dict(labels) for name, labels in series if name == "paddlewheel_trainer_waiting_seconds_total"]
    assert {"server", "role", "index", "host"} <= set(waits[0])
    kind, text = ask("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")
    job.end()


def raw(address, path, accept):
    """The type and the text of an answer."""
    import urllib.request

    request = urllib.request.Request("http://%s%s" % (address, path), headers={"Accept": accept})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()
