"""The older name of the readers and datasets: `import paddle.v2 as paddle`."""

from .. import dataset
from .. import reader
from .._batch import batch
