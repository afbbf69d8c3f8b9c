"""The view of a running job: HTTP of every process, the page in a real browser, files, and the harm that bad
clients can do."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from browser import browser  # noqa: F401
from clusters import Cluster, free_endpoints, free_port, server_variables, short_job, trainer_variables, wait_until
from conftest import PACKAGES, ROOT

JOB = os.path.join(ROOT, "python", "tests", "jobs", "watched.py")
#: The picture of the documents is made where this says.
PICTURE = os.environ.get("PADDLEWHEEL_PICTURE")
MINUTES = 180


def get(address, path, timeout=20):
    """The status and the body of an answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open("http://%s%s" % (address, path), timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Job:
    """Two servers and two trainers that train until they are told to stop."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = Cluster(folder)
        self.web = "127.0.0.1:%d" % free_port()
        clicks = ["-m", "paddlewheel", "make-criteo", str(folder / "clicks")]
        subprocess.check_call([sys.executable, *clicks, "--rows", "8000", "--files", "4"])

    def start(self, *options, web=None, **variables):
        """Starts the launcher."""
        options = ["--worker_num", "2", "--server_num", "2", "--web=" + (web or self.web), *options]
        script = [JOB, "--examples", os.path.join(ROOT, "examples", "ctr")]
        script += ["--until", str(self.folder / "enough")]
        self.cluster.start("launcher", "-m", "paddlewheel", "launch_ps", *options, *script, **variables)

    def view(self):
        """The contents of the page; None while there is none."""
        try:
            return json.loads(get(self.web, "/job.json")[1])
        except OSError:
            assert self.cluster.is_running("launcher"), self.cluster.logs()
            return None

    def wait(self, what, so):
        """Waits until the page shows something; returns all of it."""

        def found():
            view = self.view()
            return view if view and so(view) else None

        return wait_until(what, found, MINUTES, lambda: "%s\n%s" % (self.view(), self.cluster.logs()))

    def end(self):
        """Lets the job end; returns what the launcher has said."""
        (self.folder / "enough").touch()
        return self.cluster.expect("launcher", 0, MINUTES)

    def address(self, name):
        """Where a process answers."""
        number, names = 0, ["server 0", "server 1", "worker 0", "worker 1"]
        for port in range(7170, 7400):
            try:
                state = json.loads(get("127.0.0.1:%d" % port, "/state")[1])
            except (OSError, ValueError):
                continue
            if is_child(state["pid"], self.cluster.pid("launcher")):
                own = state["role"].replace("trainer", "worker")
                if "%s %d" % (own, state["id"]) == name:
                    return "127.0.0.1:%d" % port
                number += 1
        raise AssertionError("%s of %s does not answer" % (name, names))


def is_child(pid, parent):
    """Whether a process was started by another."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return int(file.read().rpartition(") ")[2].split()[1]) == parent
    except OSError:
        return False


@pytest.fixture
def job(tmp_path):
    """A job that is not started."""
    made = Job(tmp_path)
    yield made
    made.cluster.close()


def has_speed(view):
    """Whether samples are trained and curves have begun."""
    names = {curve["name"]: len(curve["points"]) for curve in view["curves"]}
    return min(names.get(name, 0) for name in ("samples_per_second", "loss", "AUC", "rows")) >= 3


