"""Loggers that leave those of the script alone."""

import logging


def get_logger(name, level, fmt=None):
    """A logger with a handler and a format of its own; none of its lines appears twice."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    handler = logging.StreamHandler()
    if fmt:
        handler.setFormatter(logging.Formatter(fmt=fmt))
    logger.addHandler(handler)
    logger.propagate = False
    return logger
