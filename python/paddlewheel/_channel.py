"""A bounded queue between the thread that reads and the loop that trains."""

import collections
import threading


class Channel:
    """Gives items from one thread to another; carries the end and errors along."""

    def __init__(self, capacity):
        self.capacity = max(int(capacity), 1)
        self.items = collections.deque()
        self.changed = threading.Condition()
        self.ended = False
        self.closed = False
        self.error = None

    @classmethod
    def of(cls, reader, capacity):
        """A channel that a thread fills with the samples of a reader."""
        channel = cls(capacity)
        channel.fill_from(lambda: all(map(channel.put, reader())))
        return channel

    @classmethod
    def read_ahead(cls, reader, capacity):
        """The samples of a reader, read in a thread."""
        channel = cls.of(reader, capacity)
        try:
            yield from channel
        finally:
            channel.close()

    def size(self):
        """How many items wait to be taken."""
        return len(self.items)

    def fill_from(self, work):
        """Runs `work` in a thread, which calls `put`; its end or error is the channel's."""

        def run():
            try:
                work()
            except BaseException as error:  # The training loop must see it, whatever it is.
                self.fail(error)
            else:
                self.end()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def put(self, item):
        """Adds an item once there is room; False if the reader is gone."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.items) < self.capacity)
            if not self.closed:
                self.items.append(item)
                self.changed.notify_all()
            return not self.closed

    def end(self):
        """Nothing more will come."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def fail(self, error):
        """Nothing more will come, because of an error."""
        with self.changed:
            self.error = self.error or error
            self.ended = True
            self.changed.notify_all()

    def close(self):
        """The reading side is done: threads that wait to put give up."""
        with self.changed:
            self.closed = True
            self.items.clear()
            self.changed.notify_all()

    def __iter__(self):
        return self

    def __next__(self):
        with self.changed:
            self.changed.wait_for(lambda: self.items or self.ended or self.closed)
            if self.items:
                item = self.items.popleft()
                self.changed.notify_all()
                return item
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            raise StopIteration
