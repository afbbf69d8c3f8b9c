"""The pipe command of `train.py`: click logs on standard input, samples on standard output.

`paddlewheel criteo-reader N` makes the same samples many times faster.
"""

import sys

from paddle.fluid.incubate.data_generator import MultiSlotDataGenerator

LEAST = [0, -3] + [0] * 11
RANGE = [20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50]
NUMBERS = range(1, 14)
TEXTS = range(14, 40)
NAMES = ["dense_input"] + ["C%d" % slot for slot in range(1, 27)] + ["label"]


class CriteoReader(MultiSlotDataGenerator):
    """Label, 13 whole numbers and 26 texts, separated by tabs; any may be empty."""

    def __init__(self, n_ids):
        super().__init__()
        self.n_ids = n_ids

    def generate_sample(self, line):
        """The sample of a line."""

        def samples():
            fields = line.rstrip("\n").split("\t")
            numbers = [
                (float(fields[at]) - least) / width if fields[at] else 0.0
                for at, least, width in zip(NUMBERS, LEAST, RANGE)
            ]
            ids = [[hash(str(at) + fields[at]) % self.n_ids] for at in TEXTS]
            yield zip(NAMES, [numbers] + ids + [[int(fields[0])]])

        return samples


if __name__ == "__main__":
    CriteoReader(int(sys.argv[1])).run_from_stdin()
