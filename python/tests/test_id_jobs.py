"""Ids of 2^63 and more on servers: trained from a dataset, kept, killed, saved, loaded, exported and imported."""

import itertools
import json
import os
import sys
import urllib.request

import numpy
import pytest

import paddlewheel
from paddlewheel import fluid
from clusters import Cluster, free_endpoints, server_variables, trainer_variables
from conftest import HERE
from test_recovery import Job
from test_recovery_dataset import Passes, write_data
from test_scale import calm, scale

JOBS = os.path.join(HERE, "jobs")
sys.path.insert(0, JOBS)
import geo_signs  # noqa: E402
import sign_rows  # noqa: E402

SIGN_ROWS = os.path.join(JOBS, "sign_rows.py")
#: Both halves of all ids, and their ends.
SIGNS = [0, 2**63 - 1, 2**63, 2**64 - 1, *((k * 0x9E3779B97F4A7C15) % 2**64 for k in range(4, 100))]


class SignPasses(Passes):
    """A job whose ids are others."""

    def __init__(self, folder, id_of, **options):
        self.id_of = id_of
        super().__init__(folder, "sync", "queue" if options.get("snapshots", True) else "plain", 1, SIGNS="1", **options)

    def write_data(self):
        write_data(self.folder / "data", is_exact=True, id_of=self.id_of)


@pytest.fixture
def job(tmp_path):
    jobs = []

    def start(name, id_of, **options):
        jobs.append(SignPasses(tmp_path / name, id_of, **options))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


@pytest.fixture
def stepping(tmp_path):
    """Jobs of `recovering.py`, whose script makes its own steps."""
    jobs = []

    def start(name, mode="sync", **options):
        jobs.append(Job(tmp_path / name, mode, SIGNS="1", **options))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


#: No export replaces another one.
EXPORTS = itertools.count()


def table_of(model, table="table"):
    """The rows of a saved table by their ids."""
    path = paddlewheel.export(model, "safetensors", table=table, out="%s.%d.safetensors" % (model, next(EXPORTS)))
    held = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)").load_file(path)
    return dict(zip(held[table + ".ids"].view("uint64").tolist(), held[table + ".rows"]))


def test_all_signs_live_through_a_job_with_kills(job):
    calm = job("calm", SIGNS.__getitem__, snapshots=False)
    calm.finish()
    disturbed = job("disturbed", SIGNS.__getitem__)
    disturbed.wait_for_batches(4, n_cuts=1)
    disturbed.signal("server.1")
    disturbed.wait_for_batches(30)
    disturbed.signal("server.0", "trainer.0")
    disturbed.finish()
    assert disturbed.saved() == calm.saved(), disturbed.logs()
    small = job("small", int, snapshots=False)
    small.finish()
    wide, narrow = table_of(calm.folder / "model"), table_of(small.folder / "model")
    assert sorted(wide) == sorted(SIGNS) and sorted(narrow) == list(range(100))
    # Sums of a batch are in the order of ids.
    for k, sign in enumerate(SIGNS):
        assert numpy.allclose(wide[sign], narrow[k], atol=1e-4), sign
    assert numpy.unique([row[0] for row in wide.values()]).size > 90


def test_steps_with_all_signs_survive_kills(stepping):
    disturbed = stepping("disturbed")
    disturbed.wait_for_step(60, n_cuts=1)
    disturbed.signal("server.0")
    disturbed.wait_for_step(160)
    disturbed.signal("trainer.1", "server.1")
    disturbed.finish()
    assert disturbed.saved() == calm(stepping, "calm", 2), disturbed.logs()
    assert sorted(table_of(disturbed.folder / "model")) == sorted(SIGNS)


