"""Who a process is: trainer or server, and which of them."""

from ..._not_yet_fleet import not_yet_class


class Role:
    """What a process does."""

    WORKER = 1
    SERVER = 2


RoleMakerBase = not_yet_class("RoleMakerBase")
MPIRoleMaker = not_yet_class("MPIRoleMaker")
MPISymetricRoleMaker = not_yet_class("MPISymetricRoleMaker")
PaddleCloudRoleMaker = not_yet_class("PaddleCloudRoleMaker")
GeneralRoleMaker = not_yet_class("GeneralRoleMaker")
UserDefinedRoleMaker = not_yet_class("UserDefinedRoleMaker")
UserDefinedCollectiveRoleMaker = not_yet_class("UserDefinedCollectiveRoleMaker")
