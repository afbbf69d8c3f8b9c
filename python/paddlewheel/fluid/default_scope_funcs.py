"""Scopes inside each other; each thread has a current one."""

import threading

from . import core

_here = threading.local()


def _scopes():
    if not getattr(_here, "scopes", None):
        _here.scopes = [core.Scope()]
    return _here.scopes


def get_cur_scope():
    """The innermost scope of this thread."""
    return _scopes()[-1]


def enter_local_scope():
    """Opens a scope inside the current one."""
    _scopes().append(get_cur_scope().new_scope())


def leave_local_scope():
    """Closes the current scope; its variables are gone."""
    _scopes().pop()
    get_cur_scope().drop_kids()


def var(name):
    """A variable of the current scope, made if it is not there."""
    return get_cur_scope().var(name)


def find_var(name):
    """A variable of the current scope or one around it; None if there is none."""
    return get_cur_scope().find_var(name)


def scoped_function(func):
    """Calls a function in a scope of its own."""
    enter_local_scope()
    try:
        func()
    finally:
        leave_local_scope()
