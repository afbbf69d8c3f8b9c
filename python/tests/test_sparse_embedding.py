"""Tables whose rows servers make when they are first used, and rules about which."""

import os
import re

import numpy as np
import pytest

from clusters import Cluster, free_endpoints, server_variables, trainer_variables
from conftest import HERE
from paddlewheel import distributed, fluid
from paddlewheel.fluid.contrib.layers import sparse_embedding

SCRIPT = os.path.join(HERE, "jobs", "sparse_rows.py")


def test_rules_are_checked():
    for wrong in (1, 1.0, 0.0, "0.5"):
        with pytest.raises(ValueError, match=re.escape("probability must be a float in (0,1)")):
            distributed.ProbabilityEntry(wrong)
    with pytest.raises(ValueError, match="count_filter must be a valid integer greater than 0"):
        distributed.CountFilterEntry(1.5)
    with pytest.raises(ValueError, match="greater or equal than 0"):
        distributed.CountFilterEntry(-1)
    ids = fluid.layers.data("ids", [1], dtype="int64")
    with pytest.raises(ValueError, match="entry must be instance in"):
        sparse_embedding(ids, [10, 4], entry="count_filter_entry:1")


def test_a_rule_is_an_attribute_of_the_look_up():
    ids = fluid.layers.data("ids", [1], dtype="int64")
    out = sparse_embedding(ids, [1024, 4], padding_idx=-1, entry=fluid.entry_attr.CountFilterEntry(10))
    assert (out.name, out.shape) == ("sparse_embedding_0.tmp_0", (-1, 4))
    op = out.block.ops[-1]
    assert (op.type, op.attr("entry"), op.attr("padding_idx")) == (
        "lookup_table",
        "count_filter_entry:10",
        1023,
    )
    assert distributed.ProbabilityEntry(0.1)._to_attr() == "probability_entry:0.1"


def test_without_servers_every_row_takes_part():
    ids = fluid.layers.data("ids", [1], dtype="int64")
    half = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    rule = distributed.CountFilterEntry(10)
    loss = fluid.layers.mean(sparse_embedding(ids, [8, 4], entry=rule, param_attr=half))
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"ids": np.array([[1], [2]], "int64")}
    found = [float(exe.run(feed=feed, fetch_list=[loss])[0][0]) for _ in range(2)]
    assert found == [0.5, 0.375]


def test_a_table_that_nobody_can_hold_is_refused():
    ids = fluid.layers.data("ids", [1], dtype="int64")
    loss = fluid.layers.mean(sparse_embedding(ids, [2**40, 8]))
    fluid.optimizer.Lamb(0.1).minimize(loss)
    with pytest.raises(Exception, match="`lamb` changes rows by what is in all of them"):
        fluid.DistributeTranspiler().transpile(0, pservers="127.0.0.1:6174", trainers=1)
    # Alone, a table that no memory holds has the rows that are used, but for this optimizer.
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    with pytest.raises(Exception, match="`lamb` changes rows that no gradient lists"):
        exe.run(feed={"ids": np.array([[1], [2**40 - 1]], "int64")}, fetch_list=[loss])


def run_job(folder, mode, rule, steps, *model):
    """Runs a job of two servers and a trainer; the trainer's log by its first words."""
    endpoints = free_endpoints(2)
    cluster = Cluster(folder)
    try:
        arguments = (SCRIPT, mode, rule, str(steps), *model)
        for at in range(2):
            cluster.start("server%d" % at, *arguments, **server_variables(endpoints, at, 1))
        cluster.start("trainer", *arguments, **trainer_variables(endpoints, 0, 1))
        log = cluster.expect("trainer")
        for at in range(2):
            cluster.expect("server%d" % at)
    finally:
        cluster.close()
    said = {}
    for line in log.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in ("loss", "rows", "waiting", "dropped"):
            said.setdefault(words[0], []).append(float(words[1]))
    return said


@pytest.mark.parametrize("mode", ["sync", "async", "half_async"])
def test_rows_enter_by_count_in_every_mode(tmp_path, mode):
    first = tmp_path / "first"
    first.mkdir()
    said = run_job(first, mode, "CountFilterEntry(3)", 4)
    # The third batch with a row is the first that it learns from; the last row waits.
    assert said["loss"][:3] == [0.0, 0.0, 0.5]
    assert said["loss"][3] < 0.5
    assert (said["rows"], said["waiting"], said["dropped"]) == ([3], [1], [7])
    second = tmp_path / "second"
    second.mkdir()
    again = run_job(second, mode, "CountFilterEntry(3)", 2, str(first / "model"))
    assert 0 < again["loss"][0] * 4 / 3 < said["loss"][3], "it goes on with what was saved"
    assert (again["rows"], again["waiting"]) == ([4], [0]), "the last row had waited before"


def test_rows_enter_by_probability(tmp_path):
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        found.append(run_job(tmp_path / name, "sync", "ProbabilityEntry(0.5)", 2))
    assert found[0] == found[1]
    (rows,) = found[0]["rows"]
    assert 0 < rows < 4
    assert found[0]["loss"][0] == 0.5 * rows / 4
