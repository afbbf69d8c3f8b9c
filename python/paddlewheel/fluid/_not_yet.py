"""What Fluid has and this version has not yet."""

REASON = "{} is not yet there in this version of paddlewheel: {}"

LATER = "it comes later"
DATASETS = "reading datasets from files comes later; feed batches with fluid.DataFeeder"
COLLECTIVE = "training without servers on several machines is not there; use parameter servers"

UNKNOWN = "paddlewheel has no {}.{}; docs/fluid-map.md says what of Fluid it has"


def not_yet(what, why=LATER):
    """The error that a user gets."""
    return NotImplementedError(REASON.format(what, why))


def not_yet_class(name, why=LATER, doc=None):
    """A class that can be named but not made."""

    def __init__(self, *args, **kwargs):
        raise not_yet(name, why)

    members = {"__doc__": doc or name + ": not yet there.", "_not_yet": True}
    return type(name.rpartition(".")[2], (), {"__init__": __init__, **members})


def not_yet_function(name, why=LATER):
    """A function that can be named but not called."""

    def function(*args, **kwargs):
        raise not_yet(name, why)

    function.__name__ = name.rpartition(".")[2]
    function.__doc__ = name + ": not yet there."
    function._not_yet = True
    return function


def unknown(module):
    """A `__getattr__` for a module that is smaller than Fluid's."""
    fluids = module.replace("paddlewheel", "paddle")

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(UNKNOWN.format(fluids, name))

    return __getattr__
