"""Datasets of text files: their settings, their batches, their errors."""

import gzip
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import HERE

from paddlewheel import fluid

CRITEO = "1\t" + "\t".join(["7", "-1", ""] + ["4"] * 10) + "\t" + "\t".join(["ab"] * 26) + "\n"


@pytest.fixture
def slots():
    """Two numbers and a list of ids."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", shape=[2], dtype="float32")
        return [x, fluid.layers.data("c", shape=[1], dtype="int64", lod_level=1)]


def dataset(slots, paths, command="cat", kind="QueueDataset"):
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var(slots)
    made.set_filelist([str(path) for path in paths])
    made.set_pipe_command(command)
    made.set_batch_size(2)
    return made


def write(path, text):
    path.write_text(text)
    return path


def ids(batches):
    return [numpy.array(batch["c"]).ravel().tolist() for batch in batches]


def test_a_stream_gives_tensors_with_and_without_sequences(slots, tmp_path):
    file = write(tmp_path / "a", "2 1 2 1 7\n2 3 4 2 8 9\n2 5 6 1 10\n")
    first, last = dataset(slots, [file]).batches()
    assert numpy.array(first["x"]).tolist() == [[1, 2], [3, 4]]
    assert first["x"].lod() == [] and first["c"].lod() == [[0, 1, 3]]
    assert numpy.array(last["c"]).tolist() == [[10]]


def test_a_generator_is_a_pipe_command(slots, tmp_path):
    """With zip, and with hash, which every process must make alike."""
    generator = write(tmp_path / "reader.py", """
from paddlewheel.fluid.incubate.data_generator import MultiSlotDataGenerator

class Reader(MultiSlotDataGenerator):
    def generate_sample(self, line):
        def reader():
            yield zip(["x", "c"], [[0.5, 1.0], [hash("14" + line.strip()) % 1000]])
        return reader

