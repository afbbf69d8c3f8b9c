"""The role of a process, as scripts ask for it."""

import pytest

from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.base.role_maker import (
    GeneralRoleMaker,
    MPISymetricRoleMaker,
    PaddleCloudRoleMaker,
    Role,
    RoleMakerBase,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
)

CLOUD = {
    "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36011,127.0.0.1:36012",
    "PADDLE_TRAINERS_NUM": "3",
}
ROLES = "TRAINING_ROLE PADDLE_TRAINING_ROLE PADDLE_TRAINER_ID POD_IP PADDLE_PORT".split()


@pytest.fixture
def environment(monkeypatch):
    """Sets variables and forgets those of others."""

    def set_all(**variables):
        for name in ROLES + list(CLOUD):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


def test_a_trainer(environment):
    environment(TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="1", **CLOUD)
    role = PaddleCloudRoleMaker()
    role.generate_role()
    assert role.is_worker() and not role.is_server() and not role.is_first_worker()
    assert (role.worker_index(), role.worker_num(), role.server_num()) == (1, 3, 2)
    assert role.get_pserver_endpoints() == ["127.0.0.1:36011", "127.0.0.1:36012"]
    assert role.get_trainer_endpoints() == []
    assert role.to_string() == (
        "role: 1, current_id: 1, worker_endpoints: [], "
        "server_endpoints: ['127.0.0.1:36011', '127.0.0.1:36012']"
    )
    environment()  # Read once.
    role.generate_role()
    assert role.worker_index() == 1


def test_a_server(environment):
    environment(TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1", PADDLE_PORT="36012", **CLOUD)
    role = PaddleCloudRoleMaker()
    assert role.is_server() and role.server_index() == 1, "asked before generate_role"


def test_what_is_wrong_with_the_environment(environment):
    environment(TRAINING_ROLE="X", **CLOUD)
    text = "something wrong with PaddleCloud, please check environment.*PSERVER or TRAINER"
    with pytest.raises(ValueError, match=text):
        PaddleCloudRoleMaker().generate_role()
    environment(**CLOUD)
    with pytest.raises(ValueError, match="TRAINING_ROLE is not set .*PADDLE_TRAINING_ROLE"):
        PaddleCloudRoleMaker().generate_role()
    environment()
    with pytest.raises(AssertionError, match="can't find PADDLE_TRAINER_ENDPOINTS"):
        PaddleCloudRoleMaker(is_collective=True).generate_role()
    with pytest.raises(ValueError, match="OMPI_COMM_WORLD_SIZE .*PMI_SIZE"):
        MPISymetricRoleMaker().generate_role()
    with pytest.raises(TypeError, match="no argument paths"):
        GeneralRoleMaker(paths="x")


def test_trainers_among_themselves(environment, monkeypatch):
    environment(PADDLE_TRAINER_ID="1")
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2")
    role = PaddleCloudRoleMaker(is_collective=True)
    role.generate_role()
    assert role.is_worker() and role.worker_num() == 2 and role.worker_index() == 1


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({}, TypeError, "server_endpoints must be as string list"),
        ({"server_endpoints": []}, ValueError, "list must be greater than 0"),
        ({"server_endpoints": ["a:1", 2]}, TypeError, "every element in server_endpoints list"),
        ({"server_endpoints": ["a:1"] * 2}, ValueError, "can't have duplicate elements"),
        ({"server_endpoints": ["a:1"], "role": 5}, TypeError, "role must be as Role"),
        ({"server_endpoints": ["a:1"], "current_id": "0"}, TypeError, "current_id must be as int"),
        ({"server_endpoints": ["a:1"], "current_id": -1}, ValueError, "greater than or equal to 0"),
        ({"server_endpoints": ["a:1"], "worker_num": "1"}, TypeError, "worker_num must be as int"),
        ({"server_endpoints": ["a:1"]}, ValueError, "worker_num must be greater than 0"),
        (
            {"server_endpoints": ["a:1"], "role": Role.SERVER, "current_id": 1, "worker_num": 1},
            ValueError,
            "if role is Role.SERVER, current_id must be less than or equal to",
        ),
    ],
)
def test_arguments_that_make_no_role(arguments, error, text):
    with pytest.raises(error, match=text):
        UserDefinedRoleMaker(**arguments)


def test_roles_from_arguments():
    role = UserDefinedRoleMaker(current_id=1, worker_num=2, server_endpoints=["a:1", "b:1"])
    assert role.is_worker() and role.worker_index() == 1
    role = UserDefinedCollectiveRoleMaker(0, ["a:1", "b:1"])
    assert role.is_first_worker() and role.worker_num() == 2
    with pytest.raises(TypeError, match="worker_endpoints must be as string list"):
        UserDefinedCollectiveRoleMaker()
    with pytest.raises(ValueError, match="current_id must be less than or equal to"):
        UserDefinedCollectiveRoleMaker(1, ["a:1"])


def test_role_makers_do_not_connect_processes(capsys):
    role = UserDefinedRoleMaker(worker_num=1, server_endpoints=["a:1"])
    role.barrier_worker()
    assert capsys.readouterr().out == "warning: RoleMakerBase does not have barrier worker.\n"
    with pytest.raises(NotImplementedError):
        RoleMakerBase().generate_role()
    assert isinstance(role, role_maker.RoleMakerBase)
