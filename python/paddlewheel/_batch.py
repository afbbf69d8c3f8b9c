"""`paddle.batch`."""


def batch(reader, batch_size, drop_last=False):
    """A reader of lists of `batch_size` samples; the last list may be shorter unless dropped."""
    if batch_size <= 0:
        raise ValueError(
            "batch_size should be a positive integeral value, "
            "but got batch_size={}".format(batch_size)
        )

    def batch_reader():
        samples = []
        for sample in reader():
            samples.append(sample)
            if len(samples) == batch_size:
                yield samples
                samples = []
        if samples and not drop_last:
            yield samples

    return batch_reader
