"""`paddlewheel.CTR`: from a table to a model that predicts."""

import functools
import gzip
import http.server
import importlib.util
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import numpy
import pytest
from clusters import Cluster, wait_until
from conftest import ROOT
from test_book import DATA, needs

import paddlewheel as pw
import paddlewheel.fluid as fluid

MODELS = ["lr", "fm", "deepfm", "widedeep", "dcn"]


def clicks(n=3000, seed=0):
    """A table that can be learned: a city that decides much, a count and a number that decide a little."""
    random = numpy.random.RandomState(seed)
    cities = numpy.array(["Rome", "Oslo", "Bern", "Riga", "Kiel"], dtype=object)
    city = random.randint(0, 5, n)
    seen = random.poisson(3, n) * random.choice([1, 1, 1, 1, 200], n)
    price = random.normal(50, 10, n)
    score = (city - 2) * 1.5 - 0.3 * numpy.log1p(seen) + (price - 50) * 0.05
    clicked = random.rand(n) < 1 / (1 + numpy.exp(-score))
    return {
        "clicked": clicked.astype("int64"),
        "city": cities[city],
        "seen": seen,
        "price": numpy.where(random.rand(n) < 0.1, numpy.nan, price),
        "user_id": random.randint(0, 200, n),
    }


class Frame:
    """An object with columns."""

    def __init__(self, columns):
        self.held = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self.held[name]


def part(data, rows):
    return {name: values[rows] for name, values in data.items()}


def quick(**options):
    options = {"epochs": 2, "hidden": [16], "verbose": False, **options}
    return pw.CTR(options.pop("target", "clicked"), options.pop("model", "deepfm"), **options)


@pytest.fixture(scope="module")
def data():
    return clicks()


@pytest.fixture(scope="module")
def model(data):
    return quick().fit(data)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns(name, data):
    trained = quick(model=name, epochs=4).fit(data)
    assert trained.auc(clicks(seed=1)) > 0.8


def test_columns_are_guessed_and_shown(data, capsys):
    trained = pw.CTR("clicked", epochs=2, hidden=[8]).fit(Frame(data))
    kinds = {"city": "category", "seen": "count", "price": "number", "user_id": "category"}
    assert trained.columns == kinds
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["column", "kind", "encoded", "as"]
    assert [line.split()[1] for line in out[1:5]] == list(kinds.values())
    assert "1 is `1`" in out[5]
    assert out[6].startswith("epoch 1/2: loss ") and "validation AUC" in out[6]
    said = quick(columns={"user_id": "number"}).fit(data)
    assert said.columns["user_id"] == "number"


def test_a_saved_model_predicts_the_same_in_another_process(model, data, tmp_path, child):
    test = part(clicks(seed=3), slice(0, 50))
    predicted = model.predict(test)
    assert predicted.dtype == numpy.float32 and predicted.shape == (50,)
    model.save(str(tmp_path / "model"))
    numpy.save(str(tmp_path / "test.npy"), test, allow_pickle=True)
    lines = [
        "import numpy, paddlewheel as pw",
        "test = numpy.load('test.npy', allow_pickle=True).item()",
        "m = pw.CTR.load('model')",
        "print(repr(m))",
        "numpy.save('predicted.npy', m.predict(test))",
    ]
    (tmp_path / "script.py").write_text("\n".join(lines))
    result = child("script.py")
    assert result.returncode == 0, result.stderr
    assert "CTR(target='clicked'), trained on 4 columns" in result.stdout
    assert numpy.array_equal(numpy.load(str(tmp_path / "predicted.npy")), predicted)
    assert pw.CTR.load(tmp_path / "model").auc(test) == model.auc(test)


