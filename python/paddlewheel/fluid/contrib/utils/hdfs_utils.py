"""Files of HDFS."""

import os

from ...incubate.fleet.utils import hdfs

__all__ = ["HDFSClient", "multi_download", "multi_upload"]


class HDFSClient(hdfs.HDFSClient):
    """The client as `fluid.contrib` has it: files go into folders one by one."""

    def upload(self, hdfs_path, local_path, overwrite=False, retry_times=5):
        """Copies a file into a folder there; false if it is there already or is a folder."""
        target = hdfs_path.rstrip("/") + "/" + os.path.basename(local_path)
        if os.path.isdir(local_path) or (not overwrite and self.is_exist(target)):
            return False
        self.makedirs(hdfs_path)
        self.put(local_path, target, overwrite, 1)
        return True

    def download(self, hdfs_path, local_path, overwrite=False, unzip=False):
        """Copies a file into a folder here; false if there is none, or one is here already. As in Fluid,
        nothing is unpacked."""
        target = os.path.join(local_path, os.path.basename(hdfs_path))
        if not self.is_file(hdfs_path) or (not overwrite and os.path.exists(target)):
            return False
        self.get([hdfs_path], os.path.dirname(hdfs_path), local_path, overwrite, 1)
        return True

    def lsr(self, hdfs_path, only_file=True, sort=True):
        """The paths of all files below a folder, sorted; with `only_file=False` also of the folders."""
        if only_file:
            return self.files_below(hdfs_path)
        paths = []
        for path in self.ls(hdfs_path):
            paths.append(path)
            if self.is_dir(path):
                paths.extend(self.lsr(path, only_file=False))
        return paths


def multi_download(client, hdfs_path, local_path, trainer_id, trainers, multi_processes=5):
    """Copies a trainer's part of the files below a folder; where they are then."""
    files = client.files_below(hdfs_path)[trainer_id::trainers]
    places = client.get(files, hdfs_path, local_path, False, multi_processes)
    return [os.fspath(place) for place in places]


def multi_upload(client, hdfs_path, local_path, multi_processes=5, overwrite=False, sync=True):
    """Copies all files below a folder to there."""
    if os.path.isdir(local_path):
        client.put(local_path, hdfs_path, overwrite, multi_processes)


def getfilelist(path):
    """All files below a folder."""
    return [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
