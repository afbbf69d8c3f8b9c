"""Reviews of films with a judgement, in the layout of `aclImdb_v1.tar.gz`."""

import collections
import re
import string
import tarfile

from . import common

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"


def tokenize(pattern):
    """The words of each review whose path matches, in the order of the archive."""
    with tarfile.open(common.download(URL, "imdb", MD5)) as archive:
        for member in archive:
            if pattern.match(member.name):
                text = archive.extractfile(member).read().rstrip(b"\n\r")
                yield text.translate(None, string.punctuation.encode("latin-1")).lower().split()


def build_dict(pattern, cutoff):
    """The number of each word that is frequent enough; the last number is for all others."""
    counts = collections.Counter()
    for words in tokenize(pattern):
        counts.update(words)
    frequent = [(word, n) for word, n in counts.items() if n > cutoff]
    frequent.sort(key=lambda pair: (-pair[1], pair[0]))
    word_idx = {word: at for at, (word, _) in enumerate(frequent)}
    word_idx["<unk>"] = len(word_idx)
    return word_idx


def reader_creator(pos_pattern, neg_pattern, word_idx):
    """A reader of (word numbers, 0 for praise or 1 for blame); praise comes first."""
    unknown = word_idx["<unk>"]
    samples = []
    for pattern, label in ((pos_pattern, 0), (neg_pattern, 1)):
        for words in tokenize(pattern):
            samples.append(([word_idx.get(word, unknown) for word in words], label))
    return lambda: iter(samples)


def train(word_idx):
    """A reader of the training set."""
    patterns = (r"aclImdb/train/pos/.*\.txt$", r"aclImdb/train/neg/.*\.txt$")
    return reader_creator(*map(re.compile, patterns), word_idx)


def test(word_idx):
    """A reader of the test set."""
    patterns = (r"aclImdb/test/pos/.*\.txt$", r"aclImdb/test/neg/.*\.txt$")
    return reader_creator(*map(re.compile, patterns), word_idx)


def word_dict():
    """The number of each word that stands more than 150 times in the reviews."""
    return build_dict(re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"), 150)


def fetch():
    """Gets the file."""
    common.download(URL, "imdb", MD5)
