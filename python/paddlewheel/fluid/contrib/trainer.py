"""The older way to train: events instead of a loop."""

from .._not_yet import not_yet_class, not_yet_function

WHY = "write the loop with fluid.Executor; fluid.io saves and loads"


class BeginEpochEvent:
    """A pass over the data begins."""

    def __init__(self, epoch_id):
        self.epoch = epoch_id


class EndEpochEvent:
    """A pass over the data is done."""

    def __init__(self, epoch_id):
        self.epoch = epoch_id


class BeginStepEvent:
    """A batch begins; clear `fetch_metrics` to train without values."""

    def __init__(self, epoch_id, step_id):
        self.epoch = epoch_id
        self.step = step_id
        self.fetch_metrics = True


class EndStepEvent:
    """A batch is done."""

    def __init__(self, epoch_id, step_id, metrics):
        self.epoch = epoch_id
        self.step = step_id
        self.metrics = metrics


class CheckpointConfig:
    """Where and how often a trainer saves itself."""

    def __init__(
        self, checkpoint_dir=None, max_num_checkpoints=3, epoch_interval=1, step_interval=10
    ):
        assert epoch_interval >= 1, "epoch_interval must be at least 1"
        assert step_interval >= 1, "step_interval must be at least 1"
        self.checkpoint_dir = checkpoint_dir
        self.max_num_checkpoints = max_num_checkpoints
        self.epoch_interval = epoch_interval
        self.step_interval = step_interval
        self.epoch_id = 0
        self.step_id = 0
        self.load_serial = None
        self.pserver_id = None
        self.lookup_table_name = None


Trainer = not_yet_class("Trainer", WHY)
Inferencer = not_yet_class("Inferencer", WHY)
save_checkpoint = not_yet_function("save_checkpoint", WHY)
load_checkpoint = not_yet_function("load_checkpoint", WHY)
clean_checkpoint = not_yet_function("clean_checkpoint", WHY)
