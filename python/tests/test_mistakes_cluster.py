"""Mistakes with servers, trainers and their roles: each with the words a user must see."""

import os

import pytest

import paddlewheel.fluid as fluid
from mistakes import Mistakes, has_all, net
from paddlewheel.fluid.incubate.fleet.base import role_maker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)
from paddlewheel.fluid.transpiler.details import wait_server_ready

mistake = Mistakes()
SERVER = "127.0.0.1:6174"


def transpile(trainer_id=0, pservers=SERVER, trainers=1):
    *_, loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    made = fluid.DistributeTranspiler()
    made.transpile(trainer_id, pservers=pservers, trainers=trainers)
    return made


@mistake(ValueError, "there are no parameter servers", 'pservers="ip:port,ip:port"')
def no_servers():
    transpile(pservers="")


@mistake(ValueError, "`127.0.0.1` is not an end point", "`host:port`")
def a_server_without_a_port():
    transpile(pservers="127.0.0.1")


@mistake(ValueError, "parameter server `127.0.0.1:6174` is in the list twice")
def one_server_twice():
    transpile(pservers="127.0.0.1:6174,127.0.0.1:6174")


@mistake(ValueError, "trainer_id 2 of 2 trainers", "ids count from 0")
def a_trainer_beyond_the_last():
    transpile(trainer_id=2, trainers=2)


@mistake(ValueError, "updates no parameter", "call optimizer.minimize(loss) before transpile")
def splitting_before_minimising():
    net()
    fluid.DistributeTranspiler().transpile(0, pservers=SERVER, trainers=1)


@mistake(ValueError, "transpiled already", "once")
def splitting_twice():
    transpile()
    fluid.DistributeTranspiler().transpile(0, pservers=SERVER, trainers=1)


@mistake(ValueError, "transpile() must be called before")
def asking_for_programs_before_splitting():
    fluid.DistributeTranspiler().get_trainer_program()


@mistake(ValueError, "`127.0.0.1:6175` is not one of the parameter servers", "127.0.0.1:6174")
def the_program_of_another_server():
    transpile().get_pserver_program("127.0.0.1:6175")


def role(kind, current_id=0, servers=(SERVER,)):
    return role_maker.UserDefinedRoleMaker(
        current_id=current_id, role=kind, worker_num=2, server_endpoints=list(servers)
    )


@mistake(TypeError, "role must be as Role")
def a_role_as_text():
    role("worker")


@mistake(ValueError, "current_id must be less than or equal to len(server_endpoints) - 1")
def a_server_beyond_the_last():
    fleet.init(role(role_maker.Role.SERVER, 5))


@mistake(ValueError, "duplicate elements", "127.0.0.1:6174 is there twice")
def a_role_with_one_server_twice():
    fleet.init(role(role_maker.Role.SERVER, servers=[SERVER, SERVER]))


@mistake(TypeError, "role_maker must be an instance of RoleMakerBase")
def a_fleet_without_a_role_maker():
    fleet.init("worker")


@mistake(ValueError, "TrainerRuntimeConfig", "Did you mean `communicator_send_queue_size`?")
def a_setting_with_a_typing_error():
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_trainer_runtime_config({"communicator_send_queue_siz": 3})


def not_ready(endpoint):
    before = fluid.get_flags("FLAGS_wait_server_ready_timeout")
    fluid.set_flags({"FLAGS_wait_server_ready_timeout": 1})
    try:
        wait_server_ready([endpoint])
    finally:
        fluid.set_flags(before)


@mistake(
    RuntimeError,
    "servers not ready after 1 s: 127.0.0.1:9",
    "are they started",
    "FLAGS_wait_server_ready_timeout",
)
def a_server_that_is_not_started():
    not_ready("127.0.0.1:9")


@mistake(RuntimeError, "cannot resolve the host of no-such-host.invalid:6174", "give its address")
def a_server_on_a_host_that_nobody_knows():
    not_ready("no-such-host.invalid:6174")


test_mistake = mistake.test()

JOB = {
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ID": "0",
    "PADDLE_PSERVERS_IP_PORT_LIST": SERVER,
}
#: Mistakes in the environment of a process, and the words about them.
ENVIRONMENTS = {
    "nothing is set": (None, ["PADDLE_PSERVERS_IP_PORT_LIST is not set"]),
    "a role that is not there": (
        {"TRAINING_ROLE": "TRIANER"},
        ["TRAINING_ROLE must be PSERVER or TRAINER", "`TRIANER`"],
    ),
    "a trainer beyond the last": (
        {"PADDLE_TRAINER_ID": "2"},
        ["PADDLE_TRAINER_ID is 2", "there are 2: it must be 0 to 1"],
    ),
    "a number as a word": ({"PADDLE_TRAINERS_NUM": "two"}, ["PADDLE_TRAINERS_NUM is `two`"]),
    "a server that is not in the list": (
        {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": "6175"},
        ["this server is 127.0.0.1:6175", "not one of the servers 127.0.0.1:6174"],
    ),
    "servers without ports": (
        {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1"},
        ["PADDLE_PSERVERS_IP_PORT_LIST is `127.0.0.1`", "host:port,host:port"],
    ),
}


@pytest.mark.parametrize("what", ENVIRONMENTS)
def test_an_environment(monkeypatch, what):
    wrong, words = ENVIRONMENTS[what]
    for name in [name for name in os.environ if name.startswith(("PADDLE_", "TRAINING_", "POD_"))]:
        monkeypatch.delenv(name)
    for name, value in {**JOB, **wrong}.items() if wrong is not None else ():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as caught:
        fleet.init(role_maker.PaddleCloudRoleMaker())
    has_all(str(caught.value), words)