class Serving:
    """A process that serves the model of a folder."""

    def __init__(self, folder, model):
        self.cluster = Cluster(folder)
        self.cluster.start("serve", "-m", "paddlewheel", "serve", model, "--port", "0")
        self.cluster.wait_for("serve", "serving on http://")
        self.address = self.cluster.log("serve").split("serving on ")[1].split()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def ask(self, path, body=None, kind="application/json"):
        request = urllib.request.Request(self.address + path, body, {"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read()
        except urllib.error.HTTPError as refused:
            return refused.read()

    def predict(self, body):
        answer = json.loads(self.ask("/predict", json.dumps(body).encode()))
        return answer.get("error") or answer["predictions"]["clicked"]


def raw(columns):
    """Raw columns of numbers."""
    body = b"PWC1" + struct.pack("<II", len(next(iter(columns.values()))), len(columns))
    for name, values in columns.items():
        code, kind = (3, "<i8") if values.dtype.kind == "i" else (5, "<f4")
        body += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BBI", code, 0, 1)
        body += values.astype(kind).tobytes()
    return body


def test_a_saved_model_is_used_with_the_columns_of_training(model, tmp_path):
    """A predictor and a server encode them. A column of whole numbers would else be taken for ids, without any error."""
    test = part(clicks(seed=3), slice(0, 300))
    expected = model.predict(test)
    model.save(tmp_path / "model")
    predictor = pw.Predictor(tmp_path / "model")
    assert predictor.columns == model.columns and "4 columns" in repr(predictor)
    assert numpy.allclose(predictor.predict(test), expected, atol=1e-6)
    assert numpy.allclose(predictor.predict(Frame(test)), expected, atol=1e-6)
    del test["clicked"]
    with pytest.raises(ValueError, match="column `city` is missing"):
        predictor.predict({name: values for name, values in test.items() if name != "city"})
    with pytest.raises(TypeError, match="column `city` held texts"):
        predictor.predict({**test, "city": test["seen"]})
    lists = {name: [None if value != value else value for value in values.tolist()] for name, values in test.items()}
    rows = [dict(zip(lists, row)) for row in zip(*lists.values())]
    with Serving(tmp_path, "model") as serving:
        assert numpy.allclose(serving.predict({"columns": lists}), expected, atol=1e-6)
        assert numpy.allclose(serving.predict({"rows": rows}), expected, atol=1e-6)
        for wrong, words in [
            ([rows[0], {"city": "Rome"}], "column `price` is missing"),
            ([{**rows[0], "city": 5}], "column `city` held texts"),
            ([rows[0], {**rows[1], "city": 5}], "column `city` has mixed types"),
            ([{**rows[0], "city": ["Rome"]}], "column `city` holds a list"),
            ([{**rows[0], "seen": "many"}], "column `seen` held numbers"),
        ]:
            assert words in serving.predict({"rows": wrong})
        known = json.loads(serving.ask("/"))["columns"]
        assert {"name": "city", "kind": "category"} in known
        refused = serving.ask("/predict", raw({"seen": test["seen"]}), "application/x-paddlewheel-columns")
        assert b"column `city` is missing" in refused


def test_a_server_hashes_whole_numbers(tmp_path):
    """The model of the README, as JSON and as raw columns."""
    ads = numpy.random.RandomState(0).randint(0, 40, 2000)
    trained = quick().fit({"ad_id": ads, "clicked": (ads % 7 > 3).astype(int)})
    expected = trained.predict({"ad_id": ads[:50]})
    trained.save(tmp_path / "model")
    predicted = pw.Predictor(tmp_path / "model").predict({"ad_id": ads[:50]})
    assert numpy.allclose(predicted, expected, atol=1e-6)
    with Serving(tmp_path, "model") as serving:
        assert numpy.allclose(serving.predict({"rows": [{"ad_id": int(ad)} for ad in ads[:50]]}), expected, atol=1e-6)
        answer = serving.ask("/predict", raw({"ad_id": ads[:50]}), "application/x-paddlewheel-columns")
        assert numpy.allclose(numpy.frombuffer(answer[-200:], "<f4"), expected, atol=1e-6)


def test_another_model_may_be_saved_over_one(model, tmp_path):
    """The encoding that is left in the folder is not that of the new program."""
    model.save(tmp_path / "model")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.core.Scope()):
        out = fluid.layers.scale(fluid.data("x", [None, 2]), 2.0)
        exe = fluid.Executor(fluid.CPUPlace())
        fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], [out], exe, main)
    predictor = pw.Predictor(tmp_path / "model")
    assert predictor.columns is None
    assert predictor.predict({"x": [[1.0, 2.0]]}).tolist() == [[2.0, 4.0]]


