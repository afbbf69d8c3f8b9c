"""Nests: variables in lists, tuples, named tuples and dicts of each other."""

from collections.abc import Mapping, Sequence

__all__ = [
    "assert_same_structure",
    "convert_to_list",
    "flatten",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
]


def is_sequence(seq):
    """Whether it is a nest: a list, a tuple or a dict."""
    return isinstance(seq, (Mapping, Sequence)) and not isinstance(seq, str)


def _items(nest):
    """What stands in a nest; that of a dict in the order of its sorted keys."""
    return [nest[key] for key in sorted(nest)] if isinstance(nest, Mapping) else list(nest)


def _like(nest, items):
    """A nest of the same kind around other items."""
    if isinstance(nest, Mapping):
        found = dict(zip(sorted(nest), items))
        return type(nest)((key, found[key]) for key in nest)
    if hasattr(nest, "_fields"):
        return type(nest)(*items)
    return type(nest)(items)


def flatten(nest):
    """What stands in a nest, as a flat list."""
    if not is_sequence(nest):
        return [nest]
    return [leaf for item in _items(nest) for leaf in flatten(item)]


def pack_sequence_as(structure, flat_sequence):
    """The items of a flat list in the places that they have in `structure`."""
    flat = list(flat_sequence)
    if not is_sequence(structure):
        if len(flat) != 1:
            raise ValueError(
                "Structure is a scalar but len(flat_sequence) == %d > 1" % len(flat)
            )
        return flat[0]
    wanted = len(flatten(structure))
    if wanted != len(flat):
        raise ValueError(
            "Could not pack sequence. Structure had %d elements, but flat_sequence had %d "
            "elements." % (wanted, len(flat))
        )
    left = iter(flat)

    def pack(nest):
        if not is_sequence(nest):
            return next(left)
        return _like(nest, [pack(item) for item in _items(nest)])

    return pack(structure)


def map_structure(func, *structure):
    """The nest of what `func` gives for the items at the same place of each nest."""
    flat = [flatten(nest) for nest in structure]
    return pack_sequence_as(structure[0], [func(*items) for items in zip(*flat)])


def assert_same_structure(nest1, nest2, check_types=True):
    """ValueError or TypeError unless two nests have the same places."""
    sizes = len(flatten(nest1)), len(flatten(nest2))
    if sizes[0] != sizes[1]:
        raise ValueError(
            "The two structures don't have the same number of elements: %d and %d" % sizes
        )
    _same(nest1, nest2, check_types)


def _same(one, other, check_types):
    if is_sequence(one) != is_sequence(other):
        raise ValueError(
            "The two structures don't have the same nested structure: %s and %s" % (one, other)
        )
    if not is_sequence(one):
        return
    if check_types and type(one) is not type(other):
        raise TypeError(
            "The two structures don't have the same sequence type: %s and %s"
            % (type(one), type(other))
        )
    if len(one) != len(other) or (isinstance(one, Mapping) and sorted(one) != sorted(other)):
        raise ValueError("The two structures don't have the same items: %s, %s" % (one, other))
    for item, also in zip(_items(one), _items(other)):
        _same(item, also, check_types)


def convert_to_list(value, n, name, dtype=int):
    """One number as often as asked for, or as many as there must be."""
    if isinstance(value, dtype):
        return [value] * n
    try:
        found = list(value)
    except TypeError:
        found = []
    if len(found) != n or not all(isinstance(item, dtype) for item in found):
        raise ValueError(
            "The %s's type must be list or tuple of %d integers. Received: %s" % (name, n, value)
        )
    return found
