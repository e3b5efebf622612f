"""Structural sharing (interning): equal values are held once, which makes a cached object small.

Pods of one Job repeat their labels, owner references, containers and most of their conditions. A value on
its way into a store is compared with two stored ones, and takes over every equal part.
"""

import sys
from collections.abc import Mapping
from functools import cache

from msgspec import Struct
from msgspec.structs import force_setattr

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
    known = known if type(known) is kind else None
    fallback = fallback if type(fallback) is kind else None
    for name, is_word in _plan(kind):
        mine, theirs = getattr(new, name), getattr(known, name, None)
        if mine is theirs:
            continue
        if mine == theirs:
            force_setattr(new, name, theirs)
            continue
        other = getattr(fallback, name, None)
        if mine == other:
            force_setattr(new, name, other)
        elif isinstance(mine, Struct):
            share(mine, theirs, other)
        elif mine and type(mine) is tuple:
            force_setattr(new, name, _shared_items(mine, theirs or (), other or ()))
        elif mine and type(mine) is dict:
            force_setattr(new, name, _shared_entries(mine, theirs or {}, other or {}))
        elif is_word and type(mine) is str:
            force_setattr(new, name, sys.intern(mine))


@cache
def _plan(kind: type[Struct]) -> tuple[tuple[str, bool], ...]:
    fields = kind.__struct_fields__
    # A struct with a uid has a name of its own; other names, of containers say, are words.
    own = _OWN | {"name"} if "uid" in fields else _OWN
    return tuple((name, name in _WORDS) for name in fields if name not in own)


def _shared_entries(
    mine: Mapping[object, object], theirs: Mapping[object, object], others: Mapping[object, object]
) -> Mapping[object, object]:
    """Share key by key: pods of an Indexed Job have a label of their own among many that are alike."""
    entries: dict[object, object] = {}
    for key, value in mine.items():
        known = theirs.get(key)
        # Equal values may yet be of different types, as 1 and true are.
        if known != value or type(known) is not type(value):
            known = others.get(key)
            if known != value or type(known) is not type(value):
                known = value
        entries[sys.intern(key) if type(key) is str else key] = known
    return entries


def _shared_items(
    mine: tuple[object, ...], theirs: tuple[object, ...], others: tuple[object, ...]
) -> tuple[object, ...]:
    """Share item by item: with the same place of one or the other sequence, else with the item before."""
    items: list[object] = []
    before: object = None
    for place, item in enumerate(mine):
        known = theirs[place] if place < len(theirs) else before
        other = others[place] if place < len(others) else before
        if item == known:
            before = known
        elif item == other:
            before = other
        else:
            before = item
            if isinstance(item, Struct):
                share(item, known, other)
        items.append(before)
    return tuple(items)