def test_files_are_tables(data, tmp_path):
    rows = zip(*(data[name] for name in data))
    text = ",".join(data) + "\n"
    text += "".join(",".join("" if value != value else str(value) for value in row) + "\n" for row in rows)
    (tmp_path / "clicks.csv").write_text(text)
    with gzip.open(str(tmp_path / "clicks.csv.gz"), "wt") as file:
        file.write(text)
    trained = quick().fit(data)
    for name in ["clicks.csv", "clicks.csv.gz"]:
        from_file = quick().fit(tmp_path / name)
        assert from_file.columns == trained.columns
        assert numpy.array_equal(from_file.predict(data), trained.predict(data))
        assert trained.auc(str(tmp_path / name)) == trained.auc(data)


def test_a_table_may_be_several_files_and_elsewhere(data, tmp_path):
    """Patterns, lists, and files of a web server, packed or not."""
    names = list(data)
    lines = [",".join("" if value != value else str(value) for value in row) for row in zip(*data.values())]
    texts = ["\n".join([",".join(names)] + part) + "\n" for part in (lines[:1000], lines[1000:])]
    (tmp_path / "part-0.csv").write_text(texts[0])
    (tmp_path / "part-1.csv").write_bytes(gzip.compress(texts[1].encode()))
    expected = quick().fit(data).predict(data)
    paths = [tmp_path / "part-0.csv", str(tmp_path / "part-1.csv")]
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        remote = "http://127.0.0.1:%d/part-" % server.server_port
        for table in (str(tmp_path / "part-*.csv"), paths, [remote + "0.csv", remote + "1.csv"]):
            assert numpy.array_equal(quick().fit(table).predict(data), expected)
        with pytest.raises(RuntimeError, match="part-7.csv.*404"):
            quick().fit(remote + "7.csv")
        server.shutdown()
    (tmp_path / "part-2.csv").write_text("clicked,town\n1,Rome\n")
    with pytest.raises(RuntimeError, match="part-2.csv, column `town`: the files before do not have it"):
        quick().fit(str(tmp_path / "part-*.csv"))
    with pytest.raises(ValueError, match="no file matches"):
        quick().fit(str(tmp_path / "nothing-*.csv"))


def test_a_value_is_the_same_in_a_file_and_in_a_frame(tmp_path):
    """Where an id is missing, pandas has floats and writes `7.0`; it writes truth values as words."""
    random = numpy.random.RandomState(5)
    user = numpy.where(random.rand(600) < 0.1, numpy.nan, random.randint(0, 40, 600))
    frame = {"user_id": user, "zip": random.randint(0, 30, 600), "new": random.rand(600) < 0.5}
    frame["clicked"] = numpy.nan_to_num(user) % 7 > 3
    cells = zip(*(["" if value != value else str(value) for value in column.tolist()] for column in frame.values()))
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join([",".join(frame)] + [",".join(row) for row in cells]) + "\n")
    assert path.read_text().splitlines()[1].endswith(("True", "False"))
    options = {"columns": {"zip": "category"}, "positive": True}
    of_frame, of_file = quick(**options).fit(frame), quick(**options).fit(path)
    assert of_frame.columns == of_file.columns
    for trained in (of_frame, of_file):
        assert numpy.array_equal(trained.predict(path), trained.predict(frame))
        assert trained.auc(path) == trained.auc(frame)
    assert numpy.array_equal(of_file.predict(path), of_frame.predict(frame))


def test_a_click_log_is_a_table(tmp_path, child):
    made = child("-m", "paddlewheel", "make-criteo", "log", "--rows", "2000", "--files", "1")
    assert made.stdout == "2000 rows in 1 files, 0 MB, in log\n", made.stderr
    trained = quick(target="label", epochs=1).fit(tmp_path / "log" / "part-0")
    assert len(trained.columns) == 39
    assert trained.columns["C1"] == "category"
    assert trained.predict(tmp_path / "log" / "part-0").shape == (2000,)


def test_parquet_is_a_table():
    fixture = os.path.join(ROOT, "python", "tests", "fixtures", "clicks.parquet")
    with pytest.raises(RuntimeError, match="`ids`.*lists"):
        quick(target="label").fit(fixture)


def test_the_same_settings_give_the_same_model(data):
    one, other = [quick(seed=5).fit(data).predict(data) for _ in range(2)]
    assert numpy.array_equal(one, other)
    assert not numpy.array_equal(one, quick(seed=6).fit(data).predict(data))


