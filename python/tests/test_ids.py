"""All 64 bits of ids, and the same ids and numbers from every form of a table."""

import datetime
import decimal
import json
import subprocess
import sys
import urllib.request
import warnings

import numpy
import pytest

import paddlewheel as pw
from clusters import Cluster
from paddlewheel import fluid

pandas = pytest.importorskip("pandas")

BIG = 2**63


def quick(**options):
    options = {"target": "clicked", "verbose": False, "epochs": 3, "learning_rate": 0.2, "validation": 0.0, **options}
    return pw.CTR(**options)


def users(n=40, times=20):
    """Users of 2^63 and more; every other one clicks."""
    ids = [BIG + 4096 + k for k in range(n)] * times
    return ids, [k % 2 for k in range(n)] * times


def forms(columns, folder):
    """One table in all its forms."""
    names, rows = list(columns), list(zip(*columns.values()))
    yield "dict of lists", columns
    yield "rows", [dict(zip(names, row)) for row in rows]
    frame = pandas.DataFrame({name: pandas.Series(values, dtype=object) for name, values in columns.items()})
    yield "objects", frame
    # pandas infers floats from such ids beside a missing one.
    typed = pandas.DataFrame({name: pandas.array(values, "UInt64") for name, values in columns.items()})
    yield "typed", typed
    path = folder / "table.csv"
    typed.to_csv(path, index=False)
    yield "csv", path


@pytest.mark.parametrize("missing", [False, True])
def test_forty_users_stay_forty(tmp_path, missing):
    ids, clicked = users()
    if missing:
        ids, clicked = ids + [None] * 20, clicked + [0] * 20
    made = {"user_id": ids, "clicked": clicked}
    tables = dict(forms(made, tmp_path))
    tables["tuple"] = {"user_id": tuple(ids), "clicked": tuple(clicked)}
    if not missing:
        tables["uint64"] = {"user_id": numpy.array(ids, "uint64"), "clicked": clicked}
        tables["frame of uint64"] = pandas.DataFrame(tables["uint64"])
    else:
        tables["category"] = pandas.DataFrame({"user_id": pandas.Categorical(ids), "clicked": clicked})
    predicted = {}
    for name, table in tables.items():
        trained = quick().fit(table)
        assert trained.columns == {"user_id": "category"}, name
        assert trained.auc(table) == 1.0, name
        predicted[name] = trained.predict(table)
    for name, found in predicted.items():
        assert numpy.array_equal(found, predicted["rows"]), name


def typed_table(n=200):
    """A column of each type, as Python has it."""
    at = range(n)
    begin = datetime.datetime(2024, 1, 31, 10)
    def some(k, value):
        return None if k % 11 == 3 else value

    return {
        "big_id": [some(k, BIG + k % 7) for k in at],
        "small_id": [some(k, k % 5) for k in at],
        "when": [some(k, begin + datetime.timedelta(minutes=37 * k, microseconds=k)) for k in at],
        "day": [begin.date() + datetime.timedelta(days=k % 30) for k in at],
        "flag": [some(k, k % 3 == 0) for k in at],
        "price": [some(k, decimal.Decimal(k * 25 + 7) / 100) for k in at],
        "amount": [decimal.Decimal(10**18 + k) for k in at],
        "x": [some(k, (k * 7 % 13) / 8) for k in at],
        "whole": [float(k % 9) for k in at],
        "text": [some(k, " a b "[k % 3:] + str(k % 4)) for k in at],
        "clicked": [k % 2 == 0 for k in at],
    }


