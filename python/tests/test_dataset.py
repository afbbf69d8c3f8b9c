"""Well-known datasets in their original layout; tiny files made here."""

import gzip
import io
import pickle
import tarfile
import unittest.mock
import zipfile

import numpy as np
import pytest

import paddlewheel as paddle


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder for datasets, without a network."""

    def no_network(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(paddle.dataset.common, "DATA_HOME", str(tmp_path))
    monkeypatch.setattr(paddle.dataset.common.urllib.request, "urlopen", no_network)
    return tmp_path


@pytest.fixture
def unchecked(monkeypatch):
    """Files made by a test are as good as Fluid's."""
    monkeypatch.setattr(paddle.dataset.common, "md5file", lambda path: unittest.mock.ANY)


def add(archive, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def test_uci_housing_is_shipped():
    train = list(paddle.dataset.uci_housing.train()())
    test = list(paddle.dataset.uci_housing.test()())
    assert (len(train), len(test)) == (404, 102)
    features = np.array([x for x, _ in train + test])
    assert features.shape == (506, 13) and features.dtype == np.float64
    assert np.abs(features.mean(axis=0)).max() < 1e-9
    assert np.allclose(features.max(axis=0) - features.min(axis=0), 1)
    assert train[0][1].tolist() == [24.0]


def test_a_missing_file_is_named(home):
    with pytest.raises(RuntimeError) as error:
        paddle.dataset.common.download("http://nowhere/some.tgz", "mnist", None)
    text = str(error.value)
    assert str(home / "mnist" / "some.tgz") in text
    assert "PADDLE_DATASET_HOME" in text and "no network" in text
    with pytest.raises(NotImplementedError, match="mq2007"):
        paddle.dataset.mq2007.train()


def test_nothing_is_made_up_unless_somebody_asks(home, monkeypatch):
    monkeypatch.setattr(paddle.dataset.movielens, "MOVIE_INFO", None)
    needed = {
        "mnist/train-images-idx3-ubyte.gz": paddle.dataset.mnist.train,
        "movielens/movielens%2Fml-1m.zip": paddle.dataset.movielens.train,
        "imikolov/imikolov%2Fsimple-examples.tgz": paddle.dataset.imikolov.build_dict,
        "imdb/imdb%2FaclImdb_v1.tar.gz": paddle.dataset.imdb.word_dict,
        "cifar/cifar-10-python.tar.gz": paddle.dataset.cifar.train10,
        "cifar/cifar-100-python.tar.gz": paddle.dataset.cifar.test100,
    }
    for file, read in needed.items():
        with pytest.raises(RuntimeError) as error:
            read()
        assert str(home / file) in str(error.value), "Fluid's file name"
        assert "PADDLE_DATASET_SYNTHETIC=1" in str(error.value)


def test_a_file_that_fluid_does_not_know_is_named(home):
    (home / "imdb").mkdir()
    path = home / "imdb" / "imdb%2FaclImdb_v1.tar.gz"
    path.write_bytes(b"half of it")
    with pytest.warns(UserWarning) as said, pytest.raises(tarfile.ReadError):
        paddle.dataset.imdb.word_dict()
    text = str(said[0].message)
    assert str(path) in text and paddle.dataset.imdb.MD5 in text and paddle.dataset.imdb.URL in text
    assert path.read_bytes() == b"half of it", "nobody's file is written over"


def test_names_fluids_folders(home):
    with pytest.raises(RuntimeError, match="conll05st/conll05st-tests.tar.gz"):
        paddle.dataset.conll05.test()
    with pytest.raises(NotImplementedError, match="corpora/movie_reviews.zip"):
        paddle.dataset.sentiment.train()


@pytest.mark.parametrize("how", ["variable", "function"])
def test_made_up_data_stands_in_when_asked_for(home, monkeypatch, capsys, how):
    monkeypatch.setattr(paddle.dataset.movielens, "MOVIE_INFO", None)
    monkeypatch.setattr(paddle.dataset.synthetic, "_wanted", [])
    if how == "variable":
        monkeypatch.setenv("PADDLE_DATASET_SYNTHETIC", "1")
    else:
        paddle.dataset.synthetic.use()
    pixels, label = next(paddle.dataset.mnist.train()())
    assert pixels.shape == (784,) and pixels.dtype == np.float32 and 0 <= label < 10
    made = home / "synthetic" / "mnist" / "train-images-idx3-ubyte.gz"
    assert "made-up data, as asked for: {}".format(made) in capsys.readouterr().err
    again = next(paddle.dataset.mnist.train()())
    assert again[1] == label and np.array_equal(again[0], pixels)
    assert len(list(paddle.dataset.mnist.test()())) == 1000
    assert len(next(paddle.dataset.movielens.train()())) == 8
    words = paddle.dataset.imikolov.build_dict(5)
    assert len(next(paddle.dataset.imikolov.train(words, 4)())) == 4
    reviews = paddle.dataset.imdb.word_dict()
    assert {label for _, label in paddle.dataset.imdb.train(reviews)()} == {0, 1}
    for reader in (paddle.dataset.cifar.train10, paddle.dataset.cifar.test100):
        pixels, label = next(reader()())
        assert pixels.shape == (3072,) and 0 <= label < 100


def test_mnist(home, unchecked):
    (home / "mnist").mkdir()
    pixels = np.zeros((2, 28, 28), np.uint8)
    pixels[1] = 255
    images = np.array([2051, 2, 28, 28], ">i4").tobytes() + pixels.tobytes()
    labels = np.array([2049, 2], ">i4").tobytes() + bytes([7, 3])
    for part in ("train", "t10k"):
        with gzip.open(home / "mnist" / (part + "-images-idx3-ubyte.gz"), "wb") as file:
            file.write(images)
        with gzip.open(home / "mnist" / (part + "-labels-idx1-ubyte.gz"), "wb") as file:
            file.write(labels)
    samples = list(paddle.dataset.mnist.train()())
    assert [label for _, label in samples] == [7, 3]
    assert samples[0][0].tolist() == [-1.0] * 784 and samples[1][0].tolist() == [1.0] * 784
    assert samples[0][0].dtype == np.float32
    assert len(list(paddle.dataset.mnist.test()())) == 2


def test_movielens(home, unchecked, monkeypatch):
    monkeypatch.setattr(paddle.dataset.movielens, "MOVIE_INFO", None)
    (home / "movielens").mkdir()
    with zipfile.ZipFile(home / "movielens" / "movielens%2Fml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/movies.dat", "1::Toy Story (1995)::Animation|Comedy\n")
        archive.writestr("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n")
        rows = "".join("%d::1::%d::978300760\n" % (n % 2 + 1, n % 5 + 1) for n in range(100))
        archive.writestr("ml-1m/ratings.dat", rows)
    movielens = paddle.dataset.movielens
    train, test = list(movielens.train()()), list(movielens.test()())
    assert len(train) + len(test) == 100 and len(test) < 30
    assert train[0][:4] in ([1, 1, 0, 10], [2, 0, 6, 16])
    assert train[0][4:7] == [1, [0, 1], [1, 0]]
    assert -3.0 <= train[0][7][0] <= 5.0
    assert movielens.max_user_id() == 2 and movielens.max_job_id() == 16
    assert movielens.movie_categories() == {"Animation": 0, "Comedy": 1}


def test_imikolov(home, unchecked):
    (home / "imikolov").mkdir()
    with tarfile.open(home / "imikolov" / "simple-examples.tgz", "w:gz") as archive:
        add(archive, "./simple-examples/data/ptb.train.txt", b"a b a\nb a c\n")
        add(archive, "./simple-examples/data/ptb.valid.txt", b"a b\n")
    imikolov = paddle.dataset.imikolov
    words = imikolov.build_dict(1)
    assert words == {"a": 0, "<e>": 1, "<s>": 2, "b": 3, "<unk>": 4} or words["<unk>"] == 4
    grams = list(imikolov.train(words, 2)())
    assert len(grams) == 8 and all(len(gram) == 2 for gram in grams)
    assert grams[0] == (words["<s>"], words["a"]) and grams[6] == (words["a"], 4)
    source, target = next(iter(imikolov.test(words, -1, imikolov.DataType.SEQ)()))
    assert source[1:] == target[:-1]


def test_imdb(home, unchecked):
    (home / "imdb").mkdir()
    with tarfile.open(home / "imdb" / "imdb%2FaclImdb_v1.tar.gz", "w:gz") as archive:
        add(archive, "aclImdb/train/pos/0_9.txt", b"Good, good film!\n")
        add(archive, "aclImdb/train/neg/0_1.txt", b"bad film")
    import re

    words = paddle.dataset.imdb.build_dict(re.compile("aclImdb/train"), 0)
    assert words == {b"film": 0, b"good": 1, b"bad": 2, "<unk>": 3}
    assert list(paddle.dataset.imdb.train(words)()) == [([1, 1, 0], 0), ([2, 0], 1)]


def test_cifar(home, unchecked):
    (home / "cifar").mkdir()
    batch = {b"data": np.full((2, 3072), 255, np.uint8), b"labels": [3, 4]}
    with tarfile.open(home / "cifar" / "cifar-10-python.tar.gz", "w:gz") as archive:
        add(archive, "cifar-10-batches-py/data_batch_1", pickle.dumps(batch))
    samples = list(paddle.dataset.cifar.train10()())
    assert [label for _, label in samples] == [3, 4] and samples[0][0].max() == 1.0


def archive_of(path, files):
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            add(archive, name, content.encode("utf-8") if isinstance(content, str) else content)


# The numbers of the next three are those of the real Fluid 1.8.5 for the same archives.


def test_wmt14(home, unchecked):
    files = {
        "wmt14/src.dict": "<s>\n<e>\n<unk>\nle\nchat\ndort\n",
        "wmt14/trg.dict": "<s>\n<e>\n<unk>\nthe\ncat\n",
        "wmt14/train/train": "le chat dort\tthe cat sleeps\nno pair\nle\tthe\n" + "x " * 90 + "\ty\n",
        "wmt14/test/test": "chat\tcat\n",
    }
    archive_of(home / "wmt14" / "wmt14.tgz", files)
    wmt14 = paddle.dataset.wmt14
    assert list(wmt14.train(6)()) == [
        ([0, 3, 4, 5, 1], [0, 3, 4, 2], [3, 4, 2, 1]),
        ([0, 3, 1], [0, 3], [3, 1]),
    ]
    assert list(wmt14.test(4)()) == [([0, 2, 1], [0, 2], [2, 1])]
    assert wmt14.get_dict(4)[0] == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "le"}