def test_a_cell_runs_twice_and_leaves_no_trace(data):
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    trained = quick()
    assert repr(trained) == "CTR(target='clicked', model='deepfm'), not trained"
    for _ in range(2):
        assert repr(trained.fit(data)) == "CTR(target='clicked'), trained on 4 columns"
    assert fluid.default_main_program() is main and not main.global_block().ops
    assert fluid.default_startup_program() is startup and not startup.global_block().ops
    assert fluid.global_scope().find_var("ctr_bias") is None
    assert fluid.unique_name.generate("fc") == "fc_0"


def test_the_program_goes_on_in_fluid(data):
    trained = quick().fit(data)
    main = trained.main_program
    assert "lookup_table" in str(main) and "adagrad" in str(main)
    before = trained.predict(data)
    exe = fluid.Executor(fluid.CPUPlace())
    names = [var.name for var in main.list_vars() if var.is_data]
    assert set(names) == {"city", "user_id", "numbers", "clicked"}
    n = 8
    feed = {
        "city": numpy.zeros((n, 1), "int64"),
        "user_id": numpy.zeros((n, 1), "int64"),
        "numbers": numpy.zeros((n, 2), "float32"),
        "clicked": numpy.ones((n, 1), "float32"),
    }
    for _ in range(20):
        exe.run(main, feed=feed, fetch_list=[], scope=trained.scope)
    assert trained.predict(data).mean() > before.mean()


def test_early_stopping_keeps_the_best_epoch(data, capsys):
    trained = pw.CTR("clicked", epochs=30, patience=1, hidden=[32], learning_rate=0.1)
    trained.fit(part(data, slice(0, 600)), validation=clicks(500, seed=9))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert 1 < len(lines) < 30
    best = max(float(line.split("AUC ")[1].split()[0]) for line in lines)
    assert abs(trained.auc(clicks(500, seed=9)) - best) < 1e-5


def test_numbers_can_be_predicted(data):
    rated = dict(data, clicked=data["price"] * 0 + numpy.array([len(city) for city in data["city"]]))
    rated["clicked"] = numpy.where(numpy.isnan(rated["clicked"]), 4, rated["clicked"])
    with pytest.raises(ValueError, match="only one value"):
        quick().fit(rated)
    rated["clicked"] = rated["clicked"] + data["user_id"] % 3
    trained = quick(loss="squared", epochs=4).fit(rated)
    assert trained.rmse(rated) < 0.8
    with pytest.raises(ValueError, match="AUC"):
        trained.auc(rated)


def test_ids_are_those_of_the_readers(tmp_path, child):
    (tmp_path / "in.csv").write_text("city\nParis\nÅrhus\n\"a,b\"\n")
    reader = "import sys; from paddlewheel._cli import main; sys.exit(main(sys.argv[1:]))"
    with open(str(tmp_path / "in.csv")) as text:
        command = [sys.executable, "-c", reader, "csv-reader", "city=city:hash/1000"]
        out = subprocess.run(command, stdin=text, capture_output=True, text=True, check=True).stdout
    found = [int(line.split()[1]) for line in out.splitlines()]
    assert found == [pw.hash_id(text, 1000, slot="city") for text in ["Paris", "Århus", "a,b"]]
    assert pw.hash_id("city:Paris", 1000) == found[0]
    line = "\t".join(["1"] + [""] * 13 + ["68fd1e64"] * 26) + "\n"
    command = [sys.executable, "-c", reader, "criteo-reader", "1000", "--hash", "crc32"]
    out = subprocess.run(command, input=line, capture_output=True, text=True, check=True).stdout
    ids = [int(word) for word in out.split()[15:-2:2]]
    assert ids == [pw.hash_id("68fd1e64", 1000, slot=str(slot)) for slot in range(26)]
    with pytest.raises(ValueError, match="n must be 1 or more"):
        pw.hash_id("a", 0)


