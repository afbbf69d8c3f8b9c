"""The role of a process."""

from ...._core import fleet as _native
from ....fluid.incubate.fleet.base.role_maker import (
    PaddleCloudRoleMaker,
    Role,
    UserDefinedRoleMaker,
)


def in_a_job():
    """Whether the variables of this process give it a role among others."""
    return _native.role_in_a_job() is not None
