"""Products of matrices, and sums of products by letters."""

from ..fluid import layers
from . import math
from ._op import make, need_variable
from .shape import reshape, transpose


def matmul(x, y, transpose_x=False, transpose_y=False, name=None):
    """Products of the last two axes; a vector is a row on the left and a column on the right."""
    need_variable(x, "matmul")
    need_variable(y, "matmul", "y")
    attrs = {"trans_x": bool(transpose_x), "trans_y": bool(transpose_y)}
    return make("matmul_v2", {"X": x, "Y": y}, attrs, name=name)


def mm(input, mat2, name=None):
    """The product of two matrices."""
    return matmul(input, mat2)


def bmm(x, y, name=None):
    """The products of the matrices of two batches."""
    if len(x.shape) != 3 or len(y.shape) != 3:
        raise ValueError("bmm takes batches of matrices: shapes {} and {}".format(x.shape, y.shape))
    return matmul(x, y)


def mv(x, vec, name=None):
    """A matrix times a vector."""
    return matmul(x, vec)


def dot(x, y, name=None):
    """The sum of products along the last axis."""
    return math.sum(math.multiply(x, y), axis=-1, keepdim=len(x.shape) == 1)


def norm(x, p="fro", axis=None, keepdim=False, name=None):
    """The root of the sum of squares (2 or "fro"), the sum of sizes (1), or the largest size (inf)."""
    if p in ("fro", 2, 2.0):
        return math.sqrt(math.sum(math.square(x), axis, keepdim=keepdim))
    if p in (1, 1.0):
        return math.sum(math.abs(x), axis, keepdim=keepdim)
    if p == float("inf"):
        return math.max(math.abs(x), axis, keepdim)
    return math.pow(math.sum(math.pow(math.abs(x), float(p)), axis, keepdim=keepdim), 1.0 / p)


def einsum(equation, *operands):
    """Sums of products by letters, as of two variables: `bse,esnh->bsnh`."""
    equation = equation.replace(" ", "")
    if "." in equation or len(operands) != 2:
        raise NotImplementedError("einsum takes two variables and letters, without an ellipsis")
    left, _, result = equation.partition("->")
    one, other = left.split(",")
    x, y = operands
    if len(one) != len(x.shape) or len(other) != len(y.shape) or len(set(one)) < len(one) or len(set(other)) < len(other):
        raise ValueError("einsum: {} does not fit shapes {} and {}".format(equation, x.shape, y.shape))
    sizes = {**dict(zip(other, y.shape)), **dict(zip(one, x.shape))}
    both = [letter for letter in one if letter in other]
    batch = [letter for letter in both if letter in result]
    summed = [letter for letter in both if letter not in result]
    alone = [letter for letter in one + other if letter not in both and letter not in result]
    if alone:
        for letter in [each for each in alone if each in one]:
            x, one = math.sum(x, one.index(letter)), one.replace(letter, "")
        for letter in [each for each in alone if each in other]:
            y, other = math.sum(y, other.index(letter)), other.replace(letter, "")
    rows = [letter for letter in one if letter not in both]
    columns = [letter for letter in other if letter not in both]
    x = _matrices(x, one, [batch, rows, summed], sizes)
    y = _matrices(y, other, [batch, summed, columns], sizes)
    product = matmul(x, y)
    letters = batch + rows + columns
    product = reshape(product, _known([sizes[letter] for letter in letters]))
    order = [letters.index(letter) for letter in result]
    return product if order == list(range(len(order))) else transpose(product, order)


def _matrices(x, letters, groups, sizes):
    """A variable with its axes in groups, each group one axis."""
    order = [letters.index(letter) for group in groups for letter in group]
    if order != list(range(len(order))):
        x = transpose(x, order)
    return reshape(x, _known([_product([sizes[letter] for letter in group]) for group in groups]))


def _product(sizes):
    total = 1
    for size in sizes:
        total = -1 if size < 0 or total < 0 else total * size
    return total


def _known(sizes):
    if sum(size < 0 for size in sizes) > 1:
        raise NotImplementedError("einsum: more than one size is not known")
    return sizes or [1]
