"""Errors of files and commands, as a user of `train_from_dataset` learns of them: which file,
which line, which slot, the expected value, which command; within seconds, and nothing is left behind."""

import gzip
import os
import re
import sys
import time

import numpy
import pytest

import paddlewheel.fluid as fluid

#: A fault is told within so many seconds.
LIMIT = 20
GOOD = "2 0.5 1 1 7\n" * 8


@pytest.fixture
def pieces():
    """A small model on a dense slot `x` and a sparse slot `c`; an executor that is ready."""
    x, c = fluid.data("x", [None, 2]), fluid.data("c", [None, 1], dtype="int64", lod_level=1)
    rows = fluid.layers.sequence_pool(fluid.layers.embedding(c, [10, 2]), "sum")
    loss = fluid.layers.reduce_mean(fluid.layers.fc([x, rows], 1))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, [x, c]


@pytest.fixture
def dataset(pieces, tmp_path):
    """Makes a dataset of files with these texts, by name."""

    def make(texts, command="cat", kind="QueueDataset", threads=1):
        made = fluid.DatasetFactory().create_dataset(kind)
        made.set_use_var(pieces[1])
        made.set_batch_size(4)
        made.set_thread(threads)
        made.set_pipe_command(command)
        made.set_pipe_timeout(1.5)
        for name, text in texts.items():
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        made.set_filelist([str(tmp_path / name) for name in texts])
        return made

    return make


def fails(exe, made):
    """The error of a pass, told in time."""
    start = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        if isinstance(made, fluid.InMemoryDataset):
            made.load_into_memory()
        exe.train_from_dataset(fluid.default_main_program(), made)
    assert time.monotonic() - start < LIMIT
    return str(caught.value)


LINES = {
    "a count of zero": ("2 1 1 0", "slot `c`: expected the number of values, 1 or more, found `0`"),
    "a count that is none": ("two 1 1 1 7", "slot `x`: expected the number of values, 1 or more"),
    "another count": ("3 1 1 1 1 7", "slot `x` is dense: expected 2 values, found 3"),
    "no number": ("2 1 1 1 seven", "slot `c`, value 1: expected .*, found `seven`"),
    "a bad float": ("2 1 1e 1 7", "slot `x`, value 2: expected .*, found `1e`"),
    "an id too large": ("2 1 1 1 18446744073709551616", "slot `c`, value 1: id .* is beyond 2"),
    "too few values": ("2 1 1 3 7 8", "slot `c`: expected 3 values, the line ends after 2"),
    "a slot too few": ("2 1 1", "ends where slot `c` should begin: expected 2 slots, found 1"),
    "a slot too many": ("2 1 1 1 7 1 8", "expected the end of the line after 2 slots, found `1`"),
    "a blank line": ("", "slot `x`|where slot `x`"),
}


@pytest.mark.parametrize("what", LINES)
@pytest.mark.parametrize("command", ["cat", "sed s/a/a/"])
def test_a_bad_line_is_named_by_file_line_and_slot(pieces, dataset, what, command):
    text, message = LINES[what]
    made = dataset({"good": GOOD, "bad": GOOD + text + "\n" + GOOD}, command)
    error = fails(pieces[0], made)
    assert "/bad:9" in error, error
    assert re.search(message, error), error
    assert "please check this error line: " + text in error
    assert ("(through `%s`)" % command in error) == (command != "cat")


COMMANDS = {
    "missing": ("no-such-command --x", "pipe command `no-such-command --x` was not found"),
    "failing": ("echo help >&2; exit 3", "failed on file `.*part` with exit code 3: help"),
    "failing late": ("cat; exit 4", "failed on file `.*part` with exit code 4"),
    "killed": ("cat; kill -9 $$", "failed on file `.*part` with signal 9"),
    "silent": ("cat > /dev/null", "printed nothing for file `.*part`, which is not empty"),
    "never ending": ("sleep 1000", "printed nothing for 1.*s on file `.*part`.*set_pipe_timeout"),
    "ending late": ("cat; sleep 1000", "printed nothing for 1.*s on file `.*part`"),
    "a broken python": ("python3 -c 'import nowhere'", "No module named 'nowhere'"),
}


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_bad_command_is_named_and_ended(pieces, dataset, what, kind):
    command, message = COMMANDS[what]
    error = fails(pieces[0], dataset({"part": GOOD}, command, kind))
    assert command in error and re.search(message, error), error
    left = os.popen("ps -o args= --ppid %d" % os.getpid()).read()
    assert "sleep 1000" not in left


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_an_unreadable_file_in_the_middle_is_named(pieces, dataset, tmp_path, kind, threads):
    made = dataset({"a": GOOD, "b": GOOD, "c": GOOD}, kind=kind, threads=threads)
    os.remove(str(tmp_path / "b"))
    error = fails(pieces[0], made)
    assert "file `%s` cannot be read: No such file" % (tmp_path / "b") in error
    (tmp_path / "b").mkdir()
    assert "file `%s` cannot be read" % (tmp_path / "b") in fails(pieces[0], made)


