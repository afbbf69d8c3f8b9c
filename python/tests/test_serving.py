"""`paddlewheel.Predictor`, Fluid's inference API, and `paddlewheel serve`: real processes, real sockets."""

import http.client
import json
import os
import select
import shutil
import socket
import struct
import threading

import numpy as np
import pytest

import paddlewheel
from clusters import Cluster, wait_until
from paddlewheel import fluid

CORE = fluid.core


def save_model(folder, bias=0.0):
    """A model whose prediction is the sum of a sample's ids, plus two numbers, plus `bias`."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
        x = fluid.layers.data("x", [2])
        table = fluid.initializer.NumpyArrayInitializer(np.arange(100, dtype="float32").reshape(100, 1))
        rows = fluid.layers.embedding(ids, [100, 1], param_attr=fluid.ParamAttr(initializer=table))
        both = fluid.layers.concat([fluid.layers.sequence_pool(rows, "sum"), x], axis=1)
        one = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
        own = fluid.ParamAttr(initializer=fluid.initializer.Constant(bias))
        out = fluid.layers.fc(both, 1, param_attr=one, bias_attr=own)
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(CORE.Scope()):
            exe.run(startup)
            fluid.io.save_inference_model(folder, ["ids", "x"], [out], exe, main)


X = [[0.5, 0.0], [0.25, 0.25]]


@pytest.fixture
def model(tmp_path):
    save_model(str(tmp_path / "model"))
    return str(tmp_path / "model")


class Frame(dict):
    """Columns by name, as a DataFrame has them."""


class Series:
    """A column of a DataFrame."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        array = np.empty(len(self.values), object)
        array[:] = self.values
        return array


def test_a_predictor_takes_arrays_lists_and_columns(model):
    predictor = paddlewheel.Predictor(model)
    assert predictor.slots == {"ids": ("int64", [1], True), "x": ("float32", [2], False)}
    both = [[5.5], [7.5]]
    assert predictor.predict({"ids": np.array([5, 7]), "x": np.array(X)}).tolist() == both
    assert predictor.predict({"ids": [5, 7], "x": X}).tolist() == both
    assert predictor.predict({"ids": np.array([[5], [7]], "int32"), "x": X}).tolist() == both
    assert predictor.predict({"ids": [[2, 3], [7]], "x": X}).tolist() == both
    assert predictor.predict({"ids": [[], [7]], "x": X}).tolist() == [[0.5], [7.5]]
    assert predictor.predict(Frame(ids=Series([[2, 3], [7]]), x=np.array(X, "float64"))).tolist() == both
    lod = fluid.create_lod_tensor(np.array([[2], [3], [7]], "int64"), [[2, 1]], fluid.CPUPlace())
    assert predictor.predict({"ids": lod, "x": X}).tolist() == both


def test_wrong_input_of_a_predictor_is_named(model):
    predictor = paddlewheel.Predictor(model)
    for wrong, kind, words in [
        ({"idz": [1], "x": X[:1]}, KeyError, "no slot `idz`. Did you mean `ids`\\? It has: ids, x"),
        ({"ids": [1]}, KeyError, "`x` is missing"),
        ({"ids": [1.5], "x": X[:1]}, TypeError, "`ids` takes int64"),
        ({"ids": ["a"], "x": X[:1]}, TypeError, "`ids` takes int64"),
        ({"ids": [1], "x": [[1, 2, 3]]}, ValueError, "`x`: a sample has 2 numbers, but each sample given has 3"),
        ({"ids": [1, 2], "x": np.ones((2, 4), "float32")}, ValueError, "has 2 numbers, but each sample given has 4"),
        ({"ids": [1, 2], "x": np.ones((2, 4))}, ValueError, "has 2 numbers, but each sample given has 4"),
        ({"ids": [1], "x": np.ones(3, "float32")}, ValueError, "3 numbers given are not a multiple"),
        ({"ids": [1, 2], "x": X[:1]}, ValueError, "`x` has 1 samples"),
        ({"ids": [1], "x": [[float("nan"), 0]]}, ValueError, "`x`.*not finite"),
        ({"ids": [100], "x": X[:1]}, ValueError, "100 is not a row"),
        ([[1], X[0]], TypeError, "a dict of columns or a DataFrame, not list"),
    ]:
        with pytest.raises(kind, match=words):
            predictor.predict(wrong)
    assert predictor.predict({"ids": [5, 7], "x": X}).tolist() == [[5.5], [7.5]]
    with pytest.raises(ValueError):
        paddlewheel.Predictor(model + "/nothing")


