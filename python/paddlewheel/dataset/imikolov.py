"""Sentences of the Penn Treebank, in the layout of `simple-examples.tgz`."""

import collections
import tarfile

from . import common

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"

TRAIN = "./simple-examples/data/ptb.train.txt"
TEST = "./simple-examples/data/ptb.valid.txt"


class DataType:
    """The form of a sample: n words in a row, or a sentence and the same one word later."""

    NGRAM = 1
    SEQ = 2


def lines(archive, name):
    """The lines of a file in the archive, each as a list of words."""
    for line in archive.extractfile(name):
        yield line.decode("utf-8").strip().split()


def word_count(f, word_freq=None):
    """How often each word stands in the lines of a file; each line has a start and an end."""
    counts = collections.defaultdict(int) if word_freq is None else word_freq
    for line in f:
        text = line if isinstance(line, str) else line.decode("utf-8")
        for word in text.strip().split() + ["<s>", "<e>"]:
            counts[word] += 1
    return counts


def build_dict(min_word_freq=50):
    """The number of each word that is frequent enough; the last number is for all others."""
    with tarfile.open(common.download(URL, "imikolov", MD5)) as archive:
        counts = word_count(archive.extractfile(TEST), word_count(archive.extractfile(TRAIN)))
    counts.pop("<unk>", None)
    frequent = [(word, n) for word, n in counts.items() if n > min_word_freq]
    frequent.sort(key=lambda pair: (-pair[1], pair[0]))
    word_idx = {word: at for at, (word, _) in enumerate(frequent)}
    word_idx["<unk>"] = len(word_idx)
    return word_idx


def reader_creator(filename, word_idx, n, data_type):
    """A reader of one file of the archive."""
    path = common.download(URL, "imikolov", MD5)

    def numbers(words):
        return [word_idx.get(word, word_idx["<unk>"]) for word in words]

    def reader():
        with tarfile.open(path) as archive:
            for words in lines(archive, filename):
                if data_type == DataType.NGRAM:
                    assert n > -1, "Invalid gram length"
                    ids = numbers(["<s>"] + words + ["<e>"])
                    for end in range(n, len(ids) + 1):
                        yield tuple(ids[end - n:end])
                elif data_type == DataType.SEQ:
                    source, target = numbers(["<s>"] + words), numbers(words + ["<e>"])
                    if n <= 0 or len(source) <= n:
                        yield source, target
                else:
                    assert False, "Unknow data type"

    return reader


def train(word_idx, n, data_type=DataType.NGRAM):
    """A reader of the training set."""
    return reader_creator(TRAIN, word_idx, n, data_type)


def test(word_idx, n, data_type=DataType.NGRAM):
    """A reader of the validation set."""
    return reader_creator(TEST, word_idx, n, data_type)


def fetch():
    """Gets the file."""
    common.download(URL, "imikolov", MD5)
