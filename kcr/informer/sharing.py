"""Structural sharing (interning): equal values are held once, which makes a cached object small.

Pods of one Job repeat their labels, owner references, containers and most of their conditions. A value on
its way into a store is compared with two stored ones, and takes over every equal part.
"""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from kcr.api.equality import exact_fields, same_json

T = TypeVar("T")
_Entries = Mapping[object, object]
_Items = tuple[object, ...]

# Words from small vocabularies, shared by name where neither value has the same.
_WORDS = frozenset({"namespace", "node_name", "phase", "reason", "type", "status", "restart_policy", "name"})
# Different in every object, so not even compared.
_OWN = frozenset({"uid", "resource_version", "message"})


def share(new: Struct, known: object, fallback: object) -> None:
    """Replace the parts of a value by the equal parts of others.

    The value does not change, only its parts are replaced by equal ones. No other code may have seen it yet.

    Args:
        new: The value.
        known: The most similar value: its previous version, or a sibling.
        fallback: Compared where `known` differs. Either may be None, or of another type.
    """
    kind = type(new)
    if type(known) is not kind:
        known, fallback = fallback, None
    known = known if type(known) is kind else None
    fallback = fallback if type(fallback) is kind else None
    for name, is_word, is_exact in _plan(kind):
        mine, theirs = getattr(new, name), getattr(known, name, None)
        # Most fields are the same object in both, such as a default.
        if mine is theirs:
            continue
        if mine == theirs and (is_exact or same_json(mine, theirs, decoded=True)):
            force_setattr(new, name, theirs)
            continue
        other = getattr(fallback, name, None)
        if mine == other and (is_exact or same_json(mine, other, decoded=True)):
            force_setattr(new, name, other)
        elif type(mine) is str:
            force_setattr(new, name, sys.intern(mine) if is_word else mine)
        elif isinstance(mine, Struct):
            share(mine, theirs, other)
        elif mine and type(mine) is tuple:
            force_setattr(new, name, _shared_items(mine, (_as(tuple, theirs), _as(tuple, other)), is_exact))
        elif mine and type(mine) is dict:
            force_setattr(new, name, _shared_entries(mine, (_as(dict, theirs), _as(dict, other)), is_exact))


def _as(kind: type[T], value: object) -> T:
    """Return a value, or an empty one where it is of another type: what `Any` holds may change its type."""
    return value if type(value) is kind else kind()


@cache
def _plan(kind: type[Struct]) -> tuple[tuple[str, bool, bool], ...]:
    """Return the fields to share: their names, whether they hold words, and whether equal values are the same JSON."""
    fields, exact = kind.__struct_fields__, exact_fields(kind)
    # A struct with a uid has a name of its own; other names, of containers say, are words.
    own = _OWN | {"name"} if "uid" in fields else _OWN
    return tuple((name, name in _WORDS, name in exact) for name in fields if name not in own)


def _shared_entries(mine: _Entries, stored: tuple[_Entries, _Entries], is_exact: bool) -> _Entries:
    """Share key by key: pods of an Indexed Job have a label of their own among many that are alike."""
    theirs, others = stored
    entries: dict[object, object] = {}
    for key, value in mine.items():
        known = theirs.get(key)
        if known != value or not (is_exact or same_json(known, value, decoded=True)):
            known = others.get(key)
            if known != value or not (is_exact or same_json(known, value, decoded=True)):
                known = value
        entries[sys.intern(key) if type(key) is str else key] = known
    return entries


def _shared_items(mine: _Items, stored: tuple[_Items, _Items], is_exact: bool) -> _Items:
    """Share item by item: with the same place of one or the other sequence, else with the item before."""
    theirs, others = stored
    items: list[object] = []
    before: object = None
    for place, item in enumerate(mine):
        known = theirs[place] if place < len(theirs) else before
        other = others[place] if place < len(others) else before
        if item == known and (is_exact or same_json(item, known, decoded=True)):
            before = known
        elif item == other and (is_exact or same_json(item, other, decoded=True)):
            before = other
        else:
            before = item
            if isinstance(item, Struct):
                share(item, known, other)
        items.append(before)
    return tuple(items)


def size_of(value: Any, seen: set[int]) -> int:
    """Return how many bytes a value takes, without those of its parts that were seen before.

    Args:
        value: An object, or a part of one.
        seen: The ids of what was measured; this adds those of the value and its parts.
    """
    size, left = 0, [value]
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        size += sys.getsizeof(part)
        match part:
            case Struct():
                left += [getattr(part, name) for name in part.__struct_fields__]
            case dict():
                left += [*part, *part.values()]
            case tuple() | list():
                left += part
            case Raw():
                size += memoryview(part).nbytes
    return size
