"""Datasets of files in the form of version 2: `init` says everything at once."""

from ...fluid import dataset as _fluid


class _Settings:
    """What both kinds have in common."""

    def init(self, **kwargs):
        """Says what is read and how: `batch_size`, `thread_num`, `use_var`, `pipe_command`, `input_type`, `fs_name`,
        `fs_ugi`, `download_cmd`."""
        given = {"batch_size": 1, "thread_num": 1, "use_var": [], "input_type": 0, "pipe_command": "cat"}
        given.update(kwargs)
        self._apply(given)

    _init = init

    def _apply(self, given):
        hdfs = given.pop("fs_name", ""), given.pop("fs_ugi", "")
        if any(hdfs):
            self.set_hdfs_config(*hdfs)
        if given.pop("input_type", 0):
            raise NotImplementedError("input_type must be 0: lines of slots")
        setters = {
            "batch_size": self.set_batch_size, "thread_num": self.set_thread, "use_var": self.set_use_var,
            "pipe_command": self.set_pipe_command, "download_cmd": self.set_download_cmd,
            **self._setters(),
        }
        for name, value in given.items():
            if name not in setters:
                raise ValueError("{} has no setting {}; it has {}".format(type(self).__name__, name, ", ".join(setters)))
            if name == "download_cmd" and value == "cat":
                continue
            setters[name](value)

    def _setters(self):
        return {}

    def set_filelist(self, filelist):
        """The files to read."""
        super().set_filelist([str(name) for name in filelist])

    def _set_use_ps_gpu(self, use_ps_gpu):
        if use_ps_gpu:
            raise NotImplementedError("there are no graphics cards here")


class QueueDataset(_Settings, _fluid.QueueDataset):
    """Reads files while they are trained on."""


class InMemoryDataset(_Settings, _fluid.InMemoryDataset):
    """Loads files once; samples can be shuffled."""

    def _setters(self):
        return {
            "parse_ins_id": self.set_parse_ins_id, "parse_content": self.set_parse_content,
            "fleet_send_batch_size": self.set_fleet_send_batch_size, "merge_size": self.set_merge_by_lineid,
            "queue_num": self.set_queue_num,
        }

    def update_settings(self, **kwargs):
        """Changes settings."""
        self._apply({name: value for name, value in kwargs.items() if value is not None})

    _init_distributed_settings = update_settings

    def tdm_sample(self, *args, **kwargs):
        """Trees are sampled by operators here."""
        raise NotImplementedError("tdm_sample is not supported: fluid.contrib.layers.tdm_sampler draws from a tree in the program")
