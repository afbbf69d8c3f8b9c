"""Datasets of text files."""

import sys

from .. import _core


class DatasetBase(_core.Dataset):
    """Files and slots: told what to read, a dataset gives batches to `train_from_dataset`.

    A pipe command such as ``python reader.py`` gets each file on its standard input and prints a
    sample a line: for each variable of `set_use_var` the number of values, then the values.
    """

    KIND = None

    def __new__(cls):
        return super().__new__(cls, cls.KIND or cls.__name__, sys.executable)


class QueueDataset(DatasetBase):
    """Reads files while they are trained on, in little memory; nothing can be shuffled."""

    KIND = "QueueDataset"

    def global_shuffle(self, fleet=None):
        """Not possible: files are read as they come."""
        raise NotImplementedError(
            "QueueDataset does not support global shuffle, please use InMemoryDataset for "
            "global_shuffle"
        )


class FileInstantDataset(DatasetBase):
    """Another name for a dataset that is read while it is trained on."""

    KIND = "FileInstantDataset"

    def local_shuffle(self):
        """Not possible: files are read as they come."""
        raise NotImplementedError(
            "FileInstantDataset does not support local shuffle, please use InMemoryDataset for "
            "local_shuffle"
        )

    def global_shuffle(self, fleet=None):
        """Not possible: files are read as they come."""
        raise NotImplementedError(
            "FileInstantDataset does not support global shuffle, please use InMemoryDataset for "
            "global_shuffle"
        )


class InMemoryDataset(DatasetBase):
    """Loads files once; samples can be shuffled and trained on as often as wanted."""

    KIND = "InMemoryDataset"

    #: What a line has besides samples, as a script said it last.
    parse_ins_id = False
    parse_content = False

    def set_parse_ins_id(self, parse_ins_id):
        """Whether lines begin with the name of their sample."""
        super().set_parse_ins_id(parse_ins_id)
        self.parse_ins_id = parse_ins_id

    def set_parse_content(self, parse_content):
        """Whether lines have a text besides."""
        super().set_parse_content(parse_content)
        self.parse_content = parse_content

    def global_shuffle(self, fleet=None, thread_num=12):
        """Puts the samples of all trainers in random order; without a fleet, of this one."""
        self.shuffle_among(_native(fleet))

    def get_memory_data_size(self, fleet=None):
        """Samples in memory: of this trainer, or with a fleet of all."""
        return self.n_rows(_native(fleet))

    def get_shuffle_data_size(self, fleet=None):
        """Samples in memory after the last shuffle: of this trainer, or with a fleet of all."""
        return self.n_shuffled(_native(fleet))

    def set_queue_num(self, queue_num):
        """How many queues samples lie in. Ours lie in none, so nothing changes."""

    def set_fleet_send_batch_size(self, fleet_send_batch_size=1024):
        """How many samples trainers exchange at once."""
        self.set_n_per_exchange(fleet_send_batch_size)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds=0):
        """Pauses between exchanges. Ours need none, so nothing changes."""

    def set_merge_by_lineid(self, merge_size=2):
        """With the next global shuffle, samples of one name become one if there are so many."""
        self.set_merge(merge_size)


def _native(fleet):
    """The core of a fleet, which a module of version 2 has inside."""
    return None if fleet is None else getattr(fleet, "_fleet", fleet)._need()


KINDS = {
    "InMemoryDataset": InMemoryDataset,
    "QueueDataset": QueueDataset,
    "FileInstantDataset": FileInstantDataset,
}


class DatasetFactory:
    """Makes datasets by name."""

    def create_dataset(self, datafeed_class="QueueDataset"):
        """A dataset of the class of this name."""
        if datafeed_class not in KINDS:
            near = _core.did_you_mean(datafeed_class, list(KINDS))
            raise ValueError("datafeed class %s does not exist.%s" % (datafeed_class, near))
        return KINDS[datafeed_class]()
