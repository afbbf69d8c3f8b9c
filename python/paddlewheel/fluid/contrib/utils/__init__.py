"""Files far away, and tables that servers keep."""

from .hdfs_utils import HDFSClient, multi_download, multi_upload
from .lookup_table_utils import (
    convert_dist_to_sparse_program,
    load_persistables_for_increment,
    load_persistables_for_inference,
)