def typed_forms(columns, folder):
    names = list(columns)
    yield "columns", columns
    yield "rows", [dict(zip(names, row)) for row in zip(*columns.values())]
    typed = pandas.DataFrame(columns)
    for name, dtype in {
        "big_id": "UInt64", "small_id": "Int8", "flag": "boolean", "x": "Float64", "whole": "float32",
        "text": "category", "day": "datetime64[s]",
    }.items():
        typed[name] = pandas.Series(columns[name], dtype=dtype)
    typed["when"] = pandas.to_datetime(pandas.Series(columns["when"]))
    yield "typed", typed
    zoned = typed.copy()
    zoned["when"] = zoned["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    yield "zoned", zoned
    typed.to_csv(folder / "typed.csv", index=False)
    yield "csv", folder / "typed.csv"
    zoned.to_csv(folder / "zoned.csv", index=False, sep="\t")
    yield "zoned csv", folder / "zoned.csv"


def as_json(value):
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return float(value) if isinstance(value, decimal.Decimal) and value % 1 else int(value) if isinstance(value, decimal.Decimal) else value


def test_one_table_is_the_same_in_all_forms(tmp_path):
    """Through fit, predict, Predictor and serve, bit by bit."""
    columns = typed_table()
    kinds = {"amount": "category", "text": "category"}
    tables = dict(typed_forms(columns, tmp_path))
    models = {name: quick(columns=kinds, epochs=2, learning_rate=0.01).fit(table) for name, table in tables.items()}
    expected = models["rows"].predict(tables["rows"])
    assert len(set(expected.tolist())) > 100
    for name, trained in models.items():
        assert trained.columns == models["rows"].columns, name
        for other, table in tables.items():
            assert numpy.array_equal(trained.predict(table), expected), (name, other)
    assert models["rows"].columns["when"] == "number" and models["rows"].columns["big_id"] == "category"
    models["csv"].save(tmp_path / "model")
    predictor = pw.Predictor(tmp_path / "model")
    assert predictor.outputs == ["clicked"]
    alone = numpy.array([predictor.predict(row)[0] for row in tables["rows"][:5]])
    assert numpy.allclose(alone, expected[:5], atol=1e-6)
    by_table = predictor.predict(tables["rows"])
    assert by_table.shape == expected.shape and numpy.allclose(by_table, expected, atol=1e-6)
    for name, table in tables.items():
        assert numpy.array_equal(predictor.predict(table), by_table), name
    cluster = Cluster(tmp_path)
    try:
        cluster.start("serve", "-m", "paddlewheel", "serve", "model", "--port", "0")
        cluster.wait_for("serve", "serving on http://")
        address = cluster.log("serve").split("serving on ")[1].split()[0]
        plain = {name: [as_json(value) for value in values] for name, values in columns.items()}
        texts = {**plain, "big_id": [None if one is None else str(one) for one in plain["big_id"]]}
        for sent in (plain, texts):
            rows = [dict(zip(sent, row)) for row in zip(*sent.values())]
            for body in ({"columns": sent}, {"rows": rows}, {"rows": [{**row, "more": 1} for row in rows]}):
                request = urllib.request.Request(address + "/predict", json.dumps(body).encode())
                with urllib.request.urlopen(request, timeout=30) as answer:
                    found = json.loads(answer.read())["predictions"]
                assert list(found) == ["clicked"]
                assert numpy.array_equal(numpy.array(found["clicked"], "float32"), by_table)
        assert cluster.log("serve").count("does not read: `more`") == 1, cluster.log("serve")
    finally:
        cluster.close()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "h", "D"])
def test_times_of_all_units_are_one_time(unit):
    days = numpy.arange("2024-01-01", "2024-04-01", dtype="datetime64[D]")
    clicked = numpy.arange(len(days)) % 2
    forms = [days.astype("datetime64[%s]" % unit), [str(day) for day in days], days.tolist()]
    models = [quick(columns={"day": "category"}).fit({"day": form, "clicked": clicked}) for form in forms]
    expected = models[0].predict({"day": forms[0]})
    # Two of ninety may have the same id.
    assert len(set(expected.tolist())) > 80
    for trained in models:
        for form in forms:
            assert numpy.array_equal(trained.predict({"day": form}), expected)
    with pytest.raises(TypeError, match="`day` held times.*numbers now"):
        trained.predict({"day": numpy.arange(3)})


