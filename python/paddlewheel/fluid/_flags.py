"""Settings that come from the environment as `FLAGS_<name>`; unknown ones are ignored."""

import os

DEFAULTS = {
    "check_nan_inf": False,
    "communicator_fake_rpc": False,
    "communicator_independent_recv_thread": True,
    "communicator_is_sgd_optimizer": True,
    "communicator_max_merge_var_num": 20,
    "communicator_min_send_grad_num_before_recv": 20,
    "communicator_send_queue_size": 20,
    "communicator_send_wait_times": 5,
    "communicator_thread_pool_size": 5,
    "cpu_deterministic": False,
    "dist_threadpool_size": 0,
    "eager_delete_tensor_gb": 0.0,
    "inner_op_parallelism": 0,
    "rpc_deadline": 180000,
    "rpc_disable_reuse_port": False,
    "rpc_get_thread_num": 12,
    "rpc_prefetch_thread_num": 12,
    "rpc_retry_bind_port": 3,
    "rpc_retry_times": 3,
    "rpc_send_thread_num": 12,
    "worker_update_interval_secs": 900,
}

#: Another spelling found in documents.
SPELLINGS = {
    "communicator_max_send_grad_num_before_recv": "communicator_min_send_grad_num_before_recv"
}


def parse(name, text):
    """A value from text, of the type of the flag's default."""
    default = DEFAULTS[name]
    if isinstance(default, bool):
        if text.lower() in ("1", "true", "yes", "on", "t", "y"):
            return True
        if text.lower() in ("0", "false", "no", "off", "f", "n", ""):
            return False
        raise ValueError("FLAGS_{}={} is neither true nor false".format(name, text))
    try:
        return type(default)(text)
    except ValueError:
        raise ValueError("FLAGS_{}={} is not a number".format(name, text)) from None


def from_environment(environment):
    """All flags with the values that an environment gives."""
    flags = dict(DEFAULTS)
    for key, text in environment.items():
        name = key[len("FLAGS_"):] if key.startswith("FLAGS_") else ""
        name = SPELLINGS.get(name, name)
        if name in flags:
            flags[name] = parse(name, text)
    return flags


FLAGS = from_environment(os.environ)


def known(name):
    """The flag's own name, with or without `FLAGS_` before it."""
    short = name[len("FLAGS_"):] if name.startswith("FLAGS_") else name
    if short not in FLAGS:
        raise ValueError("Flag {} cannot set its value through this function.".format(name))
    return short


def set_flags(flags):
    """Changes flags, given as a dict of `FLAGS_<name>` to value."""
    if not isinstance(flags, dict):
        raise TypeError("flags in set_flags should be a dict")
    for name, value in flags.items():
        FLAGS[known(name)] = value


def get_flags(flags):
    """The values of flags, given as one name or a list of them."""
    if isinstance(flags, str):
        flags = [flags]
    if not isinstance(flags, (list, tuple)):
        raise TypeError("Flags in get_flags should be a list, tuple or string.")
    return {name: FLAGS[known(name)] for name in flags}