def test_a_damaged_archive_is_named(pieces, dataset, tmp_path):
    packed = gzip.compress((GOOD * 1000).encode())
    error = fails(pieces[0], dataset({"part.gz": packed[: len(packed) // 2]}))
    assert "file `%s` cannot be read" % (tmp_path / "part.gz") in error


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
@pytest.mark.parametrize("command", ["cat", "grep nothing || true"])
def test_no_row_at_all_is_an_error(pieces, dataset, kind, command):
    error = fails(pieces[0], dataset({"a": "", "b": ""}, command, kind))
    assert "no sample in any of 2 files (the first is `" in error and "/a`)" in error
    assert (command in error) == (command != "cat")


def test_an_empty_file_among_others_is_none(pieces, dataset):
    exe, made = pieces[0], dataset({"a": "", "b": GOOD, "c": ""}, threads=3)
    exe.train_from_dataset(fluid.default_main_program(), made)
    assert exe.last_pass[1] == 8


def test_what_may_be_skipped_is_counted(pieces, dataset, tmp_path):
    exe = pieces[0]
    texts = {"a": GOOD + "x\n" + GOOD, "b": GOOD, "c": GOOD + "2 1 1 0\n"}
    made = dataset(texts)
    os.remove(str(tmp_path / "b"))
    made.set_skip_max(3)
    exe.train_from_dataset(fluid.default_main_program(), made)
    assert exe.last_pass[1] == 24
    n_lines, n_files, first = made.skipped
    assert (n_lines, n_files) == (2, 1) and "/a:9: slot `x`" in first
    made.set_skip_max(2)
    assert "more than 2 bad lines or files; the last: " in fails(exe, made)


def test_after_a_fault_all_goes_on(pieces, dataset):
    exe = pieces[0]
    before = numpy.array(fluid.global_scope().find_var("embedding_0.w_0").get_tensor())
    for command in ("sleep 1000", "exit 1"):
        fails(exe, dataset({"part": GOOD}, command, threads=2))
    kept = numpy.array(fluid.global_scope().find_var("embedding_0.w_0").get_tensor())
    assert (kept == before).all()
    exe.train_from_dataset(fluid.default_main_program(), dataset({"part": GOOD}))
    assert exe.last_pass[:2] == (2, 8)
    after = numpy.array(fluid.global_scope().find_var("embedding_0.w_0").get_tensor())
    assert (after != before).any()


def test_a_timeout_is_more_than_nothing(dataset):
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="pipe_timeout must be more than 0 seconds"):
            dataset({"part": GOOD}).set_pipe_timeout(seconds)


SWAPPED = """
import paddlewheel.fluid.incubate.data_generator as dg

class Reader(dg.MultiSlotDataGenerator):
    def generate_sample(self, line):
        return lambda: iter([[("c", [7]), ("x", [0.5, 1.0])]])

Reader().run_from_stdin()
"""


def test_slots_are_matched_by_name_where_a_generator_knows_them(pieces, dataset, tmp_path):
    (tmp_path / "reader.py").write_text(SWAPPED)
    made = dataset({"part": "line\n"}, "python {}".format(tmp_path / "reader.py"))
    made.set_pipe_timeout(60)
    error = fails(pieces[0], made)
    assert "slot `c` is number 1 of the generator's slots, but number 2 of the dataset's" in error


def test_python_in_a_command_is_this_one_and_an_error_names_it(pieces, dataset, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    another = tmp_path / "bin" / "python"
    another.write_text("#!/bin/sh\necho another python >&2; exit 1\n")
    another.chmod(0o755)
    monkeypatch.setenv("PATH", "{}:{}".format(another.parent, os.environ["PATH"]))
    reader = tmp_path / "reader.py"
    reader.write_text("import paddlewheel, sys\nfor line in sys.stdin: print('2 1 1 1 7')\n")
    made = dataset({"part": "line\n" * 4}, "python {}".format(reader))
    made.set_pipe_timeout(60)
    pieces[0].train_from_dataset(fluid.default_main_program(), made)
    assert pieces[0].last_pass[1] == 4
    made.set_pipe_command("python -c 'import nowhere'")
    error = fails(pieces[0], made)
    assert "(`python` is {})".format(sys.executable) in error and "nowhere" in error


BROKEN = """
import paddlewheel.fluid as fluid

x = fluid.data("x", [None, 1])
loss = fluid.layers.reduce_mean(fluid.layers.fc(x, 1))
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
made = fluid.DatasetFactory().create_dataset("QueueDataset")
made.set_use_var([x])
made.set_pipe_command("python endless.py")
made.set_filelist(["part"])
exe.train_from_dataset(fluid.default_main_program(), made)
"""


def test_the_useful_error_comes_last(child, tmp_path):
    (tmp_path / "part").write_text("line\n")
    (tmp_path / "endless.py").write_text("print('1 bad')\nwhile True: print('1 0.5')\n")
    (tmp_path / "train.py").write_text(BROKEN)
    result = child("train.py")
    assert result.returncode == 1
    assert "BrokenPipeError" not in result.stderr
    error, culprit = result.stderr.splitlines()[-2:]
    assert "slot `x`, value 1" in error and culprit.endswith("1 bad"), result.stderr


def test_empty_cells_and_negative_ids_are_named_by_file_line_and_column(pieces, dataset):
    texts = {"table": "p,q,c\n1,2,3\n1,,3\n"}
    command = "paddlewheel csv-reader x=p,q c=c:id"
    error = fails(pieces[0], dataset(texts, command))
    assert re.search(r"table\W.*\b3\b", error) and "column `q` is empty here; na=VALUE" in error
    made = dataset(texts, "paddlewheel csv-reader na=0 x=p,q c=c:id")
    pieces[0].train_from_dataset(fluid.default_main_program(), made)
    assert pieces[0].last_pass[1] == 2
    error = fails(pieces[0], dataset({"table": "p|q|c\n1|2|-3\n"}, command + " sep=pipe"))
    assert re.search(r"table\W.*\b2\b", error) and "column `c`: id -3 is below 0" in error