Reader().run_from_stdin()
""")
    files = [write(tmp_path / name, "text\n") for name in "ab"]
    packed = tmp_path / "c"
    packed.write_bytes(gzip.compress(b"text\n"))
    command = "PYTHONPATH=%s %s %s" % (os.pathsep.join(sys.path), sys.executable, generator)
    found = ids(dataset(slots, files + [packed], command).batches())
    environment = dict(os.environ, PYTHONHASHSEED="0")
    ask = [sys.executable, "-c", "print(hash('14text') % 1000)"]
    expected = int(subprocess.check_output(ask, env=environment))
    assert found == [[expected] * 2, [expected]]


def test_memory_is_loaded_shuffled_and_released(slots, tmp_path):
    files = [write(tmp_path / str(n), "2 0 0 1 %d\n" % n * 3) for n in range(4)]
    made = dataset(slots, files, kind="InMemoryDataset")
    with pytest.raises(RuntimeError, match="load_into_memory"):
        made.batches()
    made.load_into_memory()
    assert made.get_memory_data_size() == 12
    before = ids(made.batches())
    assert sum(before, []) == [n for n in range(4) for _ in range(3)]
    made.local_shuffle()
    after = ids(made.batches())
    assert after != before and sorted(sum(after, [])) == sum(before, [])
    made.global_shuffle()
    assert made.get_shuffle_data_size() == 12
    made.release_memory()
    assert made.get_memory_data_size() == 0
    made.preload_into_memory(2)
    made.wait_preload_done()
    assert made.get_memory_data_size() == 12
    made.set_fea_eval(10, True)
    made.slots_shuffle(["c"])
    with pytest.raises(ValueError, match="no slot `z`"):
        made.slots_shuffle(["z"])


def test_samples_of_one_name_become_one(slots, tmp_path):
    file = write(tmp_path / "a", "1 u 2 0 0 1 5\n1 v 2 0 0 1 6\n1 u 2 0 0 1 7\n")
    made = dataset(slots, [file], kind="InMemoryDataset")
    made.set_merge_by_lineid()
    made.load_into_memory()
    assert made.get_memory_data_size() == 3
    made.global_shuffle()
    assert ids(made.batches()) == [[5, 7]]
    assert made.unmerged == 1


@pytest.mark.parametrize(
    "text, command, message",
    [
        ("2 1 2 0\n", "cat", "a:1: slot `c`: expected the number of values"),
        ("2 1 2 1 18446744073709551616\n", "cat", r"a:1: slot `c`, value 1: id .* beyond 2\^64"),
        ("2 1 2 1 5\n2 1 2\n", "cat", "a:2: the line ends where slot `c` should begin"),
        ("2 1 2 1 5 x\n", "cat", "expected the end of the line after 2 slots, found `x`"),
        ("2 1 2 1 5\n", "no-such-command", "`no-such-command` was not found"),
        ("2 1 2 1 5\n", "cat; echo why >&2; exit 3", "failed on file .*a` with exit code 3: why"),
        ("2 1 2 1 5\n", "true", "printed nothing for file"),
        ("", "cat", "no sample in any of 1 files"),
    ],
)
def test_bad_data_is_named(slots, tmp_path, text, command, message):
    made = dataset(slots, [write(tmp_path / "a", text)], command)
    with pytest.raises(RuntimeError, match=message):
        list(made.batches())


def test_a_missing_file_is_named_or_skipped(slots, tmp_path):
    files = [write(tmp_path / "a", "2 1 2 1 5\nbad\n"), tmp_path / "nowhere"]
    made = dataset(slots, files)
    made.set_skip_max(2)
    assert ids(made.batches()) == [[5]]
    n_lines, n_files, first = made.skipped
    assert (n_lines, n_files) == (1, 1) and "a:2" in first
    made.set_skip_max(0)
    made.set_filelist([str(files[1])])
    with pytest.raises(RuntimeError, match="nowhere"):
        list(made.batches())


def test_settings_are_checked(slots):
    factory = fluid.DatasetFactory()
    with pytest.raises(ValueError, match="datafeed class X does not exist"):
        factory.create_dataset("X")
    made = factory.create_dataset()
    for wrong in (made.set_batch_size, made.set_thread):
        with pytest.raises(ValueError, match="must be 1 or more"):
            wrong(0)
    with pytest.raises(TypeError):
        made.set_filelist("part-0")
    with pytest.raises(TypeError):
        made.set_use_var(["x"])
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        double = fluid.layers.data("d", shape=[1], dtype="float64")
    with pytest.raises(ValueError, match="only supports dtype=float32 and dtype=int64"):
        made.set_use_var([double])
    with pytest.raises(RuntimeError, match="set_use_var"):
        made.batches()
    made.set_use_var(slots)
    with pytest.raises(RuntimeError, match="set_filelist"):
        made.batches()
    for name in ("local", "global"):
        text = "QueueDataset does not support %s shuffle, please use InMemoryDataset for %s_shuffle"
        with pytest.raises(NotImplementedError, match=text % (name, name)):
            getattr(made, name + "_shuffle")()


def test_the_description_is_fluids(slots):
    made = dataset(slots, ["a"], "python x.py", "InMemoryDataset")
    assert made.desc().splitlines()[:3] == [
        'name: "MultiSlotInMemoryDataFeed"',
        "batch_size: 2",
        "multi_slot_desc {",
    ]
    assert 'pipe_command: "python x.py"\n' in made.desc()


@pytest.mark.parametrize("process", ["", "exec "])
def test_the_criteo_reader_reads_here_and_in_a_pipe(tmp_path, process, monkeypatch):
    shim = tmp_path / "bin" / "paddlewheel"
    shim.parent.mkdir()
    path = os.pathsep.join(sys.path)
    shim.write_text("#!/bin/sh\nPYTHONPATH=%s exec %s -m paddlewheel \"$@\"\n" % (path, sys.executable))
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent), prepend=os.pathsep)
    file = write(tmp_path / "part-0", CRITEO * 3)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        variables = [fluid.layers.data("dense_input", shape=[13], dtype="float32")]
        for at in range(1, 27):
            variables.append(fluid.layers.data("C%d" % at, [1], dtype="int64", lod_level=1))
        variables.append(fluid.layers.data("label", shape=[1], dtype="int64"))
    first, last = dataset(variables, [file], process + "paddlewheel criteo-reader 1000").batches()
    dense = numpy.array(first["dense_input"])
    assert dense.shape == (2, 13)
    assert dense[0, :4] == pytest.approx([7 / 20, 2 / 603, 0, 4 / 50])
    ask = "print(*[hash(str(i) + 'ab') % 1000 for i in range(14, 40)])"
    environment = dict(os.environ, PYTHONHASHSEED="0")
    hashes = subprocess.check_output([sys.executable, "-c", ask], env=environment)
    if sys.version_info >= (3, 11):
        found = [int(numpy.array(last["C%d" % at])[0, 0]) for at in range(1, 27)]
        assert found == [int(number) for number in hashes.split()]
    assert numpy.array(last["label"]).tolist() == [[1]]


def test_the_command_explains_itself():
    command = [sys.executable, "-m", "paddlewheel", "criteo-reader"]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, input="")
    assert done.returncode == 2 and "Usage: paddlewheel criteo-reader <N>" in done.stderr


def test_ctrl_c_ends_a_wait_for_a_silent_command(slots, tmp_path):
    made = dataset(slots, [write(tmp_path / "a", "x\n")], "sleep 600", "InMemoryDataset")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made.load_into_memory()
    assert time.monotonic() - start < 10


def test_a_description_is_read_changed_and_written(tmp_path):
    text = """name: "MultiSlotDataFeed"
