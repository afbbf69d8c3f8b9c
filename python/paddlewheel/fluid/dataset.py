"""Datasets of text files."""

from ._not_yet import DATASETS, not_yet_class

DatasetBase = not_yet_class("DatasetBase", DATASETS)
InMemoryDataset = not_yet_class("InMemoryDataset", DATASETS)
QueueDataset = not_yet_class("QueueDataset", DATASETS)
FileInstantDataset = not_yet_class("FileInstantDataset", DATASETS)

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
            raise ValueError("datafeed class %s does not exist" % datafeed_class)
        return KINDS[datafeed_class]()
