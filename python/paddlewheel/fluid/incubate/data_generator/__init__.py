"""Programs between raw text and a dataset: lines in, slots out."""

import os
import sys

from paddlewheel import _core

_warned_of_hash = []


class DataGenerator:
    """Reads lines and writes samples. Override `generate_sample`."""

    _has_names_checked = False

    def __new__(cls, *args, **kwargs):
        warn_of_salted_hash()
        return super().__new__(cls)

    def __init__(self):
        self._proto_info = None
        self.batch_size_ = 32
        self._line_limit = None

    def _set_line_limit(self, line_limit):
        if not isinstance(line_limit, int):
            raise ValueError("line_limit%s must be in int type" % type(line_limit))
        if line_limit < 1:
            raise ValueError("line_limit can not less than 1")
        self._line_limit = line_limit

    def set_batch(self, batch_size):
        """How many samples `generate_batch` gets at once."""
        self.batch_size_ = batch_size

    def run_from_memory(self):
        """Writes the samples that `generate_sample(None)` makes."""
        self._write(self.generate_sample(None)())

    def run_from_stdin(self):
        """Writes the samples of each line of standard input."""
        self._write(sample for line in sys.stdin for sample in self.generate_sample(line)())

    def _write(self, samples):
        batch = []
        for sample in samples:
            if sample is None:
                continue
            batch.append(sample)
            if len(batch) == self.batch_size_:
                self._write_batch(batch)
                batch = []
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch):
        for sample in self.generate_batch(batch)():
            sys.stdout.write(self._gen_str(sample))

    def _gen_str(self, line):
        """A sample as text."""
        raise NotImplementedError(
            "pls use MultiSlotDataGenerator or PairWiseDataGenerator"
        )

    def _check_names(self, slots):
        """ValueError if the dataset that this process works for has these slots in another order."""
        if not self._has_names_checked:
            self._has_names_checked = True
            _core.check_slot_names([str(name) for name, _ in slots])

    def generate_sample(self, line):
        """Override: a function that yields the samples of a line."""
        raise NotImplementedError(
            "Please rewrite this function to return a list or tuple: "
            "[(name, [feasign, ...]), ...] or ((name, [feasign, ...]), ...)"
        )

    def generate_batch(self, samples):
        """Override to change samples batch by batch."""
        return lambda: iter(samples)


class MultiSlotStringDataGenerator(DataGenerator):
    """Slots of strings, written as they are."""

    def _gen_str(self, line):
        """`count value …` for each slot."""
        slots = slots_of(line)
        self._check_names(slots)
        words = []
        for _, elements in slots:
            words.append(str(len(elements)))
            words.extend(elements)
        return " ".join(words) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """Slots of numbers; the first sample fixes their names and types."""

    def _gen_str(self, line):
        """`count value …` for each slot."""
        slots = slots_of(line)
        for name, elements in slots:
            check_slot(name, elements)
        self._check_names(slots)
        if self._proto_info is None:
            self._proto_info = [(name, "uint64") for name, _ in slots]
        elif len(slots) != len(self._proto_info):
            raise ValueError("the complete field set of two given line are inconsistent.")
        words = []
        for index, (name, elements) in enumerate(slots):
            self._learn(index, name, elements)
            words.append(str(len(elements)))
            words.extend(map(str, elements))
        return " ".join(words) + "\n"

    def _learn(self, index, name, elements):
        known, _ = self._proto_info[index]
        if name != known:
            raise ValueError(
                "the field name of two given line are not match: require<%s>, get<%s>."
                % (known, name)
            )
        for element in elements:
            if isinstance(element, float):
                self._proto_info[index] = (name, "float")
            elif not isinstance(element, int):
                raise ValueError(
                    "the type of element%s must be in int or float" % type(element)
                )


def warn_of_salted_hash():
    """Says once that `hash` differs from process to process, which generators make ids with."""
    is_salted = sys.flags.hash_randomization and not os.environ.get("PYTHONHASHSEED")
    if is_salted and not _warned_of_hash:
        _warned_of_hash.append(True)
        print(
            "paddlewheel: Python's hash() of texts is another one in every process, so ids that a "
            "data generator makes with it here fit no other process and no saved model. Set "
            "PYTHONHASHSEED=0 before Python starts, or start the script by `paddlewheel run`.",
            file=sys.stderr,
        )


def slots_of(line):
    """The slots of a sample: any iterable but text."""
    if isinstance(line, (str, bytes)) or not hasattr(line, "__iter__"):
        raise ValueError("the output of process() must be in list or tuple type")
    return list(line)


def check_slot(name, elements):
    """ValueError unless it is a name and a list with something in it."""
    if not isinstance(name, str):
        raise ValueError("name%s must be in str type" % type(name))
    if not isinstance(elements, list):
        raise ValueError("elements%s must be in list type" % type(elements))
    if not elements:
        raise ValueError(
            "the elements of each field can not be empty, you need padding it in process()."
        )
