"""Loaders and samplers of Paddle 2.x: batches in the order of the real 2.6.2."""

import numpy
import pytest

from paddlewheel.io import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedBatchSampler,
    IterableDataset,
    RandomSampler,
    get_worker_info,
    random_split,
)


class Numbers(Dataset):
    def __init__(self, count, wrong=None):
        self.count, self.wrong = count, wrong

    def __getitem__(self, at):
        if at == self.wrong:
            raise ValueError("sample {} is damaged".format(at))
        return numpy.array([at], "int64"), numpy.float32(at)

    def __len__(self):
        return self.count


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        for at in range(6):
            if worker is None or at % worker.num_workers == worker.id:
                yield [numpy.array([at], "int64")]


def ids(loader):
    return [numpy.array(batch[0]).ravel().tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_samples_by_number(workers):
    loader = DataLoader(Numbers(7), batch_size=2, num_workers=workers)
    for _ in range(2):
        assert ids(loader()) == [[0, 1], [2, 3], [4, 5], [6]]
    assert len(loader) == 4 and len(DataLoader(Numbers(7), batch_size=2, drop_last=True)) == 3
    batch = next(iter(loader))
    assert [numpy.array(field).dtype for field in batch] == ["int64", "float32"]


@pytest.mark.parametrize("workers, wanted", [(0, [[0, 1], [2, 3], [4, 5]]), (2, [[0, 2], [1, 3], [4], [5]])])
def test_streams_take_turns(workers, wanted):
    assert ids(DataLoader(Stream(), batch_size=2, num_workers=workers)) == wanted


def test_shuffled_batches_are_the_same_in_all_workers():
    numpy.random.seed(1)
    seen = ids(DataLoader(Numbers(20), batch_size=3, shuffle=True, num_workers=2))
    assert sorted(sum(seen, [])) == list(range(20)) and sum(seen, []) != list(range(20))


@pytest.mark.parametrize("workers, kind", [(0, ValueError), (2, RuntimeError)])
def test_a_damaged_sample_ends_the_pass(workers, kind):
    with pytest.raises(kind, match="sample 3 is damaged"):
        list(DataLoader(Numbers(7, wrong=3), batch_size=2, num_workers=workers))


def test_trainers_share_batches():
    of = lambda rank, **options: list(DistributedBatchSampler(Numbers(11), 2, rank=rank, **options))
    assert of(0, num_replicas=2) == [[0, 1], [4, 5], [8, 9]]
    assert of(1, num_replicas=2) == [[2, 3], [6, 7], [10, 0]]
    assert of(2, num_replicas=3, drop_last=True) == [[4, 5], [10, 0]]
    sampler = DistributedBatchSampler(Numbers(7), 2, num_replicas=2, rank=0, shuffle=True)
    sampler.set_epoch(3)
    assert list(sampler) == [[5, 0], [3, 1]] and len(sampler) == 2


def test_samplers():
    assert list(BatchSampler(Numbers(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert len(BatchSampler(Numbers(5), batch_size=2, drop_last=True)) == 2
    assert sorted(RandomSampler(Numbers(4))) == [0, 1, 2, 3]
    parts = random_split(Numbers(5), [2, 3])
    assert sorted(int(part[at][0][0]) for part in parts for at in range(len(part))) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="positive"):
        BatchSampler(Numbers(5), batch_size=0)
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(Stream(), shuffle=True)


def test_feeds_by_name():
    loader = DataLoader(Numbers(2), feed_list=["a", "b"], return_list=False, batch_size=2)
    ((feed,),) = list(loader)
    assert sorted(feed) == ["a", "b"]
