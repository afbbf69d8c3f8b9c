"""The arrays that runs and tensors hand out."""

import numpy


class array(numpy.ndarray):
    """An array of numpy. With one element it is a number to ``float``, ``int`` and ``%``, whatever
    its shape: scripts of Fluid's time write ``float(loss)``, which numpy refuses since 2.4.

    It has the name that numpy prints, and is pickled as an array of numpy.
    """

    __slots__ = ()

    def _only(self):
        if self.size != 1:
            raise TypeError("only length-1 arrays can be converted to Python scalars")
        return self.item()

    def __float__(self):
        return float(self._only())

    def __int__(self):
        return int(self._only())

    def __complex__(self):
        return complex(self._only())

    def __array_wrap__(self, result, context=None, return_scalar=None):
        # As with an array of numpy: a new one without dimensions is a number, `out=` is itself.
        if return_scalar is None:
            return_scalar = is_new(result, context)
        if return_scalar and result.ndim == 0:
            return result[()]
        return result if isinstance(result, array) else result.view(array)

    def __reduce__(self):
        return self.view(numpy.ndarray).__reduce__()

    def __reduce_ex__(self, protocol):
        return self.view(numpy.ndarray).__reduce_ex__(protocol)


def is_new(result, context):
    """Whether an operation made the array, which numpy before 2.0 does not say."""
    if context is None:
        return result.base is None and not isinstance(result, array)
    return not any(given is result for given in context[1])
