"""What trainers exchange besides parameters."""

import numpy


class UtilBase:
    """Sums, gatherings and waits over all trainers, and the files of this one."""

    def __init__(self, fleet):
        self._fleet = fleet

    def all_reduce(self, input, mode="sum", comm_world="worker"):
        """Numbers of all trainers put together, place by place."""
        _only_workers(comm_world)
        if mode not in ("sum", "min", "max"):
            raise ValueError("mode is sum, min or max, not {}".format(mode))
        numbers = numpy.asarray(input)
        if self._fleet._alone:
            return numbers
        flat = [float(each) for each in numbers.reshape(-1)]
        whole = numpy.array(self._fleet._fleet._need().all_reduce_worker(flat, mode))
        return whole.astype(numbers.dtype).reshape(numbers.shape)

    def barrier(self, comm_world="worker"):
        """Waits for all trainers."""
        _only_workers(comm_world)
        self._fleet.barrier_worker()

    def all_gather(self, input, comm_world="worker"):
        """A number of each trainer, in the order of their ranks."""
        own = numpy.zeros(self._fleet.worker_num())
        own[self._fleet.worker_index()] = input
        whole = self.all_reduce(own, "sum", comm_world)
        return [type(input)(each) for each in whole]

    def get_file_shard(self, files):
        """The files that are this trainer's."""
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        return list(files) if self._fleet._alone else self._fleet._fleet.split_files(files)

    def print_on_rank(self, message, rank_id):
        """One trainer prints this."""
        if self._fleet.worker_index() == rank_id:
            print(message)


def _only_workers(comm_world):
    if comm_world != "worker":
        raise NotImplementedError("trainers exchange numbers, servers do not: comm_world must be 'worker'")
