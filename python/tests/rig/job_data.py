"""The data of the job: the same on every machine, by arithmetic alone."""

import os

#: A quick machine needs longer jobs, or they are over before anything happens to them.
EPOCHS = int(os.environ.get("RIG_EPOCHS", "2"))
FILES, ROWS, BATCH = 4, 4000, 10
#: Samples of the whole job; each has a number of its own.
SAMPLES = EPOCHS * FILES * ROWS
VOCABULARY = 1000


def rows_of(epoch, part):
    """The samples of a file: ids, dense numbers, the sample's number, its label."""
    for row in range(ROWS):
        number = (epoch * FILES + part) * ROWS + row
        x = (number * 2654435761 + 12345) % (1 << 32)
        ids = [(x >> (3 * k)) % VOCABULARY for k in range(1 + x % 3)]
        dense = [((x >> (5 * k)) % 97) / 97 for k in range(4)]
        yield ids, dense, number, int(sum(ids) % 5 < 2)


def feed_of(samples):
    """A batch as `exe.run` takes it."""
    import numpy
    import paddle.fluid as fluid

    ids = numpy.concatenate([numpy.array(sample[0], "int64") for sample in samples])
    lengths = [[len(sample[0]) for sample in samples]]
    return {
        "ids": fluid.create_lod_tensor(ids.reshape(-1, 1), lengths, fluid.CPUPlace()),
        "dense": numpy.array([sample[1] for sample in samples], "float32"),
        "number": numpy.array([[sample[2]] for sample in samples], "int64"),
        "label": numpy.array([[sample[3]] for sample in samples], "int64"),
    }


def write(folder, only_numbers):
    """The files of the job, and the command that a pipe runs."""
    for epoch in range(EPOCHS):
        os.makedirs(os.path.join(folder, "data", str(epoch)), exist_ok=True)
        for part in range(FILES):
            with open(os.path.join(folder, "data", str(epoch), "part-%d" % part), "w") as file:
                for sample in rows_of(epoch, part):
                    file.write(line(sample, only_numbers))
    with open(os.path.join(folder, "filter.py"), "w") as file:
        file.write("import sys\nfor line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()\n")


def line(sample, only_numbers):
    ids, dense, number, label = sample
    if only_numbers:
        return "1 %d\n" % number
    slots = [ids, dense, [number], [label]]
    return " ".join("%d %s" % (len(slot), " ".join(map(repr, slot))) for slot in slots) + "\n"