def test_wmt16(home, unchecked):
    files = {
        "wmt16/train": "the cat the dog\tdie Katze süß\nthe cat\tdie Katze\n",
        "wmt16/test": "a cat\tdie x\n",
    }
    archive_of(home / "wmt16" / "wmt16.tar.gz", files)
    wmt16 = paddle.dataset.wmt16
    assert list(wmt16.train(5, 5)())[0] == ([0, 3, 4, 3, 2, 1], [0, 3, 4, 2], [3, 4, 2, 1])
    assert list(wmt16.test(5, 6, "de")()) == [([0, 3, 2, 1], [0, 2, 4], [2, 4, 1])]
    assert wmt16.get_dict("de", 5, reverse=True)[3] == "die"
    with pytest.raises(ValueError, match="Only support"):
        wmt16.train(5, 5, "fr")


def test_conll05(home, unchecked):
    folder = "conll05st-release/test.wsj/"
    words = b"The\ncat\nsat\ndown\n\nHe\nran\n\n"
    roles = b"- (A0* (A1*\n- *) *)\nsit (V*) *\ngo * (V*)\n\n- (A0*)\nrun (V*)\n\n"
    files = {
        folder + "words/test.wsj.words.gz": gzip.compress(words),
        folder + "props/test.wsj.props.gz": gzip.compress(roles),
    }
    archive_of(home / "conll05st" / "conll05st-tests.tar.gz", files)
    dicts = {
        "wordDict.txt": "<unk>\nThe\ncat\nsat\nbos\neos\n",
        "verbDict.txt": "sit\ngo\nrun\n",
        "targetDict.txt": "B-A0\nI-A0\nB-A1\nI-A1\nB-V\nI-V\n",
    }
    for name, text in dicts.items():
        (home / "conll05st" / ("conll05st%2F" + name)).write_text(text)
    first, second, third = paddle.dataset.conll05.test()()
    assert first[0] == [1, 2, 3, 0] and first[6] == [0] * 4
    assert [context[0] for context in first[1:6]] == [1, 2, 3, 0, 5]
    assert (first[7], first[8]) == ([1, 1, 1, 1], [0, 1, 4, 6])
    assert (second[7], second[8]) == ([0, 1, 1, 1], [2, 3, 6, 4])
    assert [context[0] for context in third[1:6]] == [4, 0, 0, 5, 5]
