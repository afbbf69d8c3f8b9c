"""The role of a process."""

from ....fluid.incubate.fleet.base.role_maker import (
    PaddleCloudRoleMaker,
    Role,
    UserDefinedRoleMaker,
)
