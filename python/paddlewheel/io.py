"""Datasets and loaders of version 2: samples become batches, in this process or in workers."""

import itertools
import math
import multiprocessing

import numpy

from ._channel import Channel
from .fluid.framework import Variable
from .fluid.reader import DataLoader as _Generators
from .fluid.reader import as_tensor


class Dataset:
    """Samples by number: override `__getitem__` and `__len__`."""

    def __getitem__(self, idx):
        raise NotImplementedError("'{}' not implement in class {}".format("__getitem__", type(self).__name__))

    def __len__(self):
        raise NotImplementedError("'{}' not implement in class {}".format("__len__", type(self).__name__))


class IterableDataset(Dataset):
    """Samples one after another: override `__iter__`."""

    def __iter__(self):
        raise NotImplementedError("'{}' not implement in class {}".format("__iter__", type(self).__name__))

    def __getitem__(self, idx):
        raise RuntimeError("'{}' should not be called for IterableDataset {}".format("__getitem__", type(self).__name__))

    def __len__(self):
        raise RuntimeError("'{}' should not be called for IterableDataset {}".format("__len__", type(self).__name__))


class TensorDataset(Dataset):
    """The rows of several arrays of equal length."""

    def __init__(self, tensors):
        self.tensors = [numpy.asarray(each) for each in tensors]
        if len({len(each) for each in self.tensors}) != 1:
            raise ValueError("tensors not have same shape of the 1st dimension")

    def __getitem__(self, index):
        return tuple(each[index] for each in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset):
    """Some samples of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, list(indices)

    def __getitem__(self, idx):
        return self.dataset[self.indices[idx]]

    def __len__(self):
        return len(self.indices)


class ChainDataset(IterableDataset):
    """Datasets one behind the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __iter__(self):
        return itertools.chain.from_iterable(self.datasets)


class Sampler:
    """Numbers of samples in an order: override `__iter__`."""

    def __init__(self, data_source=None):
        self.data_source = data_source

    def __iter__(self):
        raise NotImplementedError

    def __len__(self):
        return len(self.data_source)


