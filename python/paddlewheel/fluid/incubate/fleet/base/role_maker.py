"""The role of a process: trainer or server, and its number."""

from ....._core import fleet as _native


class Role:
    """The role of a process."""

    WORKER = 1
    SERVER = 2


class RoleMakerBase:
    """Gives a process its role. Own role makers override what they know better."""

    def __init__(self):
        self._made = None

    def _make(self):
        raise NotImplementedError("Please implement this method in child class")

    def _get(self):
        self.generate_role()
        return self._made

    def generate_role(self):
        """Finds out the role of this process; once."""
        if self._made is None:
            self._made = self._make()

    def is_worker(self):
        """Whether this process trains."""
        return self._get().is_worker()

    def is_server(self):
        """Whether this process keeps parameters."""
        return self._get().is_server()

    def is_first_worker(self):
        """Whether this is the trainer that does what only one may do."""
        return self._get().is_first_worker()

    def worker_num(self):
        """How many trainers there are."""
        return self._get().worker_num()

    def server_num(self):
        """How many servers there are."""
        return len(self.get_pserver_endpoints())

    def worker_index(self):
        """Which trainer this is."""
        return self._get().index()

    def server_index(self):
        """Which server this is."""
        return self._get().index()

    def get_trainer_endpoints(self):
        """Where trainers are, when they speak to one another."""
        return self._get().worker_endpoints()

    def get_pserver_endpoints(self):
        """Where servers are."""
        return self._get().server_endpoints()

    def to_string(self):
        """Everything in a line."""
        return self._get().to_string()

    def all_gather(self, input):
        """Role makers do not connect processes; the fleet does."""
        print("warning: RoleMakerBase does not have all gather.")

    def all_reduce_worker(self, input, output, mode="sum"):
        """Role makers do not connect processes; the fleet does."""
        print("warning: RoleMakerBase does not have all reduce worker.")

    def barrier_worker(self):
        """Role makers do not connect processes; the fleet does."""
        print("warning: RoleMakerBase does not have barrier worker.")

    def barrier_all(self):
        """Role makers do not connect processes; the fleet does."""
        print("warning: RoleMakerBase does not have barrier all.")

    def _finalize(self):
        """Nothing is held that must be given back."""


class PaddleCloudRoleMaker(RoleMakerBase):
    """From the variables of a PaddleCloud job, a launcher, Kubernetes, or a shell."""

    def __init__(self, is_collective=False):
        super().__init__()
        self._is_collective = is_collective

    def _make(self):
        return _native.role_from_environment(self._is_collective)


class GeneralRoleMaker(RoleMakerBase):
    """From the variables of a job whose trainers have end points too."""

    def __init__(self, **kwargs):
        super().__init__()
        known = "hdfs_name hdfs_ugi path init_timeout_seconds run_timeout_seconds http_ip_port"
        for name in kwargs:
            if name not in known.split():
                raise TypeError("GeneralRoleMaker has no argument {}".format(name))

    def _make(self):
        return _native.general_role()


class MPIRoleMaker(RoleMakerBase):
    """From what `mpirun` sets."""

    def _make(self):
        return _native.mpi_role()


class MPISymetricRoleMaker(MPIRoleMaker):
    """From what `mpirun` sets, two processes a machine: even ranks are servers, odd trainers."""


class UserDefinedRoleMaker(RoleMakerBase):
    """From its arguments."""

    def __init__(self, current_id=0, role=Role.WORKER, worker_num=0, server_endpoints=None):
        super().__init__()
        self._made = _native.user_defined_role(current_id, role, worker_num, server_endpoints)


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """From its arguments, for trainers that work without servers."""

    def __init__(self, current_id=0, worker_endpoints=None):
        super().__init__()
        self._made = _native.user_defined_collective_role(current_id, worker_endpoints)