def test_samples_of_another_layout_are_refused(tmp_path):
    """Channels last where channels come first have as many numbers, and mean something else."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = fluid.layers.data("image", [3, 2, 2])
        out = fluid.layers.scale(image, 2.0)
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(CORE.Scope()):
            fluid.io.save_inference_model(str(tmp_path / "m"), ["image"], [out], exe, main)
    predictor = paddlewheel.Predictor(str(tmp_path / "m"))
    first = np.arange(24, dtype="float32").reshape(2, 3, 2, 2)
    for image in (first, first.astype("float64"), first.tolist(), first.reshape(2, 12), first.reshape(2, 1, 3, 2, 2)):
        assert np.array_equal(predictor.predict({"image": image}), 2 * first)
    for image in (first.transpose(0, 2, 3, 1).copy(), first.reshape(2, 2, 2, 3).astype("float64"), first.reshape(2, 6, 2)):
        with pytest.raises(ValueError, match=r"slot `image`: a sample has the shape \[3, 2, 2\], but each sample given has"):
            predictor.predict({"image": image})


def test_fluids_inference_api(model, tmp_path):
    config = CORE.AnalysisConfig(model)
    config.disable_gpu()
    config.switch_use_feed_fetch_ops(True)
    predictor = CORE.create_paddle_predictor(config)
    ids = CORE.PaddleTensor(np.array([[2], [3], [7]], "int64"))
    ids.lod, ids.name = [[0, 2, 3]], "ids"
    x = CORE.PaddleTensor(np.array(X, "float32"), name="x")
    (out,) = predictor.run([ids, x])
    assert (out.shape, out.dtype) == ([2, 1], CORE.PaddleDType.FLOAT32)
    assert out.as_ndarray().tolist() == [[5.5], [7.5]]
    assert out.data.float_data() == [5.5, 7.5]
    # As Fluid's own examples make a tensor: part by part, in any order.
    parts = CORE.PaddleTensor()
    parts.name, parts.shape, parts.dtype = "ids", [3, 1], CORE.PaddleDType.INT64
    parts.lod = [[0, 2, 3]]
    parts.data = CORE.PaddleBuf(np.array([2, 3, 7], "int64"))
    numbers = CORE.PaddleTensor(name="x")
    numbers.data = CORE.PaddleBuf([0.5, 0, 0.25, 0.25])
    numbers.shape = [2, 2]
    assert (numbers.data.length(), numbers.data.tolist("float32")) == (16, [0.5, 0.0, 0.25, 0.25])
    assert predictor.run([parts, numbers])[0].as_ndarray().tolist() == [[5.5], [7.5]]
    numbers.data.reset([1, 0, 1, 0])
    assert predictor.run([parts, numbers])[0].as_ndarray().tolist() == [[6.0], [8.0]]
    for name, wrong, words in [
        ("shape", [3, 2], "`x`: its shape is \\[3, 2\\], but its data have 4 elements"),
        ("dtype", CORE.PaddleDType.INT64, "`x`: its dtype is INT64, but its data are FLOAT32"),
        ("lod", [[0, 1]], "1"),
    ]:
        right = getattr(numbers, name)
        setattr(numbers, name, wrong)
        with pytest.raises(Exception, match=words):
            predictor.run([parts, numbers])
        setattr(numbers, name, right)
    config = CORE.AnalysisConfig()
    config.pass_builder().delete_pass("fc_fuse_pass")
    config.enable_tensorrt_engine(workspace_size=1 << 20, max_batch_size=1)
    config.set_mkldnn_cache_capacity(10)
    assert not config.tensorrt_engine_enabled() and config.glog_info_disabled()
    config.set_model(model)
    config.switch_use_feed_fetch_ops(False)
    predictor = CORE.create_paddle_predictor(config)
    assert predictor.get_input_names() == ["ids", "x"]
    tensor = predictor.get_input_tensor("ids")
    tensor.copy_from_cpu(np.array([[2], [3], [7]], "int64"))
    tensor.set_lod([[0, 2, 3]])
    predictor.get_input_tensor("x").copy_from_cpu(np.array(X, "float32"))
    assert predictor.zero_copy_run()
    (name,) = predictor.get_output_names()
    assert predictor.get_output_tensor(name).copy_to_cpu().tolist() == [[5.5], [7.5]]
    with pytest.raises(Exception, match="nothing"):
        CORE.create_paddle_predictor(CORE.AnalysisConfig(str(tmp_path / "nothing")))


class Serving:
    """A process that serves a model."""

    def __init__(self, folder, model, *options):
        self.cluster = Cluster(folder)
        command = ("-m", "paddlewheel", "serve", model, "--port", "0", *options)
        self.cluster.start("serve", *command)
        self.cluster.wait_for("serve", "serving on http://")
        self.port = int(self.cluster.log("serve").split("http://127.0.0.1:")[1].split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def predict(self, body):
        status, answer = self.ask("POST", "/predict", json.dumps(body))
        return status, json.loads(answer)

    def works(self):
        status, answer = self.predict({"columns": {"ids": [5, 7], "x": X}})
        assert (status, list(answer["predictions"].values())) == (200, [[[5.5], [7.5]]])
        return True

    def memory(self, what="VmRSS"):
        with open("/proc/{}/status".format(self.cluster.pid("serve"))) as file:
            return int(next(line for line in file if line.startswith(what)).split()[1])


@pytest.fixture
def serving(model, tmp_path):
    with Serving(tmp_path, model) as serving:
        yield serving


def raw(ids, x):
    """Raw columns."""
    name = lambda text: struct.pack("<H", len(text)) + text.encode()
    body = b"PWC1" + struct.pack("<II", len(x), 2)
    lengths = np.array([len(one) for one in ids], "<u4").tobytes()
    values = np.array([one for all in ids for one in all], "<i8").tobytes()
    body += name("ids") + struct.pack("<BBI", 3, 1, 1) + lengths + values
    return body + name("x") + struct.pack("<BBI", 5, 0, 2) + np.array(x, "<f4").tobytes()


COLUMNS = {"Content-Type": "application/x-paddlewheel-columns"}


def test_predictions_over_http(serving):
    assert serving.works()
    rows = [{"ids": [2, 3], "x": X[0]}, {"ids": 7, "x": X[1]}]
    status, answer = serving.predict({"rows": rows})
    assert (status, list(answer["predictions"].values())) == (200, [[[5.5], [7.5]]])
    status, body = serving.ask("POST", "/predict", raw([[2, 3], [7]], X), COLUMNS)
    assert status == 200 and body[:12] == b"PWC1" + struct.pack("<II", 2, 1)
    assert np.frombuffer(body[-8:], "<f4").tolist() == [5.5, 7.5]
    status, body = serving.ask("GET", "/")
    assert json.loads(body)["slots"][0]["name"] == "ids"
    status, body = serving.ask("GET", "/healthz")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    status, body = serving.ask("GET", "/metrics")
    text = body.decode()
    assert status == 200 and text.endswith("# EOF\n")
    assert 'paddlewheel_requests_total{status="200"}' in text
    assert "paddlewheel_samples_total 6" in text


def test_many_requests_at_once_are_answered_each(serving):
    wrong = []

    def ask(number):
        for turn in range(20):
            ids = [(number * 7 + turn + k) % 100 for k in range(3)]
            status, answer = serving.predict({"columns": {"ids": ids, "x": [[0, 0]] * 3}})
            if status != 200 or list(answer["predictions"].values()) != [[[float(k)] for k in ids]]:
                wrong.append((ids, status, answer))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_wrong_requests_are_refused_by_name(serving):
    for body, words in [
        (b"garbage", "not JSON"),
        (b"[]", "columns"),
        (b'{"columns": {"ids": [1], "x": [[1, 2]], "y": [1]}}', "`y`"),
        (b'{"columns": {"ids": [1]}}', "`x` is missing"),
        (b'{"rows": [{"ids": 1}]}', "`x` is missing"),
        (b'{"columns": {"ids": [1.5], "x": [[1, 2]]}}', "`ids` takes int64"),
        (b'{"columns": {"ids": ["a"], "x": [[1, 2]]}}', "`ids` takes int64"),
        (b'{"columns": {"ids": [null], "x": [[1, 2]]}}', "`ids` takes int64"),
        (b'{"columns": {"ids": [1], "x": [[1, 2, 3]]}}', "`x`"),
        (b'{"columns": {"ids": [1, 2], "x": [[1, 2]]}}', "`x` has 1 samples"),
        (b'{"columns": {"ids": [1], "x": [[1, NaN]]}}', "not JSON"),
        (b'{"columns": {"ids": [1], "x": [[1, 1e39]]}}', "`x`"),
        (b'{"columns": {"ids": [100], "x": [[1, 2]]}}', "100 is not a row"),
        (b'{"columns": {"ids": [], "x": []}}', "no sample"),
    ]:
        status, answer = serving.ask("POST", "/predict", body)
        assert status == 400 and words in json.loads(answer)["error"], (body, answer)
    whole = raw([[2, 3], [7]], X)
    for body in (b"", whole[:-1], whole + b"x", b"PWC1" + b"\xff" * 40, raw([[2]], [[float("nan"), 0]])):
        status, answer = serving.ask("POST", "/predict", body, COLUMNS)
        assert status == 400, answer
    assert serving.ask("GET", "/predict")[0] == 405
    assert serving.ask("GET", "/nothing")[0] == 404
    assert serving.works()


def send(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(data)
        return client.recv(4096)


def test_garbage_and_large_bodies_harm_nothing(serving):
    before = serving.memory()
    for data in (b"\x00\xff garbage\r\n\r\n", b"GET\r\n\r\n", os.urandom(3000) + b"\r\n\r\n"):
        assert send(serving.port, data).startswith(b"HTTP/1.1 400")
    head = b"POST /predict HTTP/1.1\r\nContent-Length: "
    assert send(serving.port, head + b"104857600\r\n\r\n" + b"x" * 1000).startswith(b"HTTP/1.1 413")
    assert send(serving.port, head + b"-1\r\n\r\n").startswith(b"HTTP/1.1 400")
    chunked = b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert send(serving.port, chunked + b"garbage\r\n").startswith(b"HTTP/1.1 400")
    long = b"GET / HTTP/1.1\r\nX: " + b"y" * 40000
    try:
        assert send(serving.port, long).startswith(b"HTTP/1.1 431")
    except ConnectionError:
        pass  # It was closed before all of it was sent.
    assert serving.works()
    assert serving.memory() < before + 50_000, "kilobytes"


def test_slow_clients_are_given_up(model, tmp_path):
    with Serving(tmp_path, model, "--client_timeout", "0.5", "--connections", "4") as serving:
        slow = [socket.create_connection(("127.0.0.1", serving.port), timeout=30) for _ in range(3)]
        slow[0].sendall(b"POST /predict HTT")
        slow[1].sendall(b"POST /predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        assert serving.works()
        assert slow[0].recv(100).startswith(b"HTTP/1.1 408")
        assert slow[1].recv(100).startswith(b"HTTP/1.1 408")
        assert slow[2].recv(100) == b"", "it never asked"
        [client.close() for client in slow]
        assert serving.works()


def test_too_much_is_refused_at_once(model, tmp_path):
    options = ("--queued_samples", "100", "--connections", "2", "--client_timeout", "5")
    with Serving(tmp_path, model, *options) as serving:
        many = {"columns": {"ids": [1] * 101, "x": [[0, 0]] * 101}}
        assert serving.predict(many)[0] == 413
        held = [socket.create_connection(("127.0.0.1", serving.port), timeout=30) for _ in range(2)]

        def refused():
            with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as client:
                return client.recv(100).startswith(b"HTTP/1.1 503")

        wait_until("a connection to be refused", refused)
        [client.close() for client in held]
        wait_until("connections to be free", lambda: serving.ask("GET", "/healthz")[0] == 200)
        assert serving.works()


def wide_model(folder):
    """A model that takes long: two layers of 512."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.layers.data("x", [64])
        out = fluid.layers.fc(fluid.layers.fc(fluid.layers.fc(x, 512), 512, act="relu"), 1)
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor()
        exe.run(startup)
        fluid.io.save_inference_model(folder, ["x"], [out], exe, main)


