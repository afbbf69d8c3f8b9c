"""Ratings of films: one million, in the layout of `ml-1m.zip`."""

import random
import re
import zipfile

from . import common

URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"

age_table = [1, 18, 25, 35, 45, 50, 56]

MOVIE_INFO = None
USER_INFO = None
MOVIE_TITLE_DICT = None
CATEGORIES_DICT = None


class MovieInfo:
    """A film: its number, categories and title."""

    def __init__(self, index, categories, title):
        self.index = int(index)
        self.categories = categories
        self.title = title

    def value(self):
        """The film as fields of a sample."""
        categories = [CATEGORIES_DICT[name] for name in self.categories]
        words = [MOVIE_TITLE_DICT[word.lower()] for word in self.title.split()]
        return [self.index, categories, words]

    def __repr__(self):
        return "<MovieInfo id(%d), title(%s), categories(%s)>" % (
            self.index, self.title, self.categories,
        )


class UserInfo:
    """A user: number, gender, age, job."""

    def __init__(self, index, gender, age, job_id):
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self):
        """The user as fields of a sample."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __repr__(self):
        return "<UserInfo id(%d), gender(%s), age(%d), job(%d)>" % (
            self.index, "M" if self.is_male else "F", age_table[self.age], self.job_id,
        )


def rows(archive, name):
    """The fields of the lines of a file in the archive."""
    with archive.open("ml-1m/" + name) as file:
        for line in file:
            yield line.decode("latin-1").strip().split("::")


def load():
    """Reads films and users once; returns the path of the archive."""
    global MOVIE_INFO, USER_INFO, MOVIE_TITLE_DICT, CATEGORIES_DICT
    path = common.download(URL, "movielens", MD5)
    if MOVIE_INFO is not None:
        return path
    movies, words, categories = {}, set(), set()
    with zipfile.ZipFile(path) as archive:
        for number, title, names in rows(archive, "movies.dat"):
            title = re.match(r"^(.*)\((\d+)\)$", title).group(1)
            movies[int(number)] = MovieInfo(number, names.split("|"), title)
            categories.update(names.split("|"))
            words.update(word.lower() for word in title.split())
        users = (UserInfo(*fields[:4]) for fields in rows(archive, "users.dat"))
        USER_INFO = {user.index: user for user in users}
    MOVIE_TITLE_DICT = {word: at for at, word in enumerate(sorted(words))}
    CATEGORIES_DICT = {name: at for at, name in enumerate(sorted(categories))}
    MOVIE_INFO = movies
    return path


def samples(rand_seed=0, test_ratio=0.1, is_test=False):
    """The samples of one part: user fields, film fields, [rating from -5 to 5]."""
    path = load()
    rand = random.Random(rand_seed)
    with zipfile.ZipFile(path) as archive:
        for user, movie, rating, _ in rows(archive, "ratings.dat"):
            if (rand.random() < test_ratio) == is_test:
                score = [float(rating) * 2 - 5.0]
                yield USER_INFO[int(user)].value() + MOVIE_INFO[int(movie)].value() + [score]


def train():
    """A reader of nine tenths of the ratings."""
    load()
    return lambda: samples(is_test=False)


def test():
    """A reader of the other tenth."""
    load()
    return lambda: samples(is_test=True)


def get_movie_title_dict():
    """The number of each word of the titles."""
    load()
    return MOVIE_TITLE_DICT


def movie_categories():
    """The number of each category."""
    load()
    return CATEGORIES_DICT


def user_info():
    """The users by number."""
    load()
    return USER_INFO


def movie_info():
    """The films by number."""
    load()
    return MOVIE_INFO


def max_movie_id():
    """The largest number of a film."""
    return max(movie_info())


def max_user_id():
    """The largest number of a user."""
    return max(user_info())


def max_job_id():
    """The largest number of a job."""
    return max(user.job_id for user in user_info().values())


def fetch():
    """Gets the file."""
    common.download(URL, "movielens", MD5)
