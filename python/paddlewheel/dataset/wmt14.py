"""Sentences in French and English, in the layout of `wmt14.tgz`: lines of two sentences with a tab between them, and
one dictionary for each language."""

import itertools
import tarfile

from . import common

URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"

START = "<s>"
END = "<e>"
UNK = "<unk>"
#: The number of words that no dictionary has.
UNK_IDX = 2
#: Longer sentences are left out.
LENGTH_MAX = 80


def _archive():
    return common.download(URL_TRAIN, "wmt14", MD5_TRAIN)


def _numbers(archive, ending, dict_size):
    """The first words of the one dictionary with this ending, each with its line number."""
    found = [name for name in archive.getnames() if name.endswith(ending)]
    assert len(found) == 1, "the archive must have one file *" + ending
    lines = itertools.islice(archive.extractfile(found[0]), dict_size)
    return {line.strip().decode("utf-8"): number for number, line in enumerate(lines)}


def _dicts(path, dict_size):
    with tarfile.open(path) as archive:
        return tuple(_numbers(archive, part + ".dict", dict_size) for part in ("src", "trg"))


def reader_creator(tar_file, file_name, dict_size):
    """A reader of (source, target, target one word later) from the files whose names end so."""

    def reader():
        source, target = _dicts(tar_file, dict_size)
        with tarfile.open(tar_file) as archive:
            for name in [name for name in archive.getnames() if name.endswith(file_name)]:
                for line in archive.extractfile(name):
                    parts = line.decode("utf-8").strip().split("\t")
                    if len(parts) != 2:
                        continue
                    words = [START] + parts[0].split() + [END]
                    left = [source.get(word, UNK_IDX) for word in words]
                    right = [target.get(word, UNK_IDX) for word in parts[1].split()]
                    if len(left) <= LENGTH_MAX and len(right) <= LENGTH_MAX:
                        yield left, [target[START]] + right, right + [target[END]]

    return reader


def train(dict_size):
    """A reader of the training set."""
    return reader_creator(_archive(), "train/train", dict_size)


def test(dict_size):
    """A reader of the test set."""
    return reader_creator(_archive(), "test/test", dict_size)


def gen(dict_size):
    """A reader of the set for generating."""
    return reader_creator(_archive(), "gen/gen", dict_size)


def get_dict(dict_size, reverse=True):
    """The words of both languages by their numbers, or the numbers by the words."""
    dicts = _dicts(_archive(), dict_size)
    if reverse:
        return tuple({number: word for word, number in one.items()} for one in dicts)
    return dicts


def fetch():
    """Gets the file."""
    _archive()