def wide_request(n):
    body = b"PWC1" + struct.pack("<II", n, 1) + struct.pack("<H", 1) + b"x" + struct.pack("<BBI", 5, 0, 64)
    body += np.ones(n * 64, "<f4").tobytes()
    head = "POST /predict HTTP/1.1\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n"
    return head.format(COLUMNS["Content-Type"], len(body)).encode() + body


def read_answer(client):
    """The status of one answer, which is read whole."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    answer.read()
    return answer.status


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


LARGE = 1000


def refused_while_others_wait(port):
    """Whether of three that come at once two were answered, and the third was refused before that."""
    with connected(port) as first, connected(port) as second, connected(port) as third:
        first.sendall(wide_request(LARGE))
        second.sendall(wide_request(LARGE))
        third.sendall(wide_request(1))
        status = read_answer(third)
        waiting = not select.select([first, second], [], [], 0)[0]
        others = {read_answer(first), read_answer(second)}
    assert others <= {200, 503}, others
    return status == 503 and waiting and others == {200}


def test_a_full_queue_refuses_before_others_are_answered(tmp_path):
    model = str(tmp_path / "model")
    wide_model(model)
    options = ("--queued_samples", str(LARGE), "--threads", "1", "--deadline", "60")
    with Serving(tmp_path, model, *options) as serving:
        wait_until("a refusal", lambda: refused_while_others_wait(serving.port))
        with connected(serving.port) as client:
            client.sendall(wide_request(1))
            assert read_answer(client) == 200


def test_overload_does_not_grow_memory(tmp_path):
    model = str(tmp_path / "model")
    wide_model(model)
    options = ("--queued_samples", "64", "--batch_samples", "64", "--threads", "1", "--deadline", "60")
    with Serving(tmp_path, model, *options) as serving:
        statuses, request = [], wide_request(40)

        def load(n):
            with connected(serving.port) as client:
                for _ in range(n):
                    client.sendall(request)
                    statuses.append(read_answer(client))

        def run(n):
            del statuses[:]
            threads = [threading.Thread(target=load, args=(n,)) for _ in range(16)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            assert set(statuses) <= {200, 503} and len(statuses) == 16 * n
            return statuses.count(503), statuses.count(200)

        run(5)  # All threads have their memory now.
        before, peak = serving.memory(), serving.memory("VmHWM")
        refused, answered = run(60)
        assert refused > 100 and answered > 10, (refused, answered)
        assert serving.memory() < before + 16_000, "kilobytes"
        assert serving.memory("VmHWM") < peak + 16_000, "kilobytes"
        assert serving.ask("GET", "/healthz")[0] == 200
        counted = lambda: serving.ask("GET", "/metrics")[1].decode()
        assert "paddlewheel_queued_samples 0" in counted()
        wait_until("one connection", lambda: "paddlewheel_connections 1\n" in counted())


def test_a_model_that_is_replaced_or_damaged_while_serving(model, tmp_path):
    with Serving(tmp_path, model, "--follow", "--every", "0.05") as serving:
        assert serving.works()
        save_model(model, 100.0)

        def value():
            status, answer = serving.predict({"columns": {"ids": [5], "x": [[0, 0]]}})
            assert status == 200, answer
            return list(answer["predictions"].values())[0][0][0]

        wait_until("the new model", lambda: value() == 105.0)
        shutil.move(model, model + ".old")
        assert value() == 105.0, "a folder that is gone"
        os.mkdir(model)
        with open(model + "/__model__", "wb") as file:
            file.write(b"damaged")
        health = lambda: json.loads(serving.ask("GET", "/healthz")[1])
        wait_until("the damage to be told", lambda: health()["reload_error"])
        assert value() == 105.0
        shutil.rmtree(model)
        save_model(model, 0.0)
        wait_until("the repaired model", lambda: value() == 5.0)
        assert health()["reload_error"] is None


def test_a_server_that_cannot_be_started_says_why(model, tmp_path, child):
    result = child("-m", "paddlewheel", "serve", str(tmp_path / "nothing"))
    assert result.returncode == 1 and "nothing" in result.stderr
    with Serving(tmp_path, model) as serving:
        result = child("-m", "paddlewheel", "serve", model, "--port", str(serving.port))
        assert result.returncode == 1 and "cannot listen" in result.stderr
        serving.cluster.signal("serve", 15)
        serving.cluster.expect("serve")
