"""Common parts of all fleets."""

from ....._core import fleet as _native
from ....executor import Executor
from ....optimizer import Optimizer
from .mode import Mode
from .role_maker import PaddleCloudRoleMaker, Role, RoleMakerBase


def _native_role(maker):
    """The role of a role maker; one of a user's own is asked by its methods."""
    made = getattr(maker, "_made", None)
    if made is not None:
        return made
    is_server = maker.is_server()
    index = maker.server_index() if is_server else maker.worker_index()
    role = Role.SERVER if is_server else Role.WORKER
    endpoints = list(maker.get_pserver_endpoints())
    return _native.user_defined_role(index, role, maker.worker_num(), endpoints)


class Fleet:
    """All processes of a job, as one of them sees them."""

    def __init__(self, mode):
        self._mode = mode
        self._is_initialized = False
        self._optimizer = None
        self._role_maker = None
        self._executor = None
        self._native = None

    def init(self, role_maker=None):
        """Finds out the role of this process; by the environment unless told otherwise."""
        role_maker = PaddleCloudRoleMaker() if role_maker is None else role_maker
        if not isinstance(role_maker, RoleMakerBase):
            raise TypeError("role_maker must be an instance of RoleMakerBase")
        role_maker.generate_role()
        self._role_maker = role_maker
        self._native = _native.Fleet(_native_role(role_maker))
        self._executor = Executor()
        self._is_initialized = True

    def _need(self):
        if self._native is None:
            raise ValueError("use fleet.init(role) to initialize the role of current node")
        return self._native

    @property
    def _role(self):
        return self._need().role

    def is_first_worker(self):
        """Whether this is the trainer that does what only one may do."""
        return self._role.is_first_worker()

    def worker_index(self):
        """Which trainer this is."""
        return self._role.index()

    def worker_num(self):
        """How many trainers there are."""
        return self._role.worker_num()

    def is_worker(self):
        """Whether this process trains."""
        return self._role.is_worker()

    def worker_endpoints(self, to_string=False):
        """Where trainers are, as a list or joined by commas."""
        endpoints = self._role.worker_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self):
        """How many servers there are."""
        return len(self._role.server_endpoints())

    def server_index(self):
        """Which server this is."""
        return self._role.index()

    def server_endpoints(self, to_string=False):
        """Where servers are, as a list or joined by commas."""
        endpoints = self._role.server_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def is_server(self):
        """Whether this process keeps parameters."""
        return self._role.is_server()

    def split_files(self, files):
        """The files that are this trainer's."""
        return self._role.split_files(files)

    def server_stats(self):
        """Counters of every server, a dict each: rounds, pushes and ``updates``
        (steps), ``staleness_mean`` and ``staleness_max`` of these (updates since the pull that they
        were computed with, of any trainer), rows and bytes held,
        ``table_rows`` and ``table_bytes`` those of sparse tables."""
        return self._need().server_stats()

    def barrier_worker(self):
        """Waits for all trainers."""
        self._need().barrier_worker()

    def all_reduce_worker(self, input, output, mode="sum"):
        """Puts the numbers of all trainers together, place by place, into `output`."""
        numbers = [float(number) for number in input]
        output[:] = self._need().all_reduce_worker(numbers, mode)


class DistributedOptimizer:
    """An optimizer that also splits programs."""

    def __init__(self, optimizer, strategy=None):
        if not isinstance(optimizer, Optimizer):
            raise ValueError("optimizer must be an instance of Optimizer")
        self._optimizer = optimizer
        self._strategy = strategy

    def backward(
        self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None
    ):
        """Adds the gradients only; returns pairs of parameter and gradient."""
        return self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_gradients(self, params_grads):
        """Adds the operators that apply gradients; returns them."""
        return self._optimizer.apply_gradients(params_grads)

    def minimize(
        self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None
    ):
        """Adds everything that training needs, and splits the programs."""
        raise NotImplementedError("Please implement this method in child class")
