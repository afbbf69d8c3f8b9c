"""Devices: there is the processor."""

import sys

from .fluid.core import CPUPlace

_said = []


def set_device(device):
    """The place to run at; of a graphics card, the processor is used instead and this is said once."""
    kind = device.partition(":")[0] if isinstance(device, str) else device
    if isinstance(kind, CPUPlace):
        return kind
    if kind not in ("cpu", "gpu", "xpu", "npu", "mlu", "ipu"):
        raise ValueError(
            "The device must be a string which is like 'cpu', 'gpu', 'gpu:x', 'xpu', 'xpu:x', but got {}".format(device)
        )
    if kind != "cpu" and not _said:
        _said.append(kind)
        print("paddlewheel: there is no {} here; the CPU is used instead".format(kind), file=sys.stderr)
    return CPUPlace()


def get_device():
    """The device that is used."""
    return "cpu"


def is_compiled_with_cuda():
    """Always false."""
    return False


is_compiled_with_rocm = is_compiled_with_xpu = is_compiled_with_ipu = is_compiled_with_cinn = is_compiled_with_cuda


def is_compiled_with_custom_device(device_type):
    """Always false."""
    return False


class cuda:
    """Graphics cards: there are none."""

    @staticmethod
    def device_count():
        """0."""
        return 0

    @staticmethod
    def get_device_properties(device=None):
        """There is no card to describe."""
        raise ValueError("there is no graphics card")

    @staticmethod
    def synchronize(device=None):
        """Nothing runs elsewhere."""
