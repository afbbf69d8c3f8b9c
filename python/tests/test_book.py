"""The book programs reach the quality that they ask of themselves.

Those that need data which may not be passed on run where it is at hand: a folder `shared/data`
beside the repository, or the one that PADDLE_DATASET_HOME names.
"""

import os

import pytest

from conftest import ROOT

BOOK = os.path.join(ROOT, "examples", "book")
DATA = os.environ.get("PADDLE_DATASET_HOME") or os.path.join(
    os.path.dirname(ROOT), "shared", "data"
)


def run(child, script, *arguments, home):
    environment = {"PADDLE_DATASET_HOME": str(home)}
    path = os.path.join(BOOK, script)
    return child("-m", "paddlewheel", "run", path, *arguments, environment=environment)


def passes(result):
    """The program was content with what it reached."""
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def needs(*path):
    path = os.path.join(DATA, *path)
    if not os.path.exists(path):
        pytest.skip("%s is not there: the data may not be passed on" % path)


def test_fit_a_line(child, tmp_path):
    out = passes(run(child, "fit_a_line.py", home=tmp_path))
    assert "first house held out" in out


def test_word2vec(child, tmp_path):
    out = passes(run(child, "word2vec.py", home=tmp_path))
    assert "left out: the Penn Treebank" in out
    assert "guessing costs 3.434" in out


@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_recognize_digits(child, model):
    needs("mnist", "train-images-idx3-ubyte.gz")
    out = passes(run(child, "recognize_digits.py", "--model", model, home=DATA))
    assert "left out" not in out


def test_recommender_system(child):
    needs("movielens-100k", "u1.base")
    out = passes(run(child, "recommender_system.py", home=DATA))
    assert "left out" not in out


@pytest.mark.parametrize("script", ["recognize_digits.py", "recommender_system.py"])
def test_what_is_left_out_is_said(child, tmp_path, script):
    out = passes(run(child, script, home=tmp_path))
    assert out.startswith("left out: training on ")
    assert str(tmp_path) in out


def test_a_model_that_is_too_bad_is_refused(child, tmp_path):
    """The assertions of the programs are real: with one pass the line does not fit."""
    with open(os.path.join(BOOK, "fit_a_line.py"), encoding="utf-8") as file:
        source = file.read()
    hasty = tmp_path / "hasty.py"
    hasty.write_text(source.replace("PASS_NUM = 150", "PASS_NUM = 30").replace("1.0,", "0.01,"))
    assert child("-m", "paddlewheel", "run", str(hasty)).returncode == 1
