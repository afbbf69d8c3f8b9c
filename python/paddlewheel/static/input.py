"""What programs are fed with."""

from ..fluid import layers
from ..tensor._op import dtype_of
from ..tensor.creation import get_default_dtype


def data(name, shape, dtype=None, lod_level=0):
    """A variable that a run feeds; None or -1 is a size that is known only then. Sizes that a run feeds
    are not compared with these."""
    dtype = dtype_of(dtype or get_default_dtype())
    sizes = [-1 if size is None else int(size) for size in shape]
    return layers.data(name, sizes, append_batch_size=False, dtype=dtype, lod_level=lod_level)


class InputSpec:
    """Shape, type and name of an input."""

    def __init__(self, shape, dtype="float32", name=None, stop_gradient=False):
        self.shape = tuple(-1 if size is None else int(size) for size in shape)
        self.dtype, self.name, self.stop_gradient = dtype, name, stop_gradient

    @classmethod
    def from_numpy(cls, ndarray, name=None):
        """Of an array."""
        return cls(ndarray.shape, str(ndarray.dtype), name)

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """Of a variable."""
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    def batch(self, batch_size):
        """With one more size in front."""
        self.shape = (int(batch_size),) + self.shape
        return self

    def unbatch(self):
        """Without its first size."""
        self.shape = self.shape[1:]
        return self

    def __repr__(self):
        return "InputSpec(shape={}, dtype={}, name={})".format(self.shape, self.dtype, self.name)