class SequenceSampler(Sampler):
    """From the first to the last."""

    def __iter__(self):
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """In random order, or drawn again and again with `replacement`."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        super().__init__(data_source)
        if generator is not None:
            raise NotImplementedError("RandomSampler draws from numpy.random: seed that")
        self.replacement, self._num_samples = replacement, num_samples

    def __iter__(self):
        n, count = len(self.data_source), len(self)
        drawn = numpy.random.randint(0, n, count) if self.replacement else numpy.random.permutation(n)[:count]
        return iter(drawn.tolist())

    def __len__(self):
        return self._num_samples or len(self.data_source)


class BatchSampler(Sampler):
    """Lists of numbers of samples, each a batch."""

    def __init__(self, dataset=None, sampler=None, shuffle=False, batch_size=1, drop_last=False):
        if (dataset is None) == (sampler is None):
            raise ValueError("either dataset or sampler should be set")
        if not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError("batch_size should be a positive integer, but got {}".format(batch_size))
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        return _batches(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self):
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)


class DistributedBatchSampler(BatchSampler):
    """The batches of one of several trainers; all get equally many."""

    def __init__(self, dataset, batch_size, num_replicas=None, rank=None, shuffle=False, drop_last=False):
        from . import distributed

        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.nranks = distributed.get_world_size() if num_replicas is None else num_replicas
        self.local_rank = distributed.get_rank() if rank is None else rank
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self):
        order = numpy.arange(len(self.dataset)).tolist()
        order += order[: self.total_size - len(order)]
        if self.shuffle:
            numpy.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        # Trainers take turns batch by batch; what is left over is cut into equal parts.
        whole = self.total_size // (self.nranks * self.batch_size) * self.nranks * self.batch_size
        own = []
        for at in range(self.local_rank * self.batch_size, whole, self.nranks * self.batch_size):
            own.extend(order[at:at + self.batch_size])
        rest = order[whole:]
        part = len(rest) // self.nranks
        own.extend(rest[self.local_rank * part:(self.local_rank + 1) * part])
        return _batches(iter(own), self.batch_size, self.drop_last)

    def __len__(self):
        count = self.num_samples
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)

    def set_epoch(self, epoch):
        """The seed of the next order."""
        self.epoch = epoch


def _batches(items, size, drop_last):
    while True:
        batch = list(itertools.islice(items, size))
        if not batch or (drop_last and len(batch) < size):
            return
        yield batch


def default_collate_fn(batch):
    """Samples as arrays with one more axis in front, field by field."""
    first = batch[0]
    if isinstance(first, numpy.ndarray):
        return numpy.stack(batch)
    if isinstance(first, (bool, int, float, numpy.number)):
        return numpy.array(batch)
    if isinstance(first, dict):
        return {key: default_collate_fn([sample[key] for sample in batch]) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("fields number not same among samples in a mini-batch")
        return [default_collate_fn(field) for field in zip(*batch)]
    if isinstance(first, (str, bytes)):
        return batch
    raise TypeError("batch data can only contains: tensor, numpy.ndarray, dict, list, number, but got {}".format(type(first)))


class WorkerInfo:
    """Which of several workers this is, and what it reads."""

    def __init__(self, id, num_workers, dataset):
        self.id, self.num_workers, self.dataset, self.seed = id, num_workers, dataset, id


_worker = [None]


def get_worker_info():
    """In a worker of a loader, which one it is; else None."""
    return _worker[0]


class DataLoader:
    """Batches of a dataset: each a list with an array for each field of a sample."""

    from_generator = staticmethod(_Generators.from_generator)
    from_dataset = staticmethod(_Generators.from_dataset)

    def __init__(
        self, dataset, feed_list=None, places=None, return_list=True, batch_sampler=None, batch_size=1, shuffle=False,
        drop_last=False, collate_fn=None, num_workers=0, use_buffer_reader=True, prefetch_factor=2,
        use_shared_memory=True, timeout=0, worker_init_fn=None, persistent_workers=False,
    ):
        if not return_list and not feed_list:
            raise AssertionError("feed_list should be set when return_list=False")
        self.dataset, self.return_list = dataset, return_list
        self.feed_list = [var.name if isinstance(var, Variable) else var for var in feed_list or []]
        self.num_workers, self.collate_fn = int(num_workers), collate_fn or default_collate_fn
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self._ahead = max(2, int(prefetch_factor)) if use_buffer_reader else 0
        self.drop_last = drop_last
        self._streams = isinstance(dataset, IterableDataset)
        if self._streams:
            if shuffle or batch_sampler is not None:
                raise ValueError("IterableDataset not support shuffle and batch_sampler")
            self.batch_size, self.batch_sampler = batch_size, None
        elif batch_sampler is not None:
            if batch_size != 1 or shuffle or drop_last:
                raise AssertionError("batch_size/shuffle/drop_last should not be set when batch_sampler is given")
            self.batch_sampler, self.batch_size = batch_sampler, None
        else:
            self.batch_sampler = BatchSampler(dataset, None, shuffle, batch_size, drop_last) if batch_size else None
            self.batch_size = batch_size

    def __len__(self):
        if self._streams:
            raise ValueError("length of IterableDataset not supported")
        return len(self.batch_sampler) if self.batch_sampler is not None else len(self.dataset)

    def __call__(self):
        return iter(self)

    def __iter__(self):
        batches = self._from_workers() if self.num_workers > 0 else self._read()
        if self._ahead and self.num_workers == 0:
            batches = Channel.read_ahead(lambda: self._read(), self._ahead)
        return map(self._handed, batches)

    def _handed(self, batch):
        if isinstance(batch, dict):
            return {name: as_tensor(value) for name, value in batch.items()}
        batch = batch if isinstance(batch, (list, tuple)) else [batch]
        tensors = [each if isinstance(each, (list, dict)) else as_tensor(each) for each in batch]
        return tensors if self.return_list else [dict(zip(self.feed_list, tensors))]

    def _read(self, worker=0, step=1):
        """The batches of one worker of `step`; a stream is read whole by each."""
        if self._streams:
            if not self.batch_size:
                yield from self.dataset
                return
            for batch in _batches(iter(self.dataset), self.batch_size, self.drop_last):
                yield self.collate_fn(batch)
        elif self.batch_sampler is None:
            for at in range(worker, len(self.dataset), step):
                yield self.dataset[at]
        else:
            for indices in self._mine(worker, step):
                yield self.collate_fn([self.dataset[at] for at in indices])

    def _mine(self, worker, step):
        order = self._order if step > 1 else self.batch_sampler
        return itertools.islice(order, worker, None, step)

    def _from_workers(self):
        """The batches of workers in turn; processes are copies of this one."""
        count = self.num_workers
        # Workers must agree on a random order, so it is drawn before they begin.
        if not self._streams and self.batch_sampler is not None:
            self._order = list(self.batch_sampler)
        context = multiprocessing.get_context("fork")
        pipes = [context.Queue(2) for _ in range(count)]
        workers = [
            context.Process(target=self._work, args=(at, count, pipe), daemon=True) for at, pipe in enumerate(pipes)
        ]
        for worker in workers:
            worker.start()
        try:
            yield from self._collect(list(zip(workers, pipes)))
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join()

    def _collect(self, running):
        while running:
            for pair in list(running):
                kind, value = self._next(*pair)
                if kind == "end":
                    running.remove(pair)
                elif kind == "error":
                    raise RuntimeError("a worker of DataLoader failed: " + value)
                else:
                    yield value

    def _next(self, worker, pipe):
        import queue

        waited = 0.0
        while True:
            try:
                return pipe.get(timeout=1.0)
            except queue.Empty:
                waited += 1.0
                if not worker.is_alive() and pipe.empty():
                    raise RuntimeError("a worker of DataLoader died with code {}".format(worker.exitcode)) from None
                if self.timeout and waited >= self.timeout:
                    raise RuntimeError("a worker of DataLoader gave nothing for {} s".format(self.timeout)) from None

    def _work(self, at, count, pipe):
        import traceback

        _worker[0] = WorkerInfo(at, count, self.dataset)
        try:
            if self.worker_init_fn is not None:
                self.worker_init_fn(at)
            for batch in self._read(at, 1 if self._streams else count) if count > 1 or self._streams else self._read():
                pipe.put(("batch", batch))
            pipe.put(("end", None))
        except BaseException:
            pipe.put(("error", traceback.format_exc()))


def random_split(dataset, lengths, generator=None):
    """Random parts of a dataset of these sizes."""
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = numpy.random.permutation(len(dataset)).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - size:end]) for end, size in zip(ends, lengths)]
