"""Programs of trainers that exchange with each other, without servers."""

from ... import _core
from ..framework import default_main_program, default_startup_program


def transpile(main, startup, mode, job):
    """Makes both programs those of a trainer among trainers."""
    _core.transpile_collective(
        main or default_main_program(), startup or default_startup_program(), *mode, job
    )


def endpoint_list(trainers):
    """The end points of all trainers, from a list or from text with commas."""
    return trainers.split(",") if isinstance(trainers, str) else list(trainers)


class Collective:
    """Makes programs of trainers without servers, with exchanges in `nrings` groups."""

    mode = None

    def __init__(self, nrings):
        self.nrings = nrings

    def transpile(
        self, startup_program, main_program, rank, endpoints, current_endpoint, wait_port
    ):
        """Changes both programs; trainers are waited for when the startup program runs."""
        del wait_port
        endpoints = endpoint_list(endpoints)
        job = {
            "trainer_id": rank,
            "endpoints": endpoints,
            "current_endpoint": current_endpoint,
            "nccl_comm_num": self.nrings,
        }
        transpile(main_program, startup_program, ("collective", self.mode), job)
        self.endpoints, self.current_endpoint = endpoints, current_endpoint
        self.nranks, self.rank = len(endpoints), rank
        self.main_program, self.startup_program = main_program, startup_program


class GradAllReduce(Collective):
    """Trainers add up their gradients at every step."""

    mode = "grad_allreduce"

    def __init__(self, nrings=2):
        super().__init__(nrings)


class LocalSGD(Collective):
    """Trainers update their own parameters, which are then averaged."""

    mode = "local_sgd"

    def __init__(self, nrings=2):
        super().__init__(nrings)


class SingleProcessMultiThread(GradAllReduce):
    """One process alone: its places add up their gradients."""

    mode = "single_process_multi_thread"

    def __init__(self):
        super().__init__(1)
