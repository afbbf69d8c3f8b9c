"""Reviews of films with a judgement, from NLTK. This version does not read them."""

from . import common

URLS = ("https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip",)


def get_word_dict():
    """The numbers of words."""
    raise common.unsupported("sentiment", "corpora", *URLS)


def train():
    """A reader of the training set."""
    raise common.unsupported("sentiment", "corpora", *URLS)


def test():
    """A reader of the test set."""
    raise common.unsupported("sentiment", "corpora", *URLS)


def fetch():
    """Gets the files."""
    raise common.unsupported("sentiment", "corpora", *URLS)
