"""Checkpoints of trainers without servers, in the folders that Fluid writes."""

import contextlib
import json
import os

from .....distributed.fs_wrapper import LocalFS

PREFIX = "__paddle_fleet_checkpoint__"
PARAMS = "_paddle_fleet_param__"
STATUS = "fleet_train_status"


class TrainStatus:
    """The pass that was completed last."""

    def __init__(self, epoch_no=-1):
        self._epoch_no = epoch_no

    def next(self):
        """The pass to continue with."""
        return self._epoch_no + 1

    def __eq__(self, other):
        return self._epoch_no == other._epoch_no

    def __ne__(self, other):
        return not self == other

    __hash__ = None


class CheckPoints:
    """The checkpoints in a folder of a file system."""

    def __init__(self, root, fs, cache=".cache"):
        self._root, self._fs, self._cache = root, fs, cache

    def _numbers(self):
        parts = [name.split(".") for name in self._fs.list_dirs(self._root)]
        return sorted(int(p[1]) for p in parts if len(p) == 2 and p[0] == PREFIX and p[1].isdigit())

    def _path(self, number):
        return "{}/{}.{}".format(self._root, PREFIX, number)

    def _cached(self, number, use):
        return os.path.join(self._cache, "{}.{}.{}".format(PREFIX, number, use))

    @contextlib.contextmanager
    def saving(self, status):
        """A folder to save to, and the name of its file; it counts only when all is there."""
        fs, local = self._fs, LocalFS()
        if not fs.stat(self._root):
            fs.mkdir(self._root)
        number = max(self._numbers(), default=-1) + 1
        temporary = self._path(number) + ".tmp"
        remote = fs.need_upload_download()
        folder = self._cached(number, "saved_cache") if remote else temporary
        local.delete(folder)
        yield folder, PARAMS
        with open(os.path.join(folder, STATUS), "w") as file:
            json.dump({"epoch_no": status._epoch_no}, file)
        if remote:
            fs.delete(temporary)
            fs.upload(folder, temporary)
        fs.mv(temporary, self._path(number))

    def last(self, trainer_id):
        """Folder, file name and status of the last one; None if there is none."""
        numbers = self._numbers()
        if not numbers:
            return None
        folder = self._path(numbers[-1])
        if self._fs.need_upload_download():
            cached = self._cached(numbers[-1], "load_cache.{}".format(trainer_id))
            LocalFS().delete(cached)
            self._fs.download(folder, cached)
            folder = cached
        status = TrainStatus()
        path = os.path.join(folder, STATUS)
        if os.path.isfile(path):
            with open(path) as file:
                said = json.load(file)
            missing = "Can't find epoch_no in dict from train_status file:{}".format(said)
            assert "epoch_no" in said, missing
            assert said["epoch_no"] >= 0, "Data in checkpoint file is not valid:{}".format(said)
            status = TrainStatus(said["epoch_no"])
        return folder, PARAMS, status

    def clean(self, n_kept):
        """Removes all but the last ones."""
        for number in self._numbers()[:-n_kept]:
            self._fs.rmr(self._path(number))
