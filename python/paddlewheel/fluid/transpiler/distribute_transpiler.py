"""Splits a program between trainers and servers."""

import sys

from ... import _core
from ..framework import default_main_program, default_startup_program
from . import arguments, collective
from .config import FIELDS, DistributeTranspilerConfig, ServerRuntimeConfig, checked
from .details import wait_server_ready
from .ps_dispatcher import HashName, PSDispatcher, RoundRobin

DEPRECATED = (
    "get_pserver_program() is deprecated, call get_pserver_programs() to get pserver main and "
    "startup in a single call."
)


class DistributedMode:
    """How trainers and servers keep step."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3
    SSP = 4


def log(line):
    """Tells the user."""
    print(line, file=sys.stderr)


class Block:
    """A part of a variable, as dispatchers see it."""

    def __init__(self, name):
        self.name = name


def slice_variable(var_list, slice_count, min_block_size):
    """How variables are cut: "name:block:elements" of each block."""
    blocks = []
    for var in var_list:
        for block, _offset, elements in _core.slice_shape(
            list(var.shape), slice_count, min_block_size
        ):
            blocks.append(f"{var.name}:{block}:{elements}")
    return blocks


class DistributeTranspiler:
    """Turns one program into a trainer's and those of servers.

    `transpile` makes the main and the startup program the trainer's, in place; the servers' programs
    can be asked for before or after the trainer's, any number of times.
    """

    def __init__(self, config=None):
        self.config = checked(config)
        self._server_config = ServerRuntimeConfig()
        self._split = None
        self._waited = False
        self._last = None

    def _set_server_config(self, server_config=None):
        if server_config is not None and not isinstance(server_config, ServerRuntimeConfig):
            text = "In DistributeTranspiler, server_config must be an instance of "
            raise TypeError(text + "ServerRuntimeConfig")
        self._server_config = server_config or ServerRuntimeConfig()

    def transpile(self, *args, **kwargs):
        """Splits a program; all forms of the arguments since version 0.11 are taken."""
        given, extra = arguments.bind(args, kwargs)
        for name, value in extra.items():
            setattr(self.config, name, value)
        config = checked(self.config)
        if config.mode != "pserver":
            self._transpile_collective(config, given)
            return
        wishes = {name: getattr(config, name) for name in FIELDS}
        wishes["fluid_block_init"] = getattr(config, "fluid_block_init", False)
        endpoints = [ep.strip() for ep in given["pservers"].split(",") if ep.strip()]
        trainers, trainer_id = number("trainers", given["trainers"]), given["trainer_id"]
        if trainer_id is None:
            # The oldest form has none; since then servers ask for the number of a trainer.
            trainer_id = _core.fleet.unsaid_trainer_id(max(trainers, 1))
        job = {
            "trainer_id": number("trainer_id", trainer_id),
            "trainers": trainers,
            "endpoints": endpoints,
            "sync_mode": bool(given["sync_mode"]),
            "current_endpoint": given["current_endpoint"],
        }
        self._program = given["program"] or default_main_program()
        startup = given["startup_program"] or default_startup_program()
        choose = chooser(config.split_method or RoundRobin, endpoints)
        self._split = _core.transpile_program(self._program, startup, job, wishes, choose)
        self._endpoints, self._waited = endpoints, False
        lines = self._split.lines if config.print_log else []
        for line in self._split.warnings + lines:
            log(line)

    transpile.__signature__ = arguments.SIGNATURE

    def _transpile_collective(self, config, given):
        """Programs of a trainer among trainers, without servers."""
        trainers = given["trainers"]
        if config.mode == "nccl2":
            assert isinstance(trainers, str), "trainers must be text: ip:port,ip:port"
        elif not isinstance(trainers, (str, list, tuple)):
            if config.collective_mode != "single_process_multi_thread":
                raise ValueError("invalid trainers config: " + str(trainers))
            trainers = ""
        job = {
            "trainer_id": number("trainer_id", given["trainer_id"]),
            "endpoints": collective.endpoint_list(trainers),
            "current_endpoint": given["current_endpoint"],
            "nccl_comm_num": config.nccl_comm_num,
            "use_hierarchical_allreduce": config.use_hierarchical_allreduce,
            "hierarchical_allreduce_inter_nranks": config.hierarchical_allreduce_inter_nranks,
        }
        self._program = given["program"] or default_main_program()
        mode = (config.mode, config.collective_mode)
        collective.transpile(self._program, given["startup_program"], mode, job)
        self._split, self._waited = None, True

    def _need(self):
        if self._split is None:
            raise ValueError("transpile() must be called before programs can be asked for")
        return self._split

    def get_trainer_program(self, wait_port=True):
        """The program that was transpiled; waits once until all servers listen."""
        if self.config.mode == "pserver":
            self._need()
        if wait_port and self.config.wait_port and not self._waited:
            wait_server_ready(self._endpoints)
            self._waited = True
        return self._program

    def get_pserver_program(self, endpoint):
        """A server's program."""
        log(DEPRECATED)
        return self._server_main(endpoint)

    def _server_main(self, endpoint):
        server = self._server_config
        main = self._need().server_main(
            endpoint,
            server._rpc_send_thread_num,
            server._rpc_get_thread_num,
            server._rpc_prefetch_thread_num,
        )
        if self._split.is_idle(endpoint):
            log(f"pserver [{endpoint}] has no optimize block!!")
        self._last = endpoint
        return main

    def get_pserver_programs(self, endpoint):
        """A server's program and its startup program."""
        return self._server_main(endpoint), self.get_startup_program(endpoint)

    def get_startup_program(self, endpoint, pserver_program=None, startup_program=None):
        """A server's startup program."""
        del pserver_program  # It is made anew from the same split.
        return self._need().server_startup(endpoint, startup_program)


def number(name, value):
    """A count that may be given as text."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None


def chooser(method, endpoints):
    """The choice of servers for the core: the name of a method it knows, or a function."""
    if method in (RoundRobin, HashName):
        return method.__name__
    dispatcher = method(endpoints)
    return lambda names: list(dispatcher.dispatch([Block(name) for name in names]))
