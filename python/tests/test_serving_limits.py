"""Clients of `paddlewheel serve` cannot harm it or each other; its start and its end: real sockets."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import time

import pytest

import paddlewheel as pw
from clusters import Cluster, free_port, wait_until
from paddlewheel import fluid
from test_serving import X, Serving, connected, read_answer, save_model

#: Numbers of an answer for each sample, and samples of a large request: 4 MB, 10 MB as JSON.
N_NUMBERS, N_SAMPLES = 512, 2000
MEGABYTE = 1 << 20


@pytest.fixture
def model(tmp_path):
    save_model(str(tmp_path / "model"))
    return str(tmp_path / "model")


@pytest.fixture
def wide(tmp_path):
    """A model that answers 512 numbers for one."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = fluid.layers.fc(fluid.layers.data("x", [1]), N_NUMBERS)
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(fluid.core.Scope()):
            exe.run(startup)
            fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], [out], exe, main)
    return str(tmp_path / "model")


def post(body, *headers):
    head = "POST /predict HTTP/1.1\r\nContent-Length: {}\r\n{}\r\n"
    return head.format(len(body), "".join(header + "\r\n" for header in headers)).encode() + body


def ask_for(n):
    return post(json.dumps({"columns": {"x": [0.123] * n}}).encode())