batch_size: 2
multi_slot_desc {
  slots { name: "words" type: "uint64" is_dense: false is_used: true }
  slots <name: 'label'; type: "float"; is_used: false, shape: [3, -1]>  # two ways to write it
}
thread_num: 3
"""
    desc = fluid.DataFeedDesc(write(tmp_path / "a.prototxt", text))
    desc.set_batch_size(128)
    desc.set_dense_slots(["words"])
    desc.set_use_slots(["label"])
    expected = """name: "MultiSlotDataFeed"
batch_size: 128
multi_slot_desc {
  slots {
    name: "words"
    type: "uint64"
    is_dense: true
    is_used: true
  }
  slots {
    name: "label"
    type: "float"
    is_used: true
    shape: 3
    shape: -1
  }
}
pipe_command: "cat"
thread_num: 3
"""
    assert desc.desc() == expected
    with pytest.raises(KeyError, match="nowhere"):
        desc.set_use_slots(["nowhere"])
    with pytest.raises(FileNotFoundError, match="nowhere.prototxt"):
        fluid.DataFeedDesc(str(tmp_path / "nowhere.prototxt"))
    other = fluid.DataFeedDesc(write(tmp_path / "b.prototxt", 'name: "Other"'))
    with pytest.raises(ValueError, match="Only MultiSlotDataFeed needs set_dense_slots, please"):
        other.set_dense_slots(["words"])
    message = '1:10 : Message type "paddle.framework.DataFeedDesc" has no field named "b".'
    with pytest.raises(ValueError, match=message):
        fluid.DataFeedDesc(write(tmp_path / "c.prototxt", "name:'a' b: 3"))


def test_parquet_is_read_by_columns(slots, tmp_path):
    file = os.path.join(HERE, "fixtures", "clicks.parquet")
    made = dataset(slots, [file], "paddlewheel parquet-reader na=0 x=price,small c=ids:id")
    (first, second, third) = made.batches()
    assert numpy.array(first["x"]).tolist() == [[0.5, 0.25], [1.25, 0.5]]
    assert first["c"].recursive_sequence_lengths() == [[2, 1]]
    assert numpy.array(first["c"]).ravel().tolist() == [7, 8, 0]
    assert numpy.array(third["c"]).ravel().tolist() == [10, 0, 11]
    made = dataset(slots, [file], "paddlewheel parquet-reader na=0 x=price,small c=text:id")
    with pytest.raises(RuntimeError, match="clicks.parquet, row 3, column `text`.*found `x`"):
        list(made.batches())
