"""Files of this machine and of HDFS."""

from ....fluid.incubate.fleet.utils.hdfs import HDFSClient
from ...fs_wrapper import *