def test_a_column_that_is_not_read_is_a_warning_once(tmp_path):
    ids, clicked = users(8, 10)
    trained = quick().fit({"user_id": ids, "clicked": clicked})
    trained.save(tmp_path / "model")
    for model in (trained, pw.Predictor(tmp_path / "model")):
        rows = [{"user_id": ids[0], "user_idd": 1}, {"user_id": ids[1]}]
        with pytest.warns(UserWarning, match="does not read: `user_idd`"):
            first = model.predict(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert numpy.array_equal(model.predict(rows), first)
        with pytest.raises(ValueError, match="`user_id` is missing.*Did you mean `user_idd`"):
            model.predict([{"user_idd": 1}])
        with pytest.raises(ValueError, match="row 1 has no `user_id`"):
            model.predict([{"user_id": 1}, {"clicked": 1}])


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"epochs": 0}, ValueError, "epochs must be 1 or more"),
        ({"patience": 0}, ValueError, "patience must be"),
        ({"batch_size": 0}, ValueError, "batch_size must be"),
        ({"dim": 0}, ValueError, "dim must be"),
        ({"hidden": [8, 0]}, ValueError, "hidden must be"),
        ({"l2": -1.0}, ValueError, "l2 must be"),
        ({"learning_rate": float("nan")}, ValueError, "learning_rate must be"),
        ({"validation": 1.5}, ValueError, "validation must be"),
        ({"ids": 2**41}, ValueError, "ids must be"),
        ({"target": ""}, ValueError, "target must be"),
        ({"columns": {"clicked": "count"}}, ValueError, "columns must be"),
        ({"model": "deepfn"}, ValueError, "Did you mean `deepfm`"),
        ({"epoch": 3}, TypeError, "Did you mean `epochs`"),
    ],
)
def test_settings_are_checked_at_once(options, kind, words):
    with pytest.raises(kind, match=words):
        quick(**options)


def test_feature_signs_of_a_dataset_keep_their_bits(tmp_path):
    signs = [5, BIG, BIG + 12345, 2**64 - 1]
    (tmp_path / "part-0").write_text("".join("1 %d 2 %d 7\n" % (sign, sign) for sign in signs))
    (tmp_path / "part.csv").write_text("a\n" + "".join("%d\n" % sign for sign in signs))
    expected = numpy.array(signs, "uint64").view("int64").tolist()
    for kind in ("QueueDataset", "InMemoryDataset"):
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            one = fluid.data("one", [None, 1], "int64", lod_level=1)
            two = fluid.data("two", [None, 1], "int64", lod_level=1)
        dataset = fluid.DatasetFactory().create_dataset(kind)
        dataset.set_use_var([one, two])
        dataset.set_batch_size(4)
        dataset.set_filelist([str(tmp_path / "part-0")])
        if kind == "InMemoryDataset":
            dataset.load_into_memory()
        with fluid.program_guard(main):
            kept = fluid.layers.create_global_var([4, 1], 0, "int64", persistable=True, name="kept_" + kind)
            fluid.layers.assign(one, kept)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.core.Scope()
        with fluid.scope_guard(scope):
            scope.var("kept_" + kind).get_tensor().set(numpy.zeros([4, 1], "int64"), fluid.CPUPlace())
            exe.train_from_dataset(main, dataset)
            found = numpy.array(scope.find_var("kept_" + kind).get_tensor())
        assert found.reshape(-1).tolist() == expected, kind
    piped = subprocess.run(
        [sys.executable, "-m", "paddlewheel", "csv-reader", "x=a:id"],
        input=(tmp_path / "part.csv").read_bytes(), stdout=subprocess.PIPE, check=True,
    )
    assert piped.stdout.decode().split() == [word for sign in signs for word in ("1", str(sign))]


