"""Tools around training."""

from ..incubate.fleet.utils.hdfs import HDFSClient
