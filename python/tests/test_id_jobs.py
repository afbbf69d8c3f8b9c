"""Ids of 2^63 and more on servers: trained from a dataset, kept, killed, saved, loaded, exported and imported."""

import os

import numpy
import pytest

import paddlewheel
from test_recovery_dataset import Passes, write_data

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


def table_of(model):
    """The rows of a saved table by their ids."""
    path = paddlewheel.export(model, "safetensors", table="table", out=str(model) + ".safetensors")
    held = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (make test installs it)").load_file(path)
    return dict(zip(held["table.ids"].view("uint64").tolist(), held["table.rows"]))


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
