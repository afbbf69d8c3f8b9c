"""Files of a Hadoop file system."""

import os

from ....._core import HdfsClient

__all__ = ["HDFSClient"]


class HDFSClient(HdfsClient):
    """A client: with `hadoop_home/bin/hadoop` if that is there, with WebHDFS otherwise.

    `configs` has Hadoop's settings: `fs.default.name` (`hdfs://host:port`) and `hadoop.job.ugi`
    (`user,password`); for WebHDFS on a port of its own also `dfs.namenode.http-address`. A file system that
    cannot be reached is an error, where Fluid says that nothing is there.
    """

    @staticmethod
    def make_local_dirs(local_path):
        """Makes a folder of this machine."""
        os.makedirs(local_path, exist_ok=True)

    @staticmethod
    def split_files(files, trainer_id, trainers):
        """The files of one trainer."""
        each, rest = divmod(len(files), trainers)
        begin = trainer_id * each + min(trainer_id, rest)
        return files[begin : begin + each + (trainer_id < rest)]

    def lsr(self, hdfs_path, excludes=()):
        """The paths of all files below a folder, sorted."""
        return [path for path in self.files_below(hdfs_path) if path not in excludes]

    def upload(self, hdfs_path, local_path, multi_processes=5, overwrite=False, retry_times=5):
        """Copies a file, or what is in a folder, to there. With `overwrite` it replaces what is there."""
        if overwrite and os.path.isdir(local_path):
            self.delete(hdfs_path)
        self.put(local_path, hdfs_path, overwrite, multi_processes)

    def upload_dir(self, dest_dir, local_dir, overwrite=False):
        """Copies a folder into a folder there; false if it is there already and may not be replaced."""
        target = dest_dir.rstrip("/") + "/" + os.path.basename(os.path.normpath(local_dir))
        if self.is_exist(target):
            if not overwrite:
                return False
            self.delete(target)
        self.put(local_dir, target, True, 5)
        return True

    def download(self, hdfs_path, local_path, multi_processes=5, overwrite=False, retry_times=5):
        """Copies what is in a folder from there. Returns all files in the folder here."""
        self.make_local_dirs(local_path)
        self.get(self.files_below(hdfs_path), hdfs_path, local_path, overwrite, multi_processes)
        return sorted(os.path.join(at, name) for at, _, names in os.walk(local_path) for name in names)
