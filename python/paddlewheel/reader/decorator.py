"""Makes readers of readers."""

import itertools
import random
import threading

from .._channel import Channel


def cache(reader):
    """Reads once and keeps all samples in memory."""
    samples = tuple(reader())
    return lambda: iter(samples)


def map_readers(func, *readers):
    """A reader of `func(a, b, …)`, one argument from each reader."""
    return lambda: map(func, *(reader() for reader in readers))


def shuffle(reader, buf_size):
    """Fills a buffer, shuffles it, gives it out; the rest at the end is shuffled too."""

    return lambda: shuffled_of(reader, buf_size)


def shuffled_of(reader, buf_size):
    """The samples of a reader, shuffled in pieces of `buf_size`."""
    samples = iter(reader())
    while True:
        buffer = list(itertools.islice(samples, max(buf_size, 1)))
        if not buffer:
            return
        random.shuffle(buffer)
        yield from buffer


def chain(*readers):
    """All samples of the first reader, then of the second, …"""
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


class ComposeNotAligned(ValueError):
    """Readers that are composed have different lengths."""


def compose(*readers, **kwargs):
    """A reader of tuples: the fields of one sample of each reader, side by side."""
    check_alignment = kwargs.pop("check_alignment", True)
    if kwargs:
        raise TypeError("compose has no argument " + ", ".join(sorted(kwargs)))
    end = object()

    def as_tuple(sample):
        return sample if isinstance(sample, tuple) else (sample,)

    def reader():
        sources = [reader() for reader in readers]
        if not check_alignment:
            for samples in zip(*sources):
                yield sum(map(as_tuple, samples), ())
            return
        for samples in itertools.zip_longest(*sources, fillvalue=end):
            if any(sample is end for sample in samples):
                raise ComposeNotAligned("outputs of readers are not aligned.")
            yield sum(map(as_tuple, samples), ())

    return reader


def firstn(reader, n):
    """The first `n` samples."""
    return lambda: itertools.islice(reader(), n)


def buffered(reader, size):
    """Reads ahead in a thread, at most `size` samples."""
    return lambda: Channel.read_ahead(reader, size)


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """Applies `mapper` in `process_num` threads; keeps the order of samples if asked to."""

    def mapped():
        todo = Channel(buffer_size)
        done = Channel(buffer_size)
        turn = Turn()

        def feed():
            for numbered in enumerate(reader()):
                if not todo.put(numbered):
                    return

        def work():
            for number, sample in todo:
                result = mapper(sample)
                if order and not turn.wait(number, done):
                    return
                if not done.put(result):
                    return
                turn.next()

        todo.fill_from(feed)
        left = Countdown(process_num, done)
        for _ in range(process_num):
            threading.Thread(target=left.run, args=(work, todo), daemon=True).start()
        try:
            yield from done
        finally:
            todo.close()
            done.close()
            turn.release()

    return mapped


class Turn:
    """Lets threads hand out results in the order of their samples."""

    def __init__(self):
        self.changed = threading.Condition()
        self.number = 0
        self.released = False

    def wait(self, number, done):
        """Waits until it is a sample's turn; False if the result is not wanted."""
        with self.changed:
            self.changed.wait_for(lambda: self.released or self.number == number)
            return not self.released

    def next(self):
        """Gives the turn to the next sample."""
        with self.changed:
            self.number += 1
            self.changed.notify_all()

    def release(self):
        """Lets all threads go."""
        with self.changed:
            self.released = True
            self.changed.notify_all()


class Countdown:
    """Ends a channel when the last of its threads is done, or as soon as one fails."""

    def __init__(self, n_threads, channel):
        self.lock = threading.Lock()
        self.n_threads = n_threads
        self.channel = channel

    def run(self, work, todo):
        """Does the work of one thread."""
        try:
            work()
        except BaseException as error:  # The thread that reads must see it, whatever it is.
            todo.close()
            self.channel.fail(error)
            return
        with self.lock:
            self.n_threads -= 1
            if self.n_threads == 0:
                self.channel.end()


def multiprocess_reader(readers, use_pipe=True, queue_size=1000):
    """Runs each reader in a process of its own; samples come as they are ready."""
    if not isinstance(readers, (list, tuple)) or not readers:
        raise AssertionError("`readers` must be list or tuple.")
    import multiprocessing  # Here, because most processes need none of it.

    context = multiprocessing.get_context("fork")

    def send(reader, queue):
        try:
            for sample in reader():
                if sample is None:
                    raise ValueError("sample has None")
                queue.put((sample,))
            queue.put(None)
        except BaseException as error:  # The parent raises it again.
            queue.put(error)

    def reader():
        queue = context.Queue(queue_size)
        workers = [context.Process(target=send, args=(r, queue), daemon=True) for r in readers]
        for worker in workers:
            worker.start()
        try:
            n_left = len(workers)
            while n_left:
                message = queue.get()
                if message is None:
                    n_left -= 1
                elif isinstance(message, BaseException):
                    raise message
                else:
                    yield message[0]
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()

    return reader


class PipeReader:
    """Reads what a command writes."""

    def __init__(self, command, bufsize=8192, file_type="plain"):
        if not isinstance(command, str):
            raise TypeError("left_cmd must be a string")
        if file_type not in ("plain", "gzip"):
            raise TypeError("file_type %s is not allowed" % file_type)
        self.bufsize = bufsize
        self.command = command + (" | gzip -dc" if file_type == "gzip" else "")

    def get_line(self, cut_lines=True, line_break="\n"):
        """The lines of the output, or pieces of it as they come."""
        import subprocess  # Here, because most processes need none of it.

        with subprocess.Popen(self.command, shell=True, stdout=subprocess.PIPE) as process:
            pieces = iter(lambda: process.stdout.read(self.bufsize), b"")
            rest = ""
            for piece in pieces:
                if not cut_lines:
                    yield piece.decode("utf-8", "replace")
                    continue
                *lines, rest = (rest + piece.decode("utf-8", "replace")).split(line_break)
                yield from lines
            if rest:
                yield rest


class Fake:
    """Gives the first sample again and again: to measure without reading."""

    def __init__(self):
        self.data = None
        self.yield_num = 0

    def __call__(self, reader, max_num):
        def fake_reader():
            if self.data is None:
                self.data = next(iter(reader()))
            for _ in range(max_num):
                yield self.data

        return fake_reader