def deaf(port):
    """A client whose system takes little before the client reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    return client


def metric(serving, name):
    text = serving.ask("GET", "/metrics")[1].decode()
    return float(text.split("\npaddlewheel_%s " % name)[1].split()[0])


def small(serving):
    status, body = serving.ask("POST", "/predict", '{"columns": {"x": [1]}}')
    return status == 200 and len(list(json.loads(body)["predictions"].values())[0][0]) == N_NUMBERS


def test_slow_readers_of_large_answers_share_one_budget(wide, tmp_path):
    """100 of them would hold 1.4 GB; each is given up at its deadline, and others are served all the time."""
    budget = 64 * MEGABYTE
    options = ("--total_bytes", str(budget), "--client_timeout", "4", "--deadline", "60")
    with Serving(tmp_path, wide, *options) as serving:
        with connected(serving.port) as client:
            client.sendall(ask_for(N_SAMPLES))
            assert read_answer(client) == 200
        before = serving.memory()
        clients = [deaf(serving.port) for _ in range(100)]
        peak = 0
        for client in clients:
            client.sendall(ask_for(N_SAMPLES))
            peak = max(peak, serving.memory())
            assert serving.ask("GET", "/healthz")[0] == 200
        wait_until("refusals", lambda: metric(serving, "refused_total") > 0)
        assert small(serving), "large answers leave room for small ones"
        assert metric(serving, "held_bytes") <= budget
        heads = [client.recv(20) for client in clients]
        statuses = {head.split()[1] for head in heads}
        assert statuses == {b"200", b"503"}, statuses
        wait_until("slow readers to be given up", lambda: metric(serving, "held_bytes") == 0)
        assert metric(serving, "cut_off_total") == sum(b"200" in head for head in heads) > 3
        peak = max(peak, serving.memory())
        assert peak < before + (budget + 64 * MEGABYTE) // 1024, "kilobytes: {} {}".format(before, peak)
        [client.close() for client in clients]
        assert small(serving)


def test_a_reader_that_goes_on_reading_slowly_is_given_up(wide, tmp_path):
    """The deadline is of the whole answer, not of each write."""
    with Serving(tmp_path, wide, "--client_timeout", "1", "--deadline", "60") as serving:
        with deaf(serving.port) as client:
            client.sendall(ask_for(N_SAMPLES))
            client.settimeout(0.05)
            began, last = time.monotonic(), b""
            while time.monotonic() < began + 60:
                try:
                    part = client.recv(2048)
                except socket.timeout:
                    continue
                except ConnectionError:
                    break
                if not part:
                    break
                last = part
                if metric(serving, "cut_off_total"):
                    client.settimeout(10)
            assert metric(serving, "cut_off_total") == 1
            assert not last.endswith(b"0\r\n\r\n"), "not all of it came"
        assert small(serving)


def test_large_answers_arrive_whole_in_pieces_or_to_the_end(wide, tmp_path):
    with Serving(tmp_path, wide, "--deadline", "60") as serving:
        request = ask_for(300)
        with connected(serving.port) as client:
            client.sendall(request * 2)
            answer = http.client.HTTPResponse(client)
            answer.begin()
            assert answer.getheader("Transfer-Encoding") == "chunked"
            rows = list(json.loads(answer.read())["predictions"].values())[0]
            assert len(rows) == 300 and {len(row) for row in rows} == {N_NUMBERS}
        with connected(serving.port) as client:
            client.sendall(request.replace(b"HTTP/1.1", b"HTTP/1.0"))
            answer = http.client.HTTPResponse(client)
            answer.begin()
            assert (answer.getheader("Transfer-Encoding"), answer.getheader("Connection")) == (None, "close")
            assert list(json.loads(answer.read())["predictions"].values())[0] == rows


@pytest.mark.parametrize("n_clients", [40, 400])
def test_half_requests_hold_up_nobody(model, tmp_path, n_clients):
    halves = [b"POST /pre", b"POST /predict HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n{", b"GET /healthz HTTP/1.1\r\n"]
    with Serving(tmp_path, model) as serving:
        clients = [connected(serving.port) for _ in range(n_clients)]
        for at, client in enumerate(clients):
            client.sendall(halves[at % len(halves)])
        for path in ("/healthz", "/readyz", "/metrics"):
            began = time.monotonic()
            assert serving.ask("GET", path)[0] == 200
            assert time.monotonic() < began + 1
        # Those that only wait give their places to others.
        body = {"columns": {"ids": [5, 7], "x": X}}
        wait_until("a prediction", lambda: serving.predict(body)[0] == 200, limit=5)
        assert metric(serving, "held_bytes") < MEGABYTE, "bytes count when they come"
        [client.close() for client in clients]


def chunked(*chunks, ending="0\r\n\r\n", head=""):
    text = "POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + head + "\r\n"
    return (text + "".join("%x;a=b\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + ending).encode()


def status_of(serving, data):
    with connected(serving.port) as client:
        client.sendall(data)
        return read_answer(client)


def test_bodies_in_chunks(model, tmp_path):
    with Serving(tmp_path, model, "--request_bytes", "1000") as serving:
        body = json.dumps({"columns": {"ids": [5, 7], "x": X}})
        parts = [body[:7], body[7:8], body[8:]]
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=30)
        for _ in range(3):
            connection.request("POST", "/predict", iter(part.encode() for part in parts), encode_chunked=True)
            answer = connection.getresponse()
            assert (answer.status, list(json.loads(answer.read())["predictions"].values())) == (200, [[[5.5], [7.5]]])
        connection.close()
        # Headers behind the last chunk are read and forgotten; the next request follows.
        with connected(serving.port) as client:
            client.sendall(chunked(*parts, ending="0\r\nDigest: x\r\n\r\n") * 2)
            answers = b""
            while answers.count(b"HTTP/1.1 200") < 2:
                more = client.recv(65536)
                assert more and b"HTTP/1.1 4" not in more, answers + more
                answers += more
        for data, status in [
            (chunked("x" * 600, "y" * 401), 413),
            (chunked(ending="ffffffffffffffff\r\n"), 413),
            (chunked(ending="7g\r\n{}\r\n"), 400),
            (chunked(ending="\r\n\r\n"), 400),
            (chunked(ending="2\r\n{}xx"), 400),
            (chunked(ending="0\r\n" + "a: b\r\n" * 4000), 431),
            (chunked(*parts, head="Content-Length: 5\r\n"), 400),
            (chunked(*parts).replace(b"chunked", b"gzip, chunked"), 501),
            (post(b"{}").replace(b": 2", b": +2"), 400),
            (post(b"{}", "Expect: 200-ok"), 417),
        ]:
            assert status_of(serving, data) == status, data[:80]
        assert serving.works()


def test_a_client_that_waits_to_be_told_to_go_on(model, tmp_path):
    with Serving(tmp_path, model) as serving:
        body = json.dumps({"columns": {"ids": [5, 7], "x": X}}).encode()
        head, _, rest = post(body, "Expect: 100-continue").partition(b"\r\n\r\n")
        with connected(serving.port) as client:
            client.sendall(head + b"\r\n\r\n")
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(rest)
            assert read_answer(client) == 200
        too_large = post(b"x", "Expect: 100-continue").replace(b": 1\r", b": 99999999\r")
        assert status_of(serving, too_large[:-1]) == 413


def test_columns_that_nobody_reads_take_no_memory(tmp_path):
    """Each row has a column of its own: 4000 columns of 4000 rows would be 500 MB."""
    rows = {"a": [str(n % 7) for n in range(200)], "b": [n % 3 for n in range(200)], "y": [n % 2 for n in range(200)]}
    pw.CTR("y", epochs=1, hidden=[4]).fit(rows).save(str(tmp_path / "model"))
    with Serving(tmp_path, str(tmp_path / "model")) as serving:
        row = lambda n: {"a": "1", "b": 2, "c%d" % n: [n, {"x": None}]}  # noqa: E731
        assert serving.predict({"rows": [row(0)]})[0] == 200
        before = serving.memory("VmHWM")
        status, answer = serving.predict({"rows": [row(n) for n in range(4000)]})
        assert status == 200 and len(list(answer["predictions"].values())[0]) == 4000
        assert serving.memory("VmHWM") < before + 32_000, "kilobytes"
        assert serving.predict({"rows": [row(0)] * 9000})[0] == 413
        status, answer = serving.predict({"rows": [{"a": "1", "b": 2}, {"a": "1"}]})
        assert status == 400 and "`b`" in answer["error"]
        status, answer = serving.predict({"columns": {"a": ["1"], "b": [[1]]}})
        assert status == 400 and "a list" in answer["error"]


def ready(serving):
    status, body = serving.ask("GET", "/readyz")
    return status, json.loads(body)


@contextlib.contextmanager
def starting(folder, model):
    """A process that has been started to serve, and may not listen yet."""
    serving = Serving.__new__(Serving)
    serving.port = free_port()
    with contextlib.closing(Cluster(folder)) as serving.cluster:
        serving.cluster.start("serve", "-m", "paddlewheel", "serve", model, "--port", str(serving.port))
        yield serving


def readiness(serving):
    """Its output, as soon as it listens."""

    def asked():
        try:
            return ready(serving)
        except ConnectionError:
            assert serving.cluster.is_running("serve"), serving.cluster.logs()
            return None

    return wait_until("an answer", asked)


def test_it_is_ready_when_the_model_is_loaded(model, tmp_path):
    with starting(tmp_path, model) as serving:
        loading = lambda: readiness(serving) == (503, {"error": "the model is being loaded"})  # noqa: E731
        wait_until("the model", lambda: not loading())
        assert ready(serving)[0] == 200
        assert serving.works()


def test_it_says_that_the_model_is_being_loaded(model, tmp_path):
    """The program is a pipe: a reader waits until a process writes."""
    shutil.rmtree(model + "/.paddlewheel", ignore_errors=True)
    os.unlink(model + "/__model__")
    os.mkfifo(model + "/__model__")
    with starting(tmp_path, model) as serving:
        assert readiness(serving) == (503, {"error": "the model is being loaded"})
        assert serving.ask("GET", "/healthz")[0] == 200
        assert serving.ask("GET", "/metrics")[0] == 200
        assert serving.ask("GET", "/")[0] == 503
        assert serving.predict({"columns": {"ids": [5, 7], "x": X}})[0] == 503
        open_pipe = lambda: os.open(model + "/__model__", os.O_WRONLY | os.O_NONBLOCK)  # noqa: E731
        os.close(open_pipe())
        assert "not a regular file" in serving.cluster.expect("serve", 1)


def test_requests_in_flight_are_answered_before_the_end(model, tmp_path):
    with Serving(tmp_path, model) as serving:
        assert ready(serving)[0] == 200
        body = json.dumps({"columns": {"ids": [5, 7], "x": X}}).encode()
        request = post(body)
        with connected(serving.port) as client, connected(serving.port) as idle:
            client.sendall(request[:-5])
            wait_until("the request to begin", lambda: metric(serving, "held_bytes") > 0)
            serving.cluster.signal("serve", 15)
            wait_until("the end to begin", lambda: ready(serving)[0] == 503)
            assert ready(serving)[1]["error"] == "the server was asked to end"
            assert serving.ask("GET", "/healthz")[0] == 200
            assert serving.works(), "new requests are answered while others are"
            assert serving.cluster.is_running("serve")
            client.sendall(request[-5:])
            answer = http.client.HTTPResponse(client)
            answer.begin()
            assert (answer.status, answer.getheader("Connection")) == (200, "close")
            assert list(json.loads(answer.read())["predictions"].values()) == [[[5.5], [7.5]]]
            serving.cluster.expect("serve", 0, limit=10)
            idle.close()


def test_an_end_has_a_deadline(model, tmp_path):
    with Serving(tmp_path, model, "--grace_secs", "0.5", "--client_timeout", "60") as serving:
        with connected(serving.port) as client:
            client.sendall(b"POST /predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
            wait_until("the request to begin", lambda: metric(serving, "held_bytes") > 0)
            serving.cluster.signal("serve", 15)
            assert "not answered within 0.5 s" in serving.cluster.expect("serve", 0, limit=10)