def test_the_command_does_the_same(data, tmp_path, child):
    names = list(data)
    rows = zip(*(data[name] for name in names))
    text = ",".join(names) + "\n"
    text += "".join(",".join("" if value != value else str(value) for value in row) + "\n" for row in rows)
    (tmp_path / "clicks.csv").write_text(text)
    options = "--target clicked --epochs 2 --hidden 16 --test clicks.csv --save model".split()
    result = child("-m", "paddlewheel", "fit", "clicks.csv", *options)
    assert result.returncode == 0, result.stderr
    trained = quick().fit(data)
    assert "test AUC %.5f" % trained.auc(data) in result.stdout
    loaded = pw.CTR.load(tmp_path / "model")
    assert numpy.array_equal(loaded.predict(data), trained.predict(data))
    (tmp_path / "wrong.csv").write_text("clicked,city\n1,Rome\n")
    options = "--target clicked --epochs 1 --hidden 16 --test wrong.csv --save kept".split()
    result = child("-m", "paddlewheel", "fit", "clicks.csv", *options)
    assert result.returncode == 1 and "column `seen` is missing" in result.stderr, result.stderr
    assert pw.CTR.load(tmp_path / "kept").predict(data).shape == (3000,), "training was not in vain"
    result = child("-m", "paddlewheel", "fit", "clicks.csv")
    assert result.returncode == 2 and "--target <COLUMN>" in result.stderr, result.stderr
    for bad in [["nothing.csv", "--target", "x"], ["clicks.csv", "--target", "y"]]:
        result = child("-m", "paddlewheel", "fit", *bad)
        assert result.returncode == 1 and result.stderr.startswith("paddlewheel: "), result.stderr
        assert "Traceback" not in result.stderr


def changed(data, **columns):
    return {name: values for name, values in {**data, **columns}.items() if values is not None}


def test_bad_tables_are_refused(data):
    n = len(data["city"])
    fit = quick().fit
    with pytest.raises(ValueError, match="no column `clicked`"):
        fit(changed(data, clicked=None))
    with pytest.raises(ValueError, match="Did you mean `clicked`"):
        quick(target="cliked").fit(data)
    with pytest.raises(ValueError, match="only one value, `1`"):
        fit(changed(data, clicked=numpy.ones(n)))
    mixed = numpy.array(["a"] * (n - 1) + [1], dtype=object)
    with pytest.raises(TypeError, match="`city` has mixed types: texts.*numbers in row %d" % (n - 1)):
        fit(changed(data, city=mixed))
    with pytest.raises(ValueError, match="no rows"):
        fit({"clicked": [], "city": []})
    with pytest.raises(ValueError, match="no column"):
        fit({})
    with pytest.raises(ValueError, match="no column besides"):
        fit({"clicked": [0, 1]})
    missing = numpy.where(numpy.arange(n) == 7, numpy.nan, data["clicked"])
    with pytest.raises(ValueError, match="missing in row 7"):
        fit(changed(data, clicked=missing))
    with pytest.raises(ValueError, match="more than two values"):
        fit(changed(data, clicked=numpy.arange(n) % 3))
    with pytest.raises(TypeError, match="timedelta"):
        fit(changed(data, day=numpy.zeros(n, "timedelta64[s]")))
    with pytest.raises(TypeError, match="a list"):
        fit(changed(data, day=numpy.array([[1], [1, 2]] * (n // 2), dtype=object)))
    with pytest.raises(ValueError, match="infinite in row 0"):
        fit(changed(data, price=numpy.full(n, numpy.inf)))
    with pytest.raises(RuntimeError, match="`city`.*rows"):
        fit(changed(data, city=data["city"][:5]))
    with pytest.raises(TypeError, match="expected a DataFrame"):
        fit(3)
    with pytest.raises(TypeError, match="column `city` holds texts: it can only be a category"):
        quick(columns={"city": "number"}).fit(data)
    twice = Frame(data)
    twice.columns.append("city")
    with pytest.raises(RuntimeError, match="column `city`: it is there twice"):
        fit(twice)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"model": "deepfn"}, "Did you mean `deepfm`"),
        ({"loss": "logg"}, "no loss `logg`"),
        ({"mode": "fast"}, "no mode `fast`"),
        ({"columns": {"city": "txt"}}, "no kind of column `txt`"),
        ({"epochs": 0}, "epochs must be 1 or more"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"dim": 2**40}, "dim must be between 1 and 1048576"),
        ({"hidden": [8, 2**40]}, "hidden must be between 1 and 1048576"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number greater than 0"),
        ({"validation": 1.5}, "validation must be"),
        ({"learning_rate": -1.0}, "learning_rate must be"),
        ({"columns": {"citty": "count"}}, "`citty`"),
        ({"positive": "2"}, "`2` is not a value of the target"),
    ],
)
def test_bad_settings_are_refused(options, words, data):
    with pytest.raises(ValueError, match=words):
        quick(**options).fit(data)


