"""Files made up to try programs with, where the real datasets are not at hand.

They have the layout of the real ones, so that the same code reads them, hold far fewer samples, and
are the same on every machine. A model of them says nothing about the real data, so they
are used only on request: by `use()`, or by PADDLE_DATASET_SYNTHETIC=1.
"""

import gzip
import io
import os
import pickle
import sys
import tarfile
import uuid
import zipfile

import numpy

SEED = 20180301


def idx(magic, array):
    """The bytes of an IDX file."""
    head = numpy.array([magic, *array.shape], ">i4").tobytes()
    return gzip.compress(head + array.astype(numpy.uint8).tobytes(), mtime=0)


def digits(n, part):
    """Pictures that differ by class, with noise; and their labels."""
    classes = numpy.random.RandomState(SEED).randint(0, 256, (10, 28, 28))
    rng = numpy.random.RandomState(SEED + part)
    labels = rng.randint(0, 10, n)
    noise = rng.randint(-40, 41, (n, 28, 28))
    return numpy.clip(classes[labels] + noise, 0, 255), labels


def archive(files):
    """The bytes of a compressed tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def sentences(rng, n):
    """Lines of words, of which few are frequent."""
    words = numpy.minimum(rng.zipf(1.5, (n, 12)), 300)
    return [" ".join("w%d" % word for word in line) for line in words]


def imikolov():
    """`simple-examples.tgz`."""
    rng = numpy.random.RandomState(SEED)
    parts = (("train", 2000), ("valid", 200))
    files = (("\n".join(sentences(rng, n)) + "\n", name) for name, n in parts)
    return archive(
        ("./simple-examples/data/ptb.%s.txt" % name, text.encode()) for text, name in files
    )


def imdb():
    """`aclImdb_v1.tar.gz`: words of praise are not words of blame."""
    rng = numpy.random.RandomState(SEED)
    files = []
    for part in ("train", "test"):
        for kind in ("pos", "neg"):
            for number, line in enumerate(sentences(rng, 200)):
                text = "{} {} film".format(line, "good" if kind == "pos" else "bad")
                files.append(("aclImdb/%s/%s/%d_0.txt" % (part, kind, number), text.encode()))
    return archive(files)


def movielens():
    """`ml-1m.zip`: ratings depend on user and film."""
    rng = numpy.random.RandomState(SEED)
    kinds = ("Action", "Comedy", "Drama", "Horror", "Romance", "Thriller")
    n_users, n_films = 200, 150
    films = (
        "{}::Film w{} ({})::{}|{}\n".format(
            number, number % 40, 1950 + number % 50, kinds[number % 6], kinds[number % 5]
        )
        for number in range(1, n_films + 1)
    )
    ages = (1, 18, 25, 35, 45, 50, 56)
    users = (
        "{}::{}::{}::{}::00000\n".format(number, "MF"[number % 2], ages[number % 7], number % 21)
        for number in range(1, n_users + 1)
    )
    taste, worth = rng.rand(n_users + 1), rng.rand(n_films + 1)
    pairs = zip(rng.randint(1, n_users + 1, 10000), rng.randint(1, n_films + 1, 10000))
    ratings = (
        "{}::{}::{}::978300760\n".format(user, film, int(1 + 2 * taste[user] + 2.9 * worth[film]))
        for user, film in pairs
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        for name, lines in (("movies", films), ("users", users), ("ratings", ratings)):
            zipped.writestr(zipfile.ZipInfo("ml-1m/%s.dat" % name), "".join(lines))
    return out.getvalue()


def cifar(n_classes, names, key):
    """`cifar-10-python.tar.gz` and its larger sister."""
    classes = numpy.random.RandomState(SEED).randint(0, 256, (n_classes, 3072))
    files = []
    for part, name in enumerate(names):
        rng = numpy.random.RandomState(SEED + part)
        labels = rng.randint(0, n_classes, 500)
        noise = rng.randint(-40, 41, (500, 3072))
        data = numpy.clip(classes[labels] + noise, 0, 255).astype(numpy.uint8)
        files.append((name, pickle.dumps({b"data": data, key: labels.tolist()}, protocol=2)))
    return archive(files)


MAKERS = {
    "train-images-idx3-ubyte.gz": lambda: idx(2051, digits(6000, 1)[0]),
    "train-labels-idx1-ubyte.gz": lambda: idx(2049, digits(6000, 1)[1]),
    "t10k-images-idx3-ubyte.gz": lambda: idx(2051, digits(1000, 2)[0]),
    "t10k-labels-idx1-ubyte.gz": lambda: idx(2049, digits(1000, 2)[1]),
    "imikolov%2Fsimple-examples.tgz": imikolov,
    "imdb%2FaclImdb_v1.tar.gz": imdb,
    "movielens%2Fml-1m.zip": movielens,
    "cifar-10-python.tar.gz": lambda: cifar(
        10, ["cifar-10-batches-py/data_batch_%d" % n for n in range(1, 6)]
        + ["cifar-10-batches-py/test_batch"], b"labels",
    ),
    "cifar-100-python.tar.gz": lambda: cifar(
        100, ["cifar-100-python/train", "cifar-100-python/test"], b"fine_labels"
    ),
}


_wanted = []


def use():
    """From now on every dataset that can be made up is."""
    _wanted.append(True)


def is_wanted():
    """Whether made-up data is requested."""
    return bool(_wanted) or os.environ.get("PADDLE_DATASET_SYNTHETIC", "0") not in ("", "0")


def make(path, folder):
    """The made-up file instead of this one, made if it is not there; None if it cannot be made up."""
    name = os.path.basename(path)
    if name not in MAKERS:
        return None
    made = os.path.join(folder, name)
    if not os.path.exists(made):
        os.makedirs(folder, exist_ok=True)
        part = "{}.{}.{}".format(made, os.getpid(), uuid.uuid4().hex)
        with open(part, "wb") as file:
            file.write(MAKERS[name]())
        os.replace(part, made)
    print("paddlewheel: made-up data, as asked for: {}".format(made), file=sys.stderr)
    return made