def test_arrays_and_numbers_without_a_sign_are_fed_by_their_bits():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        ids = fluid.data("ids", [None, 1], "int64")
        out = fluid.layers.assign(ids)
    exe = fluid.Executor(fluid.CPUPlace())
    signs = numpy.array([[3], [BIG + 5]], "uint64")
    feeder = fluid.DataFeeder([ids], fluid.CPUPlace(), main)
    lists = fluid.create_lod_tensor([[3, BIG + 5]], [[2]], fluid.CPUPlace())
    for feed in ({"ids": signs}, feeder.feed([([3],), ([BIG + 5],)]), feeder.feed([(3,), (BIG + 5,)]), {"ids": lists}):
        (found,) = exe.run(main, feed=feed, fetch_list=[out], return_numpy=False)
        found = numpy.array(found)
        assert found.dtype == numpy.int64
        assert found.view("uint64").tolist() == signs.tolist()
    (found,) = exe.run(main, feed=feeder.feed([([-1],), ([2**64 - 2],)]), fetch_list=[out])
    assert found.tolist() == [[-1], [-2]]
    with fluid.program_guard(main):
        alone = fluid.layers.assign(fluid.data("one", [1], "int64"))
    for one in (BIG + 7, numpy.uint64(BIG + 7), numpy.array([BIG + 7])):
        (found,) = exe.run(main, feed={"one": one, "ids": signs}, fetch_list=[alone])
        assert found.dtype == numpy.int64 and found.view("uint64").tolist() == [BIG + 7]
    for wrong in (2**64, -BIG - 1):
        with pytest.raises(OverflowError, match="one"):
            exe.run(main, feed={"one": wrong, "ids": signs}, fetch_list=[alone])
    # Fluid takes no lists.
    with pytest.raises(RuntimeError, match=r"feed\['ids'\] is a <class 'list'>"):
        exe.run(main, feed={"ids": [[BIG + 7]], "one": 1}, fetch_list=[alone])
    for wrong in (2**64, -BIG - 1):
        with pytest.raises(OverflowError):
            feeder.feed([([wrong],)])


def test_a_table_that_has_no_such_row_says_so():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        rows = fluid.layers.embedding(fluid.data("ids", [None, 1], "int64"), [10, 2])
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        exe.run(startup)
        with pytest.raises(Exception, match=r"9223372036854775813 without a sign"):
            exe.run(main, feed={"ids": numpy.array([[3], [BIG + 5]], "uint64")}, fetch_list=[rows])


def test_forty_users_of_a_parquet_file_stay_forty(tmp_path):
    fastparquet = pytest.importorskip("fastparquet", reason="fastparquet is not installed (make test installs it)")
    ids, clicked = users()
    frame = pandas.DataFrame({"user_id": numpy.array(ids, "uint64"), "clicked": clicked})
    fastparquet.write(str(tmp_path / "table.parquet"), frame, write_index=False)
    trained = quick().fit(tmp_path / "table.parquet")
    assert trained.columns == {"user_id": "category"} and trained.auc(frame) == 1.0
    assert numpy.array_equal(trained.predict(tmp_path / "table.parquet"), quick().fit(frame).predict(frame))


def test_all_missing_columns_are_named(tmp_path):
    n = 40
    made = {"user_id": list(range(n)), "city": ["a", "b"] * 20, "x": [k / 8 for k in range(n)], "clicked": [0, 1] * 20}
    trained = quick().fit(made)
    words = "column `city` is missing, column `user_id` is missing, column `x` is missing: the model was trained with them"
    with pytest.raises(ValueError, match=words):
        trained.predict({"clicked": [1]})
    with pytest.warns(UserWarning, match="citty"), pytest.raises(ValueError, match="`x` is missing: .* Did you mean `citty`"):
        trained.predict({"citty": ["a"], "user_id": [1]})
    with pytest.raises(ValueError, match="column `x` is missing: the model was trained with it"):
        trained.predict({"city": ["a"], "user_id": [1]})


def test_a_table_that_memory_does_not_hold_is_an_error(tmp_path):
    lines = "x,clicked\n" + "".join("%d.25,%d\n" % (k, k % 2) for k in range(1 << 20))
    (tmp_path / "large.csv").write_text(lines * 1)
    script = "\n".join([
        "import resource, sys, paddlewheel as pw",
        "pw.CTR('clicked')",
        "held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()",
        "resource.setrlimit(resource.RLIMIT_AS, (held + (int(sys.argv[1]) << 20),) * 2)",
        "try:",
        "    pw.CTR('clicked', epochs=1, verbose=False).fit('large.csv')",
        "except MemoryError as error:",
        "    print(error)",
    ])
    ran = subprocess.run([sys.executable, "-c", script, "24"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ran.returncode == 0, ran.stderr
    assert b"no memory for" in ran.stdout and b"MB more were needed" in ran.stdout, ran.stdout
