"""Sentences with the roles of their words, in the layout of the test set of CoNLL 2005: `conll05st-tests.tar.gz`."""

import gzip
import tarfile

from . import common

BASE = "http://paddlemodels.bj.bcebos.com/conll05st"
DATA_URL = BASE + "/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = BASE + "%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = BASE + "%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = BASE + "%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = BASE + "%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"

#: The number of words that the dictionary has not.
UNK_IDX = 0


def _file(url, md5):
    return common.download(url, "conll05st", md5)


def _lines(filename):
    with open(filename, encoding="utf-8") as file:
        return [line.strip() for line in file]


def load_dict(filename):
    """The number of each line."""
    return {line: number for number, line in enumerate(_lines(filename))}


def load_label_dict(filename):
    """The numbers of the labels: each role has one for its first word and one for the others. Fluid numbers roles in the
    order of a set, which changes from run to run; here it is the order of the file."""
    roles = [line[2:] for line in _lines(filename) if line.startswith(("B-", "I-"))]
    labels = [begin + role for role in dict.fromkeys(roles) for begin in ("B-", "I-")]
    return {label: number for number, label in enumerate([*labels, "O"])}


def _labels(column):
    """The labels of the words of a sentence, from brackets around them: `(A0*`, `*`, `*)`."""
    found, role, inside = [], "O", False
    for mark in column:
        if mark == "*":
            found.append("I-" + role if inside else "O")
        elif mark == "*)":
            found.append("I-" + role)
            inside = False
        elif "(" in mark:
            role = mark[1 : mark.find("*")]
            found.append("B-" + role)
            inside = ")" not in mark
        else:
            raise RuntimeError("Unexpected label: %s" % mark)
    return found


def _sentences(words_file, props_file):
    """The words of each sentence, and for each word its columns."""
    words, rows = [], []
    for word, row in zip(words_file, props_file):
        columns = row.decode("utf-8").split()
        if columns:
            words.append(word.decode("utf-8").strip())
            rows.append(columns)
        elif words:
            yield words, rows
            words, rows = [], []


def corpus_reader(data_path, words_name, props_name):
    """A reader of (words, verb, labels): one for each verb of each sentence."""

    def reader():
        with tarfile.open(data_path) as archive:
            files = [gzip.GzipFile(fileobj=archive.extractfile(name)) for name in (words_name, props_name)]
            for words, rows in _sentences(*files):
                verbs, *roles = zip(*rows)
                verbs = [verb for verb in verbs if verb != "-"]
                for verb, column in zip(verbs, roles):
                    yield words, verb, _labels(column)

    return reader


def reader_creator(corpus_reader, word_dict=None, predicate_dict=None, label_dict=None):
    """A reader of nine lists for each verb: words, the words around the verb (two before it, itself, two after it), the
    verb, marks of those places, and labels."""

    def reader():
        for sentence, predicate, labels in corpus_reader():
            at, n = labels.index("B-V"), len(sentence)
            around = range(at - 2, at + 3)
            mark = [int(place in around) for place in range(len(labels))]

            def word(place):
                if place < 0:
                    return "bos"
                return sentence[place] if place < len(labels) else "eos"

            context = [[word_dict.get(word(place), UNK_IDX)] * n for place in around]
            words = [word_dict.get(item, UNK_IDX) for item in sentence]
            roles = [label_dict.get(label) for label in labels]
            yield (words, *context, [predicate_dict.get(predicate)] * n, mark, roles)

    return reader


def get_dict():
    """The numbers of words, of verbs and of labels."""
    words = load_dict(_file(WORDDICT_URL, WORDDICT_MD5))
    verbs = load_dict(_file(VERBDICT_URL, VERBDICT_MD5))
    return words, verbs, load_label_dict(_file(TRGDICT_URL, TRGDICT_MD5))


def get_embedding():
    """The path of a table of words that was trained on Wikipedia."""
    return _file(EMB_URL, EMB_MD5)


def test():
    """A reader of the test set; the training set is not free."""
    folder = "conll05st-release/test.wsj/"
    reader = corpus_reader(
        _file(DATA_URL, DATA_MD5),
        words_name=folder + "words/test.wsj.words.gz",
        props_name=folder + "props/test.wsj.props.gz",
    )
    return reader_creator(reader, *get_dict())


def fetch():
    """Gets the files."""
    for url, md5 in (
        (WORDDICT_URL, WORDDICT_MD5),
        (VERBDICT_URL, VERBDICT_MD5),
        (TRGDICT_URL, TRGDICT_MD5),
        (EMB_URL, EMB_MD5),
        (DATA_URL, DATA_MD5),
    ):
        _file(url, md5)
