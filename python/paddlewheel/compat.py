"""Text, bytes and numbers as scripts for two versions of Python treat them."""

import math

int_type = int
long_type = int


def to_text(obj, encoding="utf-8", inplace=False):
    """The same with its bytes decoded, also inside a list, a set or a dict."""
    return _each(obj, lambda item: _text(item, encoding), inplace)


def to_bytes(obj, encoding="utf-8", inplace=False):
    """The same with its text encoded, also inside a list or a set."""
    return _each(obj, lambda item: _bytes(item, encoding), inplace)


def _each(obj, convert, inplace):
    if isinstance(obj, dict):
        items = {convert(key): convert(value) for key, value in obj.items()}
    elif isinstance(obj, (list, set)):
        items = type(obj)(convert(item) for item in obj)
    else:
        return convert(obj)
    if not inplace:
        return items
    obj.clear()
    obj.extend(items) if isinstance(obj, list) else obj.update(items)
    return obj


def _text(item, encoding):
    if isinstance(item, bytes):
        return item.decode(encoding)
    return item if item is None or isinstance(item, (str, bool, float)) else str(item)


def _bytes(item, encoding):
    if isinstance(item, str):
        return item.encode(encoding)
    return item if item is None or isinstance(item, bytes) else str(item).encode("latin-1")


def round(x, d=0):
    """The nearest number with so many decimals; a number in the middle goes away from zero."""
    scale = 10**d
    nearest = math.floor(abs(x) * scale + 0.5) / scale
    return math.copysign(nearest, x)


def floor_division(x, y):
    """`x // y`."""
    return x // y


def get_exception_message(exc):
    """The message of an exception."""
    assert exc is not None
    return str(exc)
