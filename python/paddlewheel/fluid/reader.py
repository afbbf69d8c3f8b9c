"""Readers that run in a thread of their own and hand batches to the training loop."""

import itertools

import numpy

from .. import _batch
from .._channel import Channel
from . import core
from .data_feeder import DataFeeder
from .framework import Variable, default_main_program


def default_collate_fn(batch):
    """Samples of several arrays as a batch: one array for each, samples along a new first dimension."""
    if isinstance(batch[0], numpy.ndarray):
        return [numpy.stack(batch, axis=0)]
    return [numpy.stack(field, axis=0) for field in zip(*batch)]


class DataLoader:
    """Makes loaders; see `from_generator`."""

    @staticmethod
    def from_generator(
        feed_list=None,
        capacity=None,
        use_double_buffer=True,
        iterable=True,
        return_list=False,
        use_multiprocess=False,
        drop_last=True,
    ):
        """A loader that reads ahead at most `capacity` batches of a generator set on it."""
        return GeneratorLoader(
            feed_list, capacity, use_double_buffer, iterable, return_list, drop_last
        )

    @staticmethod
    def from_dataset(dataset, places, drop_last=True):
        """A loader over a dataset of files."""
        from ._not_yet import DATASETS, not_yet

        raise not_yet("DataLoader.from_dataset", DATASETS)


#: Whether batches of several places come in the order they were read: they always do.
KEEP_DATA_LOADER_ORDER = True


def keep_data_loader_order(*args):
    """Says whether batches come in order (they always do), or asks."""
    global KEEP_DATA_LOADER_ORDER
    if not args:
        return KEEP_DATA_LOADER_ORDER
    (KEEP_DATA_LOADER_ORDER,) = args
    assert isinstance(KEEP_DATA_LOADER_ORDER, bool), "a truth value"


class DataLoaderBase:
    """Common parts of loaders."""

    def __call__(self):
        return self

    def next(self):
        """The next batch."""
        return self.__next__()

    def __iter__(self):
        raise NotImplementedError()

    def __next__(self):
        raise NotImplementedError()


class FeedQueue:
    """Batches that a script pushes by hand, each a list of tensors."""

    def __init__(self, names, capacity):
        self._names = names
        self._channel = Channel(capacity)

    def push(self, tensors):
        """Adds a batch once there is room; False if the queue is closed."""
        tensors = [tensors[at] for at in range(len(tensors))]
        return self._channel.put(dict(zip(self._names, tensors)))

    def close(self):
        """Nothing more will come."""
        self._channel.end()

    def kill(self):
        """Forgets what was pushed."""
        self._channel.close()

    def size(self):
        """How many batches wait."""
        return len(self._channel.items)

    def __next__(self):
        return next(self._channel)


