"""Figures of quality that are exact: of samples, of a pass, and over all trainers."""

import json
import os
import sys

import numpy as np
import pytest
from clusters import Cluster
from conftest import HERE

import paddlewheel.fluid as fluid
from paddlewheel import metrics


def samples(n=400):
    state = np.random.RandomState(5)
    # Few values: there are ties.
    return {
        "preds": state.randint(0, 20, n) / 20.0,
        "labels": (state.rand(n) < 0.3).astype("int64"),
        "users": state.randint(0, 17, n) + 2**60,
        "slices": state.randint(0, 3, n),
    }


def area(preds, labels):
    """All pairs, one by one."""
    pairs = [(p > q) + 0.5 * (p == q) for p in preds[labels == 1] for q in preds[labels == 0]]
    return np.mean(pairs) if pairs else None


def brute(preds, labels, users):
    areas = [(area(preds[users == u], labels[users == u]), (users == u).sum()) for u in np.unique(users)]
    areas = [(a, n) for a, n in areas if a is not None]
    rate = labels.mean()
    loss = -np.mean(np.log(np.maximum(np.where(labels == 1, preds, 1 - preds), 1e-15)))
    return {
        "samples": len(preds),
        "clicks": labels.sum(),
        "auc": area(preds, labels),
        "gauc": sum(a * n for a, n in areas) / sum(n for _, n in areas),
        "users": len(areas),
        "log_loss": loss,
        "normalised_entropy": loss / -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)),
        "pcoc": preds.sum() / labels.sum(),
    }


def check(quality, expected):
    for name, number in expected.items():
        assert getattr(quality, name) == pytest.approx(number, abs=1e-12), name


def test_quality_is_that_of_counting_all_pairs():
    data = samples()
    expected = brute(data["preds"], data["labels"], data["users"])
    check(metrics.quality(**data), expected)
    batches = metrics.ScoredSamples()
    for first in range(0, 400, 64):
        batches.update(*(data[name][first : first + 64] for name in ("preds", "labels", "users", "slices")))
    check(batches.quality(), expected)
    assert len(batches) == 400
    by_slice = batches.by_slice()
    assert sorted(by_slice) == [0, 1, 2]
    for slice, quality in by_slice.items():
        chosen = data["slices"] == slice
        check(quality, brute(data["preds"][chosen], data["labels"][chosen], data["users"][chosen]))
    assert repr(batches.quality()).startswith("Quality(samples=400, clicks=")
    batches.reset()
    assert len(batches) == 0 and batches.quality().auc is None


def test_rows_of_two_probabilities_count_by_the_second():
    data = samples()
    pairs = np.stack([1 - data["preds"], data["preds"]], axis=1)
    assert metrics.quality(pairs, data["labels"]).auc == metrics.quality(data["preds"], data["labels"]).auc
    assert metrics.quality(data["preds"], data["labels"]).gauc is None


def test_wrong_samples_are_refused():
    good = np.array([0.5, 0.25]), np.array([1, 0])
    for wrong in (
        (good[0], np.array([1, 2])),
        (np.array([0.5, np.nan]), good[1]),
        (good[0], np.array([1])),
        (*good, np.array([1.5, 2.5])),
        (*good, np.array([1])),
        (["0.5", "0.25"], good[1]),
        ([0.5, None], good[1]),
    ):
        with pytest.raises(ValueError):
            metrics.quality(*wrong)


def test_lists_and_columns_are_arrays():
    """The label is usually a column of a DataFrame."""
    pandas = pytest.importorskip("pandas")
    lists = metrics.quality([0.5, 0.25, 0.75], [1, 0, 1], users=[7, 7, 7])
    frame = pandas.DataFrame({"clicked": [1, 0, 1], "user": [7, 7, 7]})
    columns = metrics.quality(np.array([0.5, 0.25, 0.75]), frame["clicked"], users=frame["user"])
    assert str(lists) == str(columns) and lists.gauc == 1.0


