"""Files of HDFS."""

import os

from ..._not_yet import not_yet_function
from ...incubate.fleet.utils.hdfs import HDFSClient

WHY = "there is no client of HDFS; read files of this machine"

multi_download = not_yet_function("fluid.contrib.utils.multi_download", WHY)
multi_upload = not_yet_function("fluid.contrib.utils.multi_upload", WHY)


def getfilelist(path):
    """All files below a folder."""
    return [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
