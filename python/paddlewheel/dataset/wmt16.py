"""Sentences in English and German, in the layout of `wmt16.tar.gz`: lines of two sentences with a tab between them. The
dictionaries are made of the words of the training set."""

import collections
import os
import tarfile

from . import common

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"

#: No dictionary has more words.
TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
TOTALS = {"en": TOTAL_EN_WORDS, "de": TOTAL_DE_WORDS}

START_MARK = "<s>"
END_MARK = "<e>"
UNK_MARK = "<unk>"
MARKS = (START_MARK, END_MARK, UNK_MARK)


def _archive():
    return common.download(DATA_URL, "wmt16", DATA_MD5, "wmt16.tar.gz")


def _pairs(path, file_name):
    """The English and the German sentence of each line."""
    with tarfile.open(path) as archive:
        for line in archive.extractfile(file_name):
            parts = line.decode("utf-8").strip().split("\t")
            if len(parts) == 2:
                yield {"en": parts[0].split(), "de": parts[1].split()}


def _dict_path(lang, dict_size):
    return os.path.join(common.DATA_HOME, "wmt16", "%s_%d.dict" % (lang, dict_size))


def _words(tar_file, lang, dict_size):
    """The words of a dictionary in their order; it is kept beside the archive as Fluid does."""
    path = _dict_path(lang, dict_size)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            words = file.read().splitlines()
        if len(words) == dict_size:
            return words
    counts = collections.Counter()
    for pair in _pairs(tar_file, "wmt16/train"):
        counts.update(pair[lang])
    frequent = sorted(counts.items(), key=lambda item: item[1], reverse=True)
    words = [*MARKS, *(word for word, _ in frequent)][: max(dict_size, len(MARKS))]
    common.must_mkdirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(word + "\n" for word in words))
    return words


def _numbers(tar_file, lang, dict_size):
    return {word: number for number, word in enumerate(_words(tar_file, lang, dict_size))}


def reader_creator(tar_file, file_name, src_dict_size, trg_dict_size, src_lang):
    """A reader of (source, target, target one word later)."""
    trg_lang = "de" if src_lang == "en" else "en"

    def reader():
        source = _numbers(tar_file, src_lang, src_dict_size)
        target = _numbers(tar_file, trg_lang, trg_dict_size)
        start, end, unknown = (source[mark] for mark in MARKS)
        for pair in _pairs(tar_file, file_name):
            left = [source.get(word, unknown) for word in pair[src_lang]]
            right = [target.get(word, unknown) for word in pair[trg_lang]]
            yield [start] + left + [end], [start] + right, right + [end]

    return reader


def _reader(part, src_dict_size, trg_dict_size, src_lang):
    if src_lang not in TOTALS:
        raise ValueError(
            "An error language type. Only support: en (for English); de(for Germany)."
        )
    trg_lang = "de" if src_lang == "en" else "en"
    sizes = min(src_dict_size, TOTALS[src_lang]), min(trg_dict_size, TOTALS[trg_lang])
    return reader_creator(_archive(), "wmt16/" + part, *sizes, src_lang)


def train(src_dict_size, trg_dict_size, src_lang="en"):
    """A reader of the training set."""
    return _reader("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size, trg_dict_size, src_lang="en"):
    """A reader of the test set."""
    return _reader("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size, trg_dict_size, src_lang="en"):
    """A reader of the validation set."""
    return _reader("val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang, dict_size, reverse=False):
    """The numbers of the words of a language, or the words by their numbers."""
    numbers = _numbers(_archive(), lang, min(dict_size, TOTALS[lang]))
    return {number: word for word, number in numbers.items()} if reverse else numbers


def fetch():
    """Gets the file."""
    _archive()
