"""Well-known datasets, read from `~/.cache/paddle/dataset` or `PADDLE_DATASET_HOME`."""

from . import (
    cifar,
    common,
    conll05,
    flowers,
    imdb,
    imikolov,
    mnist,
    movielens,
    mq2007,
    sentiment,
    uci_housing,
    wmt14,
    wmt16,
)