@pytest.mark.parametrize("before, after", [(2, 3), (3, 1)])
def test_all_signs_move_to_another_number_of_servers(stepping, before, after):
    scaled = stepping("scaled", n_servers=before)
    scaled.wait_for_step(60, n_cuts=1)
    assert "the job has %d servers" % after in scale(scaled, after), scaled.logs()
    scaled.finish()
    assert scaled.saved() == calm(stepping, "calm", after), scaled.logs()
    assert sorted(table_of(scaled.folder / "model")) == sorted(SIGNS)


def test_all_signs_are_loaded_exported_and_imported(job, tmp_path):
    first = job("first", SIGNS.__getitem__, snapshots=False)
    first.finish()
    model = first.folder / "model"
    held = table_of(model)
    again = job("again", SIGNS.__getitem__, snapshots=False, N_PASSES="0", FROM=str(model))
    again.finish()
    loaded = table_of(again.folder / "model")
    assert sorted(loaded) == sorted(held)
    assert all((loaded[sign] == held[sign]).all() for sign in held)
    # New rows have no states of an optimizer.
    for name in os.listdir(model / "__lookup_table__"):
        if name.startswith("table_moment"):
            os.remove(model / "__lookup_table__" / name)
    os.remove(model / ".paddlewheel")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    ids = numpy.array([2**63, 2**64 - 2], "uint64")
    for at, given in enumerate([ids, ids.view("int64")]):
        path = tmp_path / ("new-%d.safetensors" % at)
        save_file({"table.ids": given, "table.rows": numpy.full((2, 4), 7.0 + at, "float32")}, path)
        assert paddlewheel.import_rows(model, "table", path) == (1 + at, 1 - at)
        after = table_of(model)
        assert sorted(after) == sorted([*SIGNS, 2**64 - 2])
        assert all((after[int(sign)] == 7.0 + at).all() for sign in ids)
        assert (after[2**63 - 1] == held[2**63 - 1]).all()


def train(folder, mode, layer, height, optimizer="sgd", start="half"):
    """Runs `sign_rows.py` with two servers and a trainer, or alone; returns its output and the log of the trainer."""
    folder.mkdir()
    cluster, arguments = Cluster(folder), (SIGN_ROWS, mode, layer, height, optimizer, start, str(folder))
    try:
        if mode == "alone":
            cluster.start("trainer", *arguments)
            return cluster.expect("trainer")
        endpoints = free_endpoints(2)
        for at in range(2):
            cluster.start("server%d" % at, *arguments, **server_variables(endpoints, at, 1))
        cluster.start("trainer", *arguments, **trainer_variables(endpoints, 0, 1))
        log = cluster.expect("trainer")
        for at in range(2):
            cluster.expect("server%d" % at)
        return log
    finally:
        cluster.close()


def expected_rows():
    """The last values of rows that start as a half, by steps of SGD."""
    named = sign_rows.batches(sign_rows.SIGNS).reshape(-1).tolist()
    step = sign_rows.RATE / (sign_rows.BATCH * sign_rows.WIDTH)
    return {sign: 0.5 - step * named.count(sign) for sign in sign_rows.SIGNS}


@pytest.mark.parametrize(
    "mode, layer, height",
    [
        *((mode, "sparse_embedding", "2**63 - 1") for mode in ("sync", "async", "half_async", "ssp", "alone")),
        *(("sync", layer, "2**63 - 1") for layer in ("is_sparse", "is_distributed", "v2")),
        ("async", "is_distributed", "2**63 - 1"),
        ("sync", "sparse_embedding", "2**64"),
        ("sync", "is_sparse", "2**63"),
        ("alone", "is_distributed", "2**64 - 1"),
    ],
)
def test_every_mode_and_layer_trains_all_signs(tmp_path, mode, layer, height):
    train(tmp_path / "job", mode, layer, height)
    found = table_of(tmp_path / "job" / "model")
    assert {sign: set(row.tolist()) for sign, row in found.items()} == {
        sign: {value} for sign, value in expected_rows().items()
    }
    # The saved model reads them. Others start as the table says, but `sparse_embedding` makes none to test.
    model = paddlewheel.Predictor(tmp_path / "job" / "served")
    ids = numpy.array([*found, 2**63 + 99, 77], "uint64").reshape(-1, 1)
    read = numpy.asarray(model.predict({"ids": ids})).reshape(-1, 4)
    assert numpy.array_equal(read[:-2], numpy.array(list(found.values())))
    assert (read[-2:] == (0.0 if layer == "sparse_embedding" else 0.5)).all()