def a_pass(tmp_path):
    """A program with an AUC and a loss, and a dataset of 40 samples."""
    x = fluid.data("x", [None, 1], "float32")
    label = fluid.data("label", [None, 1], "int64")
    hit = fluid.layers.fc(x, 1, act="sigmoid", param_attr="w", bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.log_loss(hit, fluid.layers.cast(label, "float32")))
    both = fluid.layers.concat([1.0 - hit, hit], axis=1)
    auc, _, _ = fluid.layers.auc(both, label, slide_steps=0)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.0).minimize(loss)
    state = np.random.RandomState(7)
    numbers, labels = state.randn(40), state.randint(0, 2, 40)
    text = "".join("1 %.6f 1 %d\n" % pair for pair in zip(numbers, labels))
    (tmp_path / "part-0").write_text(text)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([x, label])
    dataset.set_batch_size(8)
    dataset.set_thread(2)
    dataset.set_filelist([str(tmp_path / "part-0")])
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.global_scope().find_var("w").get_tensor().set(np.ones([1, 1], "float32"))
    hits = 1 / (1 + np.exp(-np.array([float("%.6f" % number) for number in numbers])))
    return exe, dataset, test, loss, auc, hits, labels


def test_a_pass_has_the_exact_numbers_of_its_samples(tmp_path):
    exe, dataset, test, loss, auc, hits, labels = a_pass(tmp_path)
    expected = area(hits, labels)
    mean = -np.mean(np.log(np.where(labels == 1, hits, 1 - hits) + 1e-4))
    for _ in range(2):
        # The second pass counts from zero, although the counters of the program continue.
        exe.train_from_dataset(dataset=dataset, fetch_list=[loss, auc], print_period=1000)
        one = exe.last_pass
        assert (one.batches, one.samples) == (5, 40) and one[:2] == (5, 40)
        assert len(one.waited) == 1 and one.seconds > 0
        assert one.auc == pytest.approx(expected, abs=2e-3)
        assert float(one.fetched[loss.name]) == pytest.approx(mean, abs=1e-5)
        assert float(one.fetched[auc.name]) == one.auc
    exe.infer_from_dataset(test, dataset, fetch_list=[loss])
    assert exe.last_pass.auc == one.auc
    assert float(exe.last_pass.fetched[loss.name]) == pytest.approx(mean, abs=1e-5)
    assert "samples=40" in repr(exe.last_pass)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_figures_of_a_job_are_those_of_all_samples(tmp_path, mode):
    """Two servers and two trainers, each a process: their common result is that of one process with all samples."""
    jobs = os.path.join(HERE, "jobs")
    cluster = Cluster(tmp_path)
    try:
        sizes = ("--server_num", "2", "--worker_num", "2")
        script = os.path.join(jobs, "scoring.py")
        cluster.start("job", "-m", "paddlewheel", "launch_ps", *sizes, script, str(tmp_path), mode)
        cluster.expect("job")
    finally:
        cluster.close()
    sys.path.insert(0, jobs)
    from scoring import figures

    of_rank = [np.load(str(tmp_path / ("samples-%d.npz" % rank))) for rank in (0, 1)]
    whole = {name: np.concatenate([one[name] for one in of_rank]) for name in ("preds", "labels", "users", "slices")}
    assert [len(one["preds"]) for one in of_rank] == [96, 224]
    found = [json.loads((tmp_path / ("figures-%d.json" % rank)).read_text()) for rank in (0, 1)]
    assert found[0] == found[1]
    assert found[0]["all"] == figures(metrics.quality(**whole)), "the same bits"
    preds = whole["preds"].astype("float64")
    for name, number in brute(preds, whole["labels"], whole["users"]).items():
        assert found[0]["all"][name] == pytest.approx(number, abs=1e-9), name
    for at in (0, 1):
        chosen = whole["slices"] == at
        expected = brute(preds[chosen], whole["labels"][chosen], whole["users"][chosen])
        for name, number in expected.items():
            assert found[0][str(at)][name] == pytest.approx(number, abs=1e-9), name
    # No trainer alone has these figures.
    assert all(metrics.quality(one["preds"], one["labels"]).auc != found[0]["all"]["auc"] for one in of_rank)
