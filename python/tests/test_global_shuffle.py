"""Trainers that exchange samples and add up what they measured: real processes."""

import ast
import os
import re

import numpy
import pytest
from conftest import PROGRAMS

import paddlewheel.fluid as fluid

SCRIPT = os.path.join(PROGRAMS, "fleet_shuffle.py")
N_BUCKETS = 4096


@pytest.fixture
def job(child, tmp_path):
    """Runs the script on trainers and servers; returns the logs of the trainers."""

    def run(*arguments, workers=2, servers=2, returncode=0):
        sizes = ("--worker_num", str(workers), "--server_num", str(servers))
        result = child("-m", "paddlewheel", "launch_ps", *sizes, SCRIPT, *arguments)
        assert (result.returncode == 0) == (returncode == 0), result.stderr
        return [(tmp_path / "logs" / ("workerlog.%d" % at)).read_text() for at in range(workers)]

    return run


def said(log, word):
    """The output of a trainer behind a word."""
    (found,) = re.findall(r"^%s (.*)$" % word, log, re.M)
    return found


def area(scores, labels):
    """The exact area under the ROC curve: the share of pairs in the right order, ties by halves."""
    order = numpy.argsort(scores, kind="stable")
    scores, labels = scores[order], labels[order]
    _, first, count = numpy.unique(scores, return_index=True, return_counts=True)
    ranks = numpy.repeat(first + (count + 1) / 2.0, count)
    n_pos = labels.sum()
    wins = ranks[labels == 1].sum() - n_pos * (n_pos + 1) / 2.0
    return wins / n_pos / (len(labels) - n_pos)


def test_samples_are_exchanged_and_metrics_are_those_of_all(job, tmp_path):
    logs = job("async", workers=3)
    assert [said(log, "own") for log in logs] == ["300", "900", "900"]
    assert {said(log, "all") for log in logs} == {"2100 2100"}
    held = [numpy.load(str(tmp_path / ("held-%d.npy" % at))) for at in range(3)]
    assert sorted(numpy.concatenate(held)) == list(range(2100))
    for some in held:
        assert len(some) == 700, "shares are even"
        assert 0.3 < (some >= 1200).mean() < 0.56

    ids = numpy.concatenate(held)
    predicted = numpy.concatenate(
        [numpy.load(str(tmp_path / ("predicted-%d.npy" % at))) for at in range(3)]
    )
    labels = ids % 2
    found = {said(log, "auc") for log in logs}
    assert len(found) == 1, "all trainers see the same"
    (found,) = [float(text) for text in found]
    bucketed = (predicted[:, 1] * numpy.float32(N_BUCKETS)).astype("int64")
    assert found == pytest.approx(area(bucketed, labels), abs=1e-12)
    assert found == pytest.approx(area(predicted[:, 1], labels), abs=2e-3)
    assert found > 0.6, "it has learnt something"
    metric = fluid.metrics.Auc("auc", num_thresholds=N_BUCKETS)
    metric.update(predicted, labels.reshape(-1, 1))
    assert found == pytest.approx(metric.eval(), abs=1e-6)

    figures = ast.literal_eval(said(logs[2], "figures"))
    error = predicted[:, 1].astype("float64") - labels
    assert figures[0] == found and figures[8] == 2100
    assert figures[2] == pytest.approx(numpy.abs(error).mean(), rel=1e-4)
    assert figures[3] == pytest.approx(numpy.sqrt((error**2).mean()), rel=1e-4)
    assert figures[4] == pytest.approx(labels.mean(), rel=1e-5)
    assert figures[5] == pytest.approx(predicted[:, 1].mean(), rel=1e-4)
    assert figures[6] == pytest.approx(figures[4] / figures[5])
    assert "test global auc = %r\n" % found in logs[0]
    assert " global AUC=%.6f BUCKET_ERROR=" % found in logs[0] and "Ins number=2100\n" in logs[0]
    assert "not found auc bucket\n" in logs[0]
    assert "global auc" not in logs[1], "only the first one speaks"
    assert {said(log, "fresh") for log in logs} == {"0.5"}, "of no samples"


def test_the_same_shares_whatever_the_servers(job, tmp_path):
    found = []
    for mode, servers in [("sync", 1), ("half_async", 2)]:
        job(mode, servers=servers)
        found.append([numpy.load(str(tmp_path / ("held-%d.npy" % at))) for at in range(2)])
    for one, other in zip(*found):
        assert one.tolist() == other.tolist()


def test_trainers_out_of_step_are_named(job):
    logs = job("async", "out of step", returncode=1)
    text = "trainer %d is out of step: it is at %s, turn 1, the others at %s, turn 1"
    either = (text % (1, "count", "shuffle"), text % (0, "shuffle", "count"))
    errors = [log for log in logs if "RuntimeError: samples could not be exchanged" in log]
    assert errors and all(any(one in log for one in either) for log in errors), logs