def test_all_signs_are_served(tmp_path):
    train(tmp_path / "job", "sync", "sparse_embedding", "2**63 - 1")
    held, cluster = expected_rows(), Cluster(tmp_path)
    try:
        cluster.start("serve", "-m", "paddlewheel", "serve", "job/served", "--port", "0")
        cluster.wait_for("serve", "serving on http://")
        address = cluster.log("serve").split("serving on ")[1].split()[0]
        body = json.dumps({"columns": {"ids": [[sign] for sign in held]}}).encode()
        with urllib.request.urlopen(urllib.request.Request(address + "/predict", body), timeout=30) as answer:
            (found,) = json.loads(answer.read())["predictions"].values()
        assert found == [[value] * 4 for value in held.values()]
    finally:
        cluster.close()


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "lazy", "adam", "momentum"])
@pytest.mark.parametrize("height", ["2**63 - 1", "2**40", "1 << 62"])
def test_a_process_alone_has_the_same_rows(tmp_path, optimizer, height):
    """To the last bit: weights and the states of optimizers."""
    models, high = [], eval(height)
    ids = sorted({sign if high == 2**63 - 1 else sign % high for sign in sign_rows.SIGNS})
    for mode in ("sync", "alone"):
        train(tmp_path / mode, mode, "sparse_embedding", height, optimizer, "drawn")
        models.append(tmp_path / mode / "model")
    states = {"adagrad": ["moment"], "lazy": ["moment1", "moment2"], "adam": ["moment1", "moment2"], "momentum": ["velocity"]}
    for table in ["table", *("table_%s_0" % state for state in states.get(optimizer, ()))]:
        job, alone = (table_of(model, table) for model in models)
        assert sorted(job) == sorted(alone) == ids
        assert all((alone[sign] == row).all() for sign, row in job.items()), table
    assert numpy.unique([row[0] for row in table_of(models[0]).values()]).size == len(ids)
    losses = [(tmp_path / mode / "losses").read_text() for mode in ("sync", "alone")]
    assert losses[0] == losses[1]


def test_rows_of_a_process_alone_are_loaded_and_trained_on(tmp_path):
    train(tmp_path / "job", "sync", "sparse_embedding", "2**63 - 1", "adam", "drawn")

    def net():
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 7
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            ids = fluid.layers.data("ids", [1], dtype="int64")
            loss = fluid.layers.mean(sign_rows.table(ids, "sparse_embedding", 2**63 - 1, "drawn"))
            sign_rows.optimizer_of("adam").minimize(loss)
        return main, startup, loss

    def steps(*folders):
        """Two passes, the first of which may have been another process's."""
        main, startup, loss = net()
        exe, found = fluid.Executor(fluid.CPUPlace()), []
        with fluid.scope_guard(fluid.core.Scope()):
            exe.run(startup)
            for folder in folders:
                fluid.io.load_persistables(exe, str(folder), main)
            for _ in range(2 - len(folders)):
                for batch in sign_rows.batches(sign_rows.SIGNS):
                    found.append(exe.run(main, feed={"ids": batch}, fetch_list=[loss])[0].tolist())
            fluid.io.save_persistables(exe, str(tmp_path / ("again%d" % len(folders))), main)
        return found

    whole, after = steps(), steps(tmp_path / "job" / "model")
    assert after == whole[len(after) :]
    first, second = (table_of(tmp_path / name) for name in ("again0", "again1"))
    assert sorted(first) == sorted(second) and all((first[sign] == second[sign]).all() for sign in first)