class GeneratorLoader(DataLoaderBase):
    """Reads batches in a thread.

    Iterable: a `for` loop gives the feeds. Not iterable: `start()`, run the program until it raises
    `EOFException`, `reset()`.
    """

    def __init__(
        self,
        feed_list=None,
        capacity=None,
        use_double_buffer=True,
        iterable=True,
        return_list=False,
        drop_last=True,
    ):
        if feed_list is None:
            raise Exception("Feed list must be given under static mode.")
        if capacity is None:
            raise ValueError("Please give value to capacity.")
        # One variable or its name is a list of one.
        one = isinstance(feed_list, (Variable, str))
        self._feed_list = [feed_list] if one else list(feed_list)
        self._capacity = capacity
        self._iterable = iterable
        self._return_list = return_list
        self._drop_last = drop_last
        self._feeds = None
        self._n_places = 1
        self._channel = None
        self._queue = None
        self._pass = None
        if not iterable:
            default_main_program()._attach_reader(self)

    @property
    def queue(self):
        """The batches that were read ahead of a generator; without one, the queue to which a script pushes batches."""
        if self._channel is not None:
            return self._channel
        if self._queue is None:
            names = [var.name if isinstance(var, Variable) else var for var in self._feed_list]
            self._queue = FeedQueue(names, self._capacity)
        return self._queue

    @property
    def queue_capacity(self):
        """How many batches are read ahead at most."""
        return self._capacity

    @property
    def iterable(self):
        """Whether a `for` loop gives the batches."""
        return self._iterable

    def set_sample_generator(self, reader, batch_size, drop_last=True, places=None):
        """Reads single samples; they are put together to batches."""
        assert batch_size > 0, "batch_size must be larger than 0"
        batches = _batch.batch(reader, batch_size=batch_size, drop_last=drop_last)
        return self.set_sample_list_generator(batches, places)

    def set_sample_list_generator(self, reader, places=None):
        """Reads lists of samples, as `paddle.batch` makes them."""
        feeder = DataFeeder(feed_list=self._feed_list, place=core.CPUPlace())
        return self._set(lambda: map(feeder.feed, reader()), places)

    def set_batch_generator(self, reader, places=None):
        """Reads batches: an array or tensor for each variable."""
        return self._set(lambda: map(self._feed_of_batch, reader()), places)

    def _set(self, feeds, places):
        if self._iterable:
            assert places is not None, "Places cannot be None when DataLoader is iterable"
            self._n_places = len(places) if isinstance(places, (list, tuple)) else 1
        self._feeds = feeds
        return self

    def _feed_of_batch(self, batch):
        if isinstance(batch, dict):
            return {name: as_tensor(value) for name, value in batch.items()}
        if not isinstance(batch, (list, tuple)):
            batch = [batch]
        if len(batch) != len(self._feed_list):
            raise ValueError(
                "a batch has {} fields but feed_list has {}".format(
                    len(batch), len(self._feed_list)
                )
            )
        names = [var.name if isinstance(var, Variable) else var for var in self._feed_list]
        return dict(zip(names, map(as_tensor, batch)))

    def __iter__(self):
        assert self._iterable, "DataLoader is not iterable"
        assert self._feeds is not None, "Data source of DataLoader has not set yet"
        return self._groups(Channel.read_ahead(self._feeds, self._capacity))

    def __next__(self):
        self._pass = self._pass or iter(self)
        try:
            return next(self._pass)
        except StopIteration:
            self._pass = None
            raise

    def __call__(self):
        return self.__iter__()

    def _groups(self, feeds):
        """Lists with one feed for each place."""
        while True:
            group = list(itertools.islice(feeds, self._n_places))
            if not group or (len(group) < self._n_places and self._drop_last):
                return
            yield [list(feed.values()) for feed in group] if self._return_list else group

    def start(self):
        """Begins a pass."""
        assert not self._iterable, "start() cannot be called when DataLoader is iterable"
        assert self._feeds is not None, "Data source of DataLoader has not set yet"
        assert self._channel is None, "reset() must be called before start() is called again"
        self._channel = Channel.of(self._feeds, self._capacity)

    def reset(self):
        """Ends a pass; batches that were read ahead are dropped."""
        assert not self._iterable, "reset() cannot be called when DataLoader is iterable"
        self._reset()

    def _reset(self):
        """Ends a pass that a loop left early; batches that were read ahead are dropped."""
        self._pass = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _take(self):
        """The feed of the next run; None between passes."""
        # A script with a generator pushes nothing by hand: a wait for that would never end.
        source = self._queue if self._feeds is None else self._channel
        if source is None:
            return None
        feed = next(source, None)
        if feed is None:
            raise core.EOFException("There is no next data.")
        return feed


def as_tensor(value):
    """An array or a tensor as a tensor."""
    if isinstance(value, core.LoDTensor):
        return value
    tensor = core.LoDTensor()
    tensor.set(numpy.asarray(value), core.CPUPlace())
    return tensor


class PyReader(GeneratorLoader):
    """The older names of a loader's methods."""

    def __init__(
        self,
        feed_list=None,
        capacity=None,
        use_double_buffer=True,
        iterable=True,
        return_list=False,
    ):
        super().__init__(feed_list, capacity, use_double_buffer, iterable, return_list)

    @property
    def _loader(self):
        return self

    def decorate_sample_generator(self, sample_generator, batch_size, drop_last=True, places=None):
        """Reads single samples; they are put together to batches."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader, places=None):
        """Reads lists of samples, as `paddle.batch` makes them."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader, places=None):
        """Reads batches: an array or tensor for each variable."""
        self.set_batch_generator(reader, places)

    @property
    def _loader(self):
        """The loader itself."""
        return self

    # The names of the oldest form, `fluid.layers.py_reader`.
    decorate_paddle_reader = decorate_sample_list_generator
    decorate_tensor_provider = decorate_batch_generator
