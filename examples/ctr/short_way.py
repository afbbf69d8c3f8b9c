"""`paddlewheel.CTR` on real data that we may not pass on: Criteo's sample, Adult and MovieLens 100k.

    paddlewheel run short_way.py --data FOLDER [criteo] [adult] [movielens]

FOLDER holds criteo/train.txt.gz, adult/ and movielens-100k/ as their authors published them. docs/guides/ctr.md has
the figures.
"""

import argparse
import gzip
import os
import tempfile

import numpy

import paddlewheel as pw

ADULT = (
    "age workclass fnlwgt education education_num marital occupation relationship race sex gain loss "
    "hours country income"
).split()
ADULT_NUMBERS = {"age", "fnlwgt", "education_num", "gain", "loss", "hours"}


def lines_of(*path):
    path = os.path.join(*path)
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="latin-1")) as file:
        return file.read().splitlines()


def criteo(data, folder, n=None):
    """Writes the first nine tenths of the log and the rest to files of their own; returns both paths."""
    lines = lines_of(data, "criteo", "train.txt.gz")[:n]
    cut = len(lines) * 9 // 10
    paths = [os.path.join(folder, name) for name in ("train.txt", "test.txt")]
    for path, part in zip(paths, (lines[:cut], lines[cut:])):
        with open(path, "w") as file:
            file.write("\n".join(part) + "\n")
    return paths


def adult(data, name, n=None):
    """A table of the census, by columns."""
    rows = [line.rstrip(".").split(", ") for line in lines_of(data, "adult", name)]
    columns = zip(*[row for row in rows if len(row) == len(ADULT)][:n])
    kind = lambda name: "int64" if name in ADULT_NUMBERS else object
    return {name: numpy.array(values, dtype=kind(name)) for name, values in zip(ADULT, columns)}


def movielens(data, name):
    """Ratings with what is known of users and films, by columns."""
    folder = os.path.join(data, "movielens-100k")
    users = {row[0]: row for row in (line.split("|") for line in lines_of(folder, "u.user"))}
    films = {row[0]: row for row in (line.split("|") for line in lines_of(folder, "u.item"))}
    rows = [line.split() for line in lines_of(folder, name)]
    text = lambda values: numpy.array(list(values), dtype=object)
    return {
        "user_id": numpy.array([int(row[0]) for row in rows]),
        "film_id": numpy.array([int(row[1]) for row in rows]),
        "age": numpy.array([int(users[row[0]][1]) for row in rows]),
        "sex": text(users[row[0]][2] for row in rows),
        "occupation": text(users[row[0]][3] for row in rows),
        "year": text(films[row[1]][2][-4:] for row in rows),
        "genres": text("".join(films[row[1]][5:]) for row in rows),
        "rating": numpy.array([float(row[2]) for row in rows]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("which", nargs="*", default=["criteo", "adult", "movielens"])
    options = parser.parse_args()
    for seed in (1, 2, 3):
        if "criteo" in options.which:
            with tempfile.TemporaryDirectory() as folder:
                train, test = criteo(options.data, folder)
                m = pw.CTR(target="label", epochs=1, seed=seed, verbose=seed == 1).fit(train)
                print("criteo: seed %d, AUC %.5f" % (seed, m.auc(test)))
        if "adult" in options.which:
            m = pw.CTR(target="income", seed=seed, verbose=seed == 1).fit(adult(options.data, "adult.data"))
            print("adult: seed %d, AUC %.5f" % (seed, m.auc(adult(options.data, "adult.test"))))
        if "movielens" in options.which:
            m = pw.CTR(target="rating", loss="squared", seed=seed, verbose=seed == 1)
            m.fit(movielens(options.data, "u1.base"))
            print("movielens: seed %d, RMSE %.5f" % (seed, m.rmse(movielens(options.data, "u1.test"))))


if __name__ == "__main__":
    main()