def test_every_process_answers(job):
    job.start()
    job.wait("four processes", lambda view: has_speed(view) and len(view["processes"]) == 4)
    for name in ("server 0", "server 1", "worker 0", "worker 1"):
        address = job.address(name)
        assert get(address, "/healthz") == (200, '{"status":"ok"}')
        assert get(address, "/readyz") == (200, '{"status":"ready"}')
        assert get(address, "/etc/passwd")[0] == 404
        status, text = get(address, "/metrics")
        assert status == 200 and text.endswith("# EOF\n")
        state = json.loads(get(address, "/state")[1])
        numbers = state["numbers"]
        if state["role"] == "server":
            assert numbers["server_looked_up_rows"] > 0 and numbers["server_table_rows"] > 0
            assert numbers["server_trainers"] == 2 and numbers["server_pushes"] > 0
            busy = numbers["server_finding_seconds"] + numbers["server_applying_seconds"]
            assert 0 < numbers["server_busy_seconds"] <= busy + 1
            assert 0 < numbers["server_hottest_keys_share"] <= 1
        else:
            assert numbers["trainer_samples"] >= 100 * numbers["trainer_batches"] / 2 > 0
            assert numbers["trainer_computing_seconds"] > 0
            assert set(state["labelled"]["trainer_fetched"]) == {"loss", "AUC"}
            assert numbers["network_sent_bytes"] > 0 and numbers["network_received_bytes"] > 0
        check_open_metrics(text)
    view = job.view()
    for process in view["processes"]:
        assert abs(sum(part["share"] for part in process["parts"]) - 1) < 1e-6, process
    said = job.end()
    assert "--- work of each process\n" in said and said.endswith("\nthe job has finished\n")
    table = said.partition("--- work of each process\n")[2].splitlines()
    assert [line.split(" ")[0] for line in table[:5]] == ["trainer", "trainer", "server", "server", "together"]
    lines = (job.folder / "logs" / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert len(lines) >= 3 and {"samples_per_second", "loss", "AUC", "rows"} <= set(last["values"])


SHORT = short_job(40)


def test_a_job_shorter_than_a_look_is_summed_up_to_its_end(tmp_path):
    (tmp_path / "short.py").write_text(SHORT)
    command = [sys.executable, "-m", "paddlewheel", "launch_ps", "short.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": PACKAGES}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    for name in ("serverlog.0.state", "serverlog.1.state"):
        numbers = json.loads((tmp_path / "logs" / "latest" / name).read_text())["numbers"]
        assert numbers["server_rounds"] == 40, numbers
    assert done.stderr.count(" in 40 rounds") == 2, done.stderr


def check_open_metrics(text):
    """Reads the text as Prometheus does, if its parser is there."""
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        return
    families = list(text_string_to_metric_families(text))
    assert len(families) > 10 and all(family.name.startswith("paddlewheel_") for family in families)


def test_the_page_in_a_browser(job, browser):  # noqa: F811
    job.start("--snapshot_secs", "1", "--max_restarts", "3")
    job.wait("curves", has_speed)
    browser.size(1280, 1500)
    browser.open("http://%s/" % job.web)
    shown = "return document.querySelectorAll('.process.running').length"
    wait_until("four processes on the page", lambda: browser.run(shown) == 4, 60, job.cluster.logs)
    assert browser.text("#title") == "watched.py" and browser.text("#who").endswith(".")
    # Curves move.
    curve = "return document.querySelector('#curves polyline').getAttribute('points')"
    before = browser.run(curve)
    wait_until("a curve that moves", lambda: browser.run(curve) != before, 60, job.cluster.logs)
    labels = browser.run("return [...document.querySelectorAll('.curve .label')].map((one) => one.innerText)")
    assert {"samples a second", "loss", "AUC", "rows of tables"} <= set(labels), labels
    figures = browser.run("return [...document.querySelectorAll('.figure .label')].map((one) => one.innerText)")
    assert {"samples a second", "rows", "staleness", "sent", "hottest keys", "last snapshot"} <= set(figures)
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for width in (1280, 390):
            browser.size(width, 1500)
            check_readable(browser, width, "%s at %d" % (scheme, width))
    background = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.run(background)
    browser.prefer("light")
    assert browser.run(background) != dark
    browser.size(1280, 1240)
    if PICTURE:
        long = lambda view: len(view["curves"][0]["points"]) >= 25  # noqa: E731
        job.wait("a curve worth a picture", long)
    browser.picture(PICTURE or str(job.folder / "page.png"))
    # A killed process shows, and comes back.
    state = json.loads(get(job.address("worker 1"), "/state")[1])
    os.kill(state["pid"], 9)
    happened = "return document.querySelector('#events').innerText"
    wait_until("the death on the page", lambda: "was killed by signal 9 (SIGKILL)" in browser.run(happened), 60, job.cluster.logs)
    wait_until("the restart on the page", lambda: "trainer 1 was started again" in browser.run(happened), 120, job.cluster.logs)
    wait_until("four processes again", lambda: browser.run(shown) == 4, 120, job.cluster.logs)
    job.end()
    lost = "return document.querySelector('#link').className"
    wait_until("the end on the page", lambda: "lost" in browser.run(lost), 60, job.cluster.logs)


def check_readable(browser, width, where):  # noqa: F811
    """Nothing is wider than the window, no text is cut off or lies on another."""
    wide = "return document.documentElement.scrollWidth"
    assert browser.run(wide) <= width, where
    problems = browser.run(
        """
        const found = [];
        const cards = [...document.querySelectorAll('.figure, .curve, .process')];
        const boxes = cards.map((card) => card.getBoundingClientRect());
        boxes.forEach((a, n) => boxes.slice(n + 1).forEach((b) => {
          const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (x > 1 && y > 1) found.push('two boxes overlap');
        }));
        for (const node of document.querySelectorAll('.figure .value, .figure .label, .process .name, .curve .now, #who')) {
          if (node.scrollWidth > node.clientWidth + 1 && node.clientWidth) found.push('cut off: ' + node.innerText);
        }
        const size = (node) => parseFloat(getComputedStyle(node).fontSize);
        for (const node of document.querySelectorAll('.note, .facts, .label, .legend')) {
          if (size(node) < 11) found.push('too small: ' + node.innerText);
        }
        const light = (color) => {
          const [r, g, b] = color.match(/[\\d.]+/g).map((part) => {
            const c = part / 255;
            return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const card = light(getComputedStyle(document.querySelector('.figure')).backgroundColor);
        for (const name of ['.figure .value', '.figure .note', '.process .facts', '#why']) {
          const text = light(getComputedStyle(document.querySelector(name)).color);
          const contrast = (Math.max(card, text) + 0.05) / (Math.min(card, text) + 0.05);
          if (contrast < 4.5) found.push(name + ' has a contrast of ' + contrast);
        }
        return found;
        """
    )
    assert problems == [], where


def test_bad_clients_do_no_harm(job):
    """A browser that never reads, garbage on every port, and ports that are taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        web = "127.0.0.1:%d" % taken.getsockname()[1]
        job.start(web=web)
        job.cluster.wait_for("launcher", "there is no page: cannot listen on %s" % web)
    assert "the job continues" in job.cluster.log("launcher")
    lines = job.folder / "logs" / "metrics.jsonl"
    wait_until("numbers", lambda: lines.exists() and '"samples_per_second"' in lines.read_text(), MINUTES, job.cluster.logs)
    host, port = job.address("server 0").split(":")
    deaf = []
    for at in range(40):
        client = socket.create_connection((host, int(port)), timeout=20)
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 50 if at % 2 else b"\x16\x03\x01\xff" * 500)
        deaf.append(client)
    before = json.loads(lines.read_text().splitlines()[-1])["step"]
    step = lambda: json.loads(lines.read_text().splitlines()[-1])["step"]  # noqa: E731
    wait_until("training goes on", lambda: step() > before, MINUTES, job.cluster.logs)
    for client in deaf:
        client.close()
    assert get("%s:%s" % (host, port), "/healthz")[0] == 200
    job.end()


def test_a_taken_port_of_a_process_is_said(child):
    script = "import paddlewheel.fluid as fluid\nfluid.Executor(fluid.CPUPlace())\nprint('goes on')"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = child("-c", script, environment={"PADDLEWHEEL_METRICS_PORT": port})
    assert (result.returncode, result.stdout) == (0, "goes on\n"), result.stderr
    assert "cannot listen on 127.0.0.1:%s" % port in result.stderr and "continues without monitoring" in result.stderr
    result = child("-c", script, environment={"PADDLEWHEEL_METRICS_PORT": "web"})
    assert result.returncode == 0 and "PADDLEWHEEL_METRICS_PORT is `web`" in result.stderr


def test_watching_processes_that_others_started(tmp_path):
    """One answers, one never does, one is gone."""
    cluster = Cluster(tmp_path)
    web, alive = ["127.0.0.1:%d" % free_port() for _ in range(2)]
    try:
        script = "import paddlewheel.fluid as fluid, time\nfluid.Executor(fluid.CPUPlace())\ntime.sleep(1000)"
        variables = {"PADDLEWHEEL_METRICS_PORT": alive.partition(":")[2], "PADDLE_TRAINER_ID": "3"}
        cluster.start("trainer", "-c", script, **variables)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            never = "127.0.0.1:%d" % silent.getsockname()[1]
            cluster.start("watch", "-m", "paddlewheel", "watch", "--web=" + web, alive, never, "127.0.0.1:9")
            cluster.wait_for("watch", "the page of this job: http://%s/" % web)

            def shown():
                view = json.loads(get(web, "/job.json")[1])
                rows = view["processes"]
                if view["judgement"]["cause"] != "silent":
                    return False
                notes = [(row["name"], row["condition"]) for row in rows]
                return ("trainer 3", "running") in notes and "it did not answer in time" in str(rows)

            wait_until("one that answers and one that does not", shown, 60, cluster.logs)
        cluster.signal("watch", 2)
        assert cluster.wait("watch") == 0, cluster.logs()
        cluster.start("nobody", "-m", "paddlewheel", "watch")
        assert "<HOST:PORT>" in cluster.expect("nobody", 2)
    finally:
        cluster.close()


def test_tensorboard_opens_the_files(job):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    board = job.folder / "board"
    job.start("--tensorboard", str(board))
    job.wait("curves", has_speed)
    job.end()
    events = accumulator.EventAccumulator(str(board))
    events.Reload()
    assert {"samples_per_second", "loss", "AUC", "rows"} <= set(events.Tags()["scalars"])
    losses = events.Scalars("loss")
    assert len(losses) >= 3 and all(one.value > 0 and one.wall_time > 1e9 for one in losses)
    assert [one.step for one in losses] == sorted(one.step for one in losses)
    assert pathlib.Path(board).exists()


SERVER = """
import os, time
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

fleet.init(role_maker.PaddleCloudRoleMaker())
loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
fleet.distributed_optimizer(fluid.optimizer.Adam(0.1)).minimize(loss)
if fleet.is_server():
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    fleet.init_server()
    open("started", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    fleet.run_server()
else:
    import numpy
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    while not os.path.exists("enough"):
        exe.run(fleet.main_program, feed={"x": numpy.ones((2, 4), "float32")}, fetch_list=[loss])
    fleet.stop_worker()
"""


def test_a_server_is_ready_when_it_listens_and_takes_no_steps(tmp_path):
    """Its startup program, a model and a time of standing by come before that."""
    cluster = Cluster(tmp_path)
    (tmp_path / "job.py").write_text(SERVER)
    endpoints, ports = free_endpoints(1), [str(free_port()) for _ in range(2)]
    try:
        own = server_variables(endpoints, 0, 1)
        cluster.start("server", "job.py", PADDLEWHEEL_METRICS_PORT=ports[0], **own)
        wait_until("a server that has run programs", (tmp_path / "started").exists, 60, cluster.logs)
        server, trainer = ["127.0.0.1:" + port for port in ports]
        assert get(server, "/readyz")[0] == 503 and get(server, "/healthz")[0] == 200
        (tmp_path / "go").touch()
        wait_until("readiness", lambda: get(server, "/readyz")[0] == 200, 60, cluster.logs)
        assert "Server listening on" in cluster.log("server") or "listen" in cluster.log("server")
        cluster.start("trainer", "job.py", PADDLEWHEEL_METRICS_PORT=ports[1], **trainer_variables(endpoints, 0, 1))
        numbers = lambda address: json.loads(get(address, "/state")[1])["numbers"]  # noqa: E731
        wait_until("pushes", lambda: numbers(server).get("server_pushes", 0) > 100, 60, cluster.logs)
        found = numbers(server)
        # All that it ran as a script is its startup program.
        assert found["trainer_batches"] == 0 and found["server_applying_seconds"] > 0
        again = numbers(server)
        assert again["trainer_computing_seconds"] == found["trainer_computing_seconds"], "a server applies"
        assert numbers(trainer)["trainer_computing_seconds"] > 0
        (tmp_path / "enough").touch()
        cluster.expect("trainer", 0)
        cluster.expect("server", 0)
    finally:
        cluster.close()


@pytest.mark.parametrize("n", [40, 400])
def test_half_requests_keep_nobody_out(tmp_path, n):
    cluster = Cluster(tmp_path)
    script = "import paddlewheel.fluid as fluid, time\nfluid.Executor(fluid.CPUPlace())\ntime.sleep(1000)"
    address = "127.0.0.1:%d" % free_port()
    half = []
    try:
        cluster.start("process", "-c", script, PADDLEWHEEL_METRICS_PORT=address.partition(":")[2])

        def is_up():
            try:
                return get(address, "/healthz")[0] == 200
            except OSError:
                return False

        wait_until("a process that answers", is_up, 60, cluster.logs)
        for _ in range(n):
            client = socket.create_connection(("127.0.0.1", int(address.partition(":")[2])), timeout=20)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHos")
            half.append(client)
        for _ in range(5):
            # Half requests are closed after 10 s.
            assert get(address, "/healthz", timeout=2) == (200, '{"status":"ok"}')
    finally:
        for client in half:
            client.close()
        cluster.close()


def test_watching_nobody_is_said_in_the_terminal(tmp_path):
    cluster = Cluster(tmp_path)
    nobody = "127.0.0.1:%d" % free_port()
    try:
        cluster.start("watch", "-m", "paddlewheel", "watch", "--web=127.0.0.1:%d" % free_port(), nobody)
        cluster.wait_for("watch", "%s does not answer: " % nobody)
        assert "Connection refused" in cluster.log("watch")
        cluster.signal("watch", 2)
        assert cluster.wait("watch") == 0, cluster.logs()
    finally:
        cluster.close()