@pytest.mark.parametrize("options", [{"dim": 2**40}, {"hidden": [2**40]}, {"epochs": 0}, {"learning_rate": 0.0}])
def test_settings_are_refused_before_there_is_a_table(options):
    with pytest.raises(ValueError, match=" must be "):
        quick(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"positive": [1]},
        {"positive": {1: 2}},
        {"positive": b"1"},
        {"epochs": "3"},
        {"epochs": 2.5},
        {"epochs": True},
        {"batch_size": [8]},
        {"learning_rate": "high"},
        {"l2": [0.1]},
        {"hidden": 8},
        {"hidden": "8"},
        {"hidden": [8.5]},
        {"dim": "9"},
        {"ids": 1e6},
        {"validation": "a tenth"},
        {"patience": [1]},
        {"seed": 1.5},
        {"columns": ["city"]},
        {"columns": {"city": 1}},
        {"model": 3},
        {"loss": 1},
        {"mode": ["sync"]},
        {"verbose": "no"},
    ],
    ids=lambda options: "%s-%r" % (*options, *options.values()),
)
def test_a_setting_of_another_type_is_refused_by_its_name(options):
    (name,) = options
    with pytest.raises(TypeError, match="^%s must be " % name):
        pw.CTR("clicked", **options)


def test_settings_may_be_numbers_of_numpy():
    usual = pw.CTR("clicked", positive=numpy.int64(1), epochs=numpy.int32(2), learning_rate=numpy.float32(0.5), hidden=(4, 2))
    assert "not trained" in repr(usual)
    for positive in ("yes", 1, 1.0, True, numpy.bool_(True), numpy.float64(1)):
        pw.CTR("clicked", positive=positive)


def test_nothing_in_a_list_of_texts_is_nothing():
    """numpy would write it out: `nan`."""
    n = 200
    city = [None if k % 5 == 0 else "city %d" % (k % 4) for k in range(n)]
    clicked = [int(k % 5 == 0) for k in range(n)]
    model = quick(columns={"city": "category"}).fit({"clicked": clicked, "city": city})
    found = model.predict({"city": city})
    nan = [float("nan") if value is None else value for value in city]
    assert numpy.array_equal(model.predict({"city": nan}), found)
    assert numpy.array_equal(model.predict([{"city": value} for value in nan]), found)


def test_bad_predictions_are_refused(model, data, tmp_path):
    few = part(data, slice(0, 5))
    with pytest.raises(ValueError, match="`city` is missing"):
        model.predict(changed(few, city=None))
    with pytest.raises(TypeError, match="`city` held texts.*numbers now"):
        model.predict(changed(few, city=numpy.arange(5)))
    with pytest.raises(TypeError, match="`price` held numbers.*texts now"):
        model.predict(changed(few, price=few["city"]))
    with pytest.raises(ValueError, match="`clicked`.*`7` in row 0"):
        model.auc(changed(few, clicked=numpy.full(5, 7)))
    assert model.predict(changed(few, clicked=None)).shape == (5,)
    with pytest.raises(RuntimeError, match="not trained yet"):
        quick().predict(few)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no ctr.json"):
        pw.CTR.load(tmp_path / "empty")
    with pytest.raises(ValueError):
        pw.CTR.load(tmp_path / "nowhere")


def test_a_damaged_folder_is_refused(model, tmp_path):
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "ctr.json"
    path.write_text(path.read_text().replace("city", "town"))
    with pytest.raises((RuntimeError, ValueError)):
        pw.CTR.load(tmp_path / "model")