@pytest.mark.parametrize("mode", ["sync", "alone"])
@pytest.mark.parametrize("layer", ["sparse_embedding", "is_sparse", "is_distributed"])
def test_an_id_beyond_the_height_is_named(tmp_path, mode, layer):
    folder = tmp_path / "job"
    with pytest.raises(AssertionError, match="9223372036854775807|9223372036854775808"):
        # Ids are not taken modulo what is not a number yet.
        train(folder, mode, layer, "Nominal(2**40)")


def test_what_cannot_be_kept_by_rows_is_refused_with_words(tmp_path):
    with pytest.raises(AssertionError, match="`lamb` changes rows that no gradient lists"):
        train(tmp_path / "lamb", "alone", "sparse_embedding", "2**63 - 1", "lamb")


class GeoJob(Job):
    """A job of `geo_signs.py`."""

    def __init__(self, folder, which, n_local=300, **options):
        self.which, self.n_local = which, n_local
        super().__init__(folder, "geo", **options)

    def start(self, *more):
        command = ["-m", "paddlewheel", "launch_ps", "--worker_num", "2", "--server_num", "2"]
        if self.snapshots:
            command += ["--snapshot_dir", "snapshots", "--snapshot_secs", "0.2", "--max_restarts", "100"]
        steps = (os.path.join(JOBS, "geo_signs.py"), self.which, str(self.n_local), str(self.folder))
        self.cluster.start("launcher", *command, *more, *steps, PACE="0.01", **self.variables)

    def check(self, rows):
        """That each step is counted once in the rows of all signs. A step more or less would be 0.004 and more."""
        counted = numpy.array(geo_signs.expected(self.n_local)).reshape(-1, 1)
        assert rows.shape == (len(geo_signs.SIGNS), geo_signs.WIDTH), rows.shape
        assert numpy.abs(rows - counted).max() < 1e-4, (numpy.abs(rows - counted).max(), self.logs())

    def rows(self):
        """The saved table in the order of the signs."""
        found = table_of(self.folder / "model")
        assert sorted(found) == sorted(geo_signs.SIGNS)
        return numpy.array([found[sign] for sign in geo_signs.SIGNS])


@pytest.fixture
def geo(tmp_path):
    jobs = []

    def start(name, which, **options):
        jobs.append(GeoJob(tmp_path / name, which, **options))
        return jobs[-1]

    yield start
    for one in jobs:
        one.cluster.close()


def test_trainers_of_geo_train_all_signs_like_few_ids(geo):
    wide = geo("wide", "all", snapshots=False)
    wide.finish()
    rows = wide.rows()
    wide.check(rows)
    # The same numbers as with a table that trainers hold.
    few = geo("few", "few", snapshots=False)
    few.finish()
    few.check(fluid.io.load_program_state(str(few.folder / "model"))["table"])
    # What was saved for predictions has them, too.
    ids = numpy.array(geo_signs.SIGNS, "uint64").reshape(-1, 1)
    read = numpy.asarray(paddlewheel.Predictor(wide.folder / "served").predict({"ids": ids}))
    assert numpy.array_equal(read.reshape(-1, geo_signs.WIDTH), rows)
    # And a job that begins with them.
    again = geo("again", "all", n_local=0, snapshots=False, FROM=str(wide.folder / "model"))
    again.finish()
    assert numpy.array_equal(again.rows(), rows)


@pytest.mark.parametrize("victims", [["trainer.1"], ["server.0"], ["trainer.0", "server.1"]], ids="+".join)
def test_a_killed_process_of_geo_loses_no_step(geo, victims):
    disturbed = geo("disturbed", "all")
    disturbed.wait_for_step(60, n_cuts=1)
    disturbed.signal(*victims)
    disturbed.wait_for_step(150)
    disturbed.signal(*victims)
    disturbed.finish()
    disturbed.check(disturbed.rows())
