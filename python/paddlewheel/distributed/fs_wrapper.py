"""File systems as `fleet.save_check_point` uses them."""

import os
import shutil


class FS:
    """The operations of a file system; a class of your own may be given to the fleet."""

    def list_dirs(self, fs_path):
        """The folders in a folder."""
        raise NotImplementedError

    def stat(self, fs_path):
        """Whether something is there."""
        raise NotImplementedError

    def mkdir(self, fs_path):
        """Makes a folder."""
        raise NotImplementedError

    def mv(self, fs_src_path, fs_dst_path):
        """Renames."""
        raise NotImplementedError

    def rmr(self, fs_path):
        """Removes a folder with all that is in it."""
        raise NotImplementedError

    def delete(self, fs_path):
        """Removes a file or a folder, if it is there."""
        raise NotImplementedError

    def upload(self, local_path, fs_path):
        """Copies a folder to this file system."""
        raise NotImplementedError

    def download(self, fs_path, local_path):
        """Copies a folder from this file system."""
        raise NotImplementedError

    def need_upload_download(self):
        """Whether files must be copied from and to this machine."""
        raise NotImplementedError


class LocalFS(FS):
    """The disks of this machine, and what is mounted there."""

    def list_dirs(self, fs_path):
        if not self.stat(fs_path):
            return []
        return [name for name in os.listdir(fs_path) if os.path.isdir(os.path.join(fs_path, name))]

    def ls_dir(self, fs_path):
        """The entries of a folder."""
        return os.listdir(fs_path)

    def stat(self, fs_path):
        return os.path.exists(fs_path)

    def mkdir(self, fs_path):
        os.makedirs(fs_path, exist_ok=True)

    def mv(self, fs_src_path, fs_dst_path):
        os.rename(fs_src_path, fs_dst_path)

    def rmr(self, fs_path):
        shutil.rmtree(fs_path)

    def rm(self, fs_path):
        """Removes a file."""
        os.remove(fs_path)

    def delete(self, fs_path):
        if os.path.isdir(fs_path):
            self.rmr(fs_path)
        elif self.stat(fs_path):
            self.rm(fs_path)

    def need_upload_download(self):
        return False