JOB = """
import numpy, sys
sys.path.insert(0, {here!r})
import paddlewheel as pw
from test_short_way import clicks
m = pw.CTR("clicked", epochs=3, hidden=[16], mode={mode!r}).fit(clicks())
print("test", m.auc(clicks(seed=1)))
m.save("model")
numpy.save("predicted-%d.npy" % int(__import__("os").environ["PADDLE_TRAINER_ID"]), m.predict(clicks(seed=1)))
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_same_lines_train_with_servers(cluster, tmp_path, mode):
    here = os.path.dirname(os.path.abspath(__file__))
    (tmp_path / "job.py").write_text(JOB.format(here=here, mode=mode))
    cluster.shell("job", "python -m paddlewheel launch_ps --worker_num 2 --server_num 2 job.py")
    cluster.expect("job", limit=120)
    predicted = [numpy.load(str(tmp_path / ("predicted-%d.npy" % at))) for at in (0, 1)]
    assert numpy.array_equal(predicted[0], predicted[1])
    loaded = pw.CTR.load(tmp_path / "model")
    assert numpy.array_equal(loaded.predict(clicks(seed=1)), predicted[0])
    assert loaded.auc(clicks(seed=1)) > 0.8


LONG_JOB = """
import numpy, os, sys
sys.path.insert(0, {here!r})
import paddlewheel as pw
from test_short_way import clicks
rank = os.environ.get("PADDLE_TRAINER_ID")
if rank and os.environ["TRAINING_ROLE"] == "TRAINER":
    open("worker-%s.pid" % rank, "w").write(str(os.getpid()))
m = pw.CTR("clicked", epochs=8, patience=8, hidden=[16], batch_size=32).fit(clicks(n=4000))
m.save("model")
numpy.save("predicted-%s.npy" % rank, m.predict(clicks(seed=1)))
"""


@pytest.mark.parametrize("victim", ["0", "1"])
def test_a_worker_that_is_killed_changes_nothing(tmp_path, victim):
    """In a job with snapshots, of two servers and two workers: each has the model of an undisturbed job."""
    here = os.path.dirname(os.path.abspath(__file__))
    predicted = {}
    for name in ("calm", "disturbed"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "job.py").write_text(LONG_JOB.format(here=here))
        cluster = Cluster(folder)
        options = "--snapshot_dir snapshots --snapshot_secs 0.1 --max_restarts 5" if name == "disturbed" else ""
        try:
            cluster.shell("job", "python -m paddlewheel launch_ps --worker_num 2 --server_num 2 %s job.py" % options)
            if name == "disturbed":
                log = lambda of: (folder / "logs" / of).read_text() if (folder / "logs" / of).exists() else ""
                so = lambda: "epoch 3/8" in log("workerlog.0") and "is kept: " in log("serverlog.1")
                wait_until("the third epoch and a cut", so, context=cluster.logs)
                os.kill(int((folder / ("worker-%s.pid" % victim)).read_text()), signal.SIGKILL)
            cluster.expect("job", limit=180)
        finally:
            cluster.close()
        predicted[name] = [numpy.load(str(folder / ("predicted-%d.npy" % at))) for at in (0, 1)]
        assert numpy.array_equal(*predicted[name]), name
        assert numpy.array_equal(pw.CTR.load(folder / "model").predict(clicks(seed=1)), predicted[name][0])
    assert numpy.array_equal(predicted["calm"][0], predicted["disturbed"][0])


# Real data: files that may not be passed on are used where they are at hand. Full figures: docs/guides/ctr.md.


@pytest.fixture(scope="module")
def real():
    """The example that reads the data."""
    path = os.path.join(ROOT, "examples", "ctr", "short_way.py")
    spec = importlib.util.spec_from_file_location("short_way", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_criteo_in_four_lines(real, tmp_path):
    needs("criteo", "train.txt.gz")
    train, test = real.criteo(DATA, str(tmp_path), n=12000)
    trained = pw.CTR(target="label", epochs=1, verbose=False).fit(train)
    # A tenth of the rows; all of them give more than 0.758.
    assert trained.auc(test) > 0.70


def test_adult(real):
    needs("adult", "adult.data")
    trained = pw.CTR(target="income", epochs=3, verbose=False).fit(real.adult(DATA, "adult.data", 10000))
    assert trained.auc(real.adult(DATA, "adult.test")) > 0.8985


def test_movielens(real):
    needs("movielens-100k", "u1.base")
    trained = pw.CTR(target="rating", loss="squared", verbose=False)
    trained.fit(real.movielens(DATA, "u1.base"))
    assert trained.rmse(real.movielens(DATA, "u1.test")) < 0.929
