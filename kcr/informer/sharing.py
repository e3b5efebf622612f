"""Equal values held once: what makes a cached object small.

Pods of one Job repeat their labels, owner references, containers and most of their conditions. A value on
its way into a store is laid over one that is there already, its previous version or a sibling, and takes
over every part that is equal.
"""

import sys
from functools import cache

import msgspec
from msgspec.structs import force_setattr

# Words that come from small vocabularies. They are shared by name where no sibling has the same, and a
# node or a namespace has many objects. Names, uids, versions and messages are never interned.
_WORDS = frozenset({"namespace", "node_name", "phase", "reason", "type", "status", "restart_policy"})


def share(new: msgspec.Struct, known: msgspec.Struct) -> None:
    """Replace the parts of a value by the equal parts of another.

    The value does not change, only what it is made of; it must be of one's own making still, for nothing
    else in the program may change a frozen value.

    Args:
        new: The value, not yet seen by anybody.
        known: A value of the same type.
    """
    for name, is_word in _plan(type(new)):
        mine, theirs = getattr(new, name), getattr(known, name)
        if mine is theirs:
            continue
        if mine == theirs:
            force_setattr(new, name, theirs)
        elif isinstance(mine, msgspec.Struct):
            if type(mine) is type(theirs):
                share(mine, theirs)
        elif is_word and type(mine) is str:
            force_setattr(new, name, sys.intern(mine))
        elif type(mine) is tuple and mine and theirs:
            force_setattr(new, name, _shared_items(mine, theirs))


@cache
def _plan(kind: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    return tuple((name, name in _WORDS) for name in kind.__struct_fields__)


def _shared_items(mine: tuple[object, ...], theirs: tuple[object, ...]) -> tuple[object, ...]:
    items = list(mine)
    for place, (item, known) in enumerate(zip(mine, theirs, strict=False)):
        if item == known:
            items[place] = known
        elif isinstance(item, msgspec.Struct) and type(item) is type(known):
            share(item, known)
    return tuple(items)
