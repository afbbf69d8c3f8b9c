"""Where the files of datasets are, and how they get there."""

import glob
import hashlib
import os
import pickle
import sys
import urllib.request
import uuid
import warnings

from . import synthetic

HOME = os.path.expanduser("~")
DATA_HOME = os.environ.get("PADDLE_DATASET_HOME") or os.path.join(
    HOME, ".cache", "paddle", "dataset"
)

ATTEMPTS_MAX = 3
TIMEOUT_S = 10


def must_mkdirs(path):
    """Makes a folder unless it is there."""
    os.makedirs(path, exist_ok=True)


def md5file(fname):
    """The MD5 sum of a file, in hexadecimal."""
    digest = hashlib.md5()
    with open(fname, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def path_of(url, module_name, save_name=None):
    """Where a file of a dataset belongs: as in Fluid the last part of its address, unchanged."""
    return os.path.join(DATA_HOME, module_name, save_name or url.split("/")[-1])


def names_of(path):
    """The names a file of a dataset may have: Fluid's, or without the escaped slash (`%2F`)."""
    folder, name = os.path.split(path)
    names = (name, name.replace("%2F", "_"), name.split("%2F")[-1])
    return [os.path.join(folder, name) for name in dict.fromkeys(names)]


def download(url, module_name, md5sum, save_name=None):
    """The path of a file of a dataset; it is fetched if it is not there.

    Made-up data stands in only on request: `paddle.dataset.synthetic.use()`, or the
    variable PADDLE_DATASET_SYNTHETIC.
    """
    path = path_of(url, module_name, save_name)
    if synthetic.is_wanted():
        made = synthetic.make(path, os.path.join(DATA_HOME, "synthetic", module_name))
        if made is not None:
            return made
    for found in filter(os.path.exists, names_of(path)):
        check_sum(found, url, md5sum)
        return found
    reason = None
    for _ in range(ATTEMPTS_MAX):
        try:
            return fetch(url, path, md5sum)
        except OSError as error:
            reason = error
    raise RuntimeError(
        "the dataset `{}` needs the file {}, which is not there and could not be fetched ({}). "
        "Get it from {} and put it there; another folder than {} can be named by "
        "PADDLE_DATASET_HOME. To try things with made-up data instead, set "
        "PADDLE_DATASET_SYNTHETIC=1 or call paddle.dataset.synthetic.use().".format(
            module_name, path, reason, url, DATA_HOME
        )
    )


def check_sum(path, url, md5sum):
    """Warns once if a file is not the one that Fluid knows: a part of it, or packed again."""
    if md5sum and md5file(path) != md5sum:
        warnings.warn(
            "{} is used, but it is not the file that Fluid knows: its MD5 sum is {}, not {}. "
            "If that is not meant, get the file from {}.".format(path, md5file(path), md5sum, url),
            stacklevel=4,
        )


def fetch(url, path, md5sum):
    """Fetches a file; it appears under its name only when it is complete and right."""
    must_mkdirs(os.path.dirname(path))
    print("paddlewheel: fetching {}".format(url), file=sys.stderr)
    part = "{}.{}.{}.part".format(path, os.getpid(), uuid.uuid4().hex)
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as source, open(part, "wb") as target:
        for piece in iter(lambda: source.read(1 << 20), b""):
            target.write(piece)
    if md5sum and md5file(part) != md5sum:
        os.remove(part)
        raise OSError("what came has another MD5 sum than {}".format(md5sum))
    os.replace(part, path)
    return path


def unsupported(module_name, folder, *urls):
    """The error of a dataset that this version does not read."""
    files = ", ".join(names_of(path_of(url, folder))[-1] for url in urls)
    return NotImplementedError(
        "paddle.dataset.{} is not read by this version of paddlewheel. Its files would be {}; "
        "a reader is a function that yields samples, so a few lines of Python can read "
        "them.".format(module_name, files)
    )


def split(reader, line_count, suffix="%05d.pickle", dumper=pickle.dump):
    """Writes the samples of a reader to files of `line_count` each."""
    if not callable(dumper):
        raise TypeError("dumper should be callable.")
    samples, index = [], 0
    for sample in reader():
        samples.append(sample)
        if len(samples) == line_count:
            write_samples(samples, suffix % index, dumper)
            samples, index = [], index + 1
    if samples:
        write_samples(samples, suffix % index, dumper)


def write_samples(samples, path, dumper):
    """One file of `split`."""
    with open(path, "wb") as file:
        dumper(samples, file)


def cluster_files_reader(files_pattern, trainer_count, trainer_id, loader=pickle.load):
    """A reader of every `trainer_count`-th file, for one of several trainers."""
    if not callable(loader):
        raise TypeError("loader should be callable.")

    def reader():
        for path in sorted(glob.glob(files_pattern))[trainer_id::trainer_count]:
            with open(path, "rb") as file:
                yield from loader(file)

    return reader
