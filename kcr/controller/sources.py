"""Which objects a controller watches, and which keys their changes stand for."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from kcr.api.meta import Key, Resource, controller_of
from kcr.informer import Handler

R = TypeVar("R", bound=Resource)


class Source(NamedTuple):
    """A kind to watch, and the keys that a change of one object asks to reconcile."""

    kind: type[Resource]
    keys: Callable[[Any], Iterable[Key]]


def watch(kind: type[R], *, to: Callable[[R], Iterable[Key]] | None = None) -> Source:
    """Watch a kind.

    Args:
        kind: The kind.
        to: The keys that a change of one object stands for; without it, the object's own key. It is called on
            the event loop with every change, so it must be quick, and it never awaits.
    """
    return Source(kind, to or _own_key)


def owned(kind: type[Resource], *, by: type[Resource]) -> Source:
    """Watch a kind whose objects are controlled by another; a change stands for the owner's key."""
    return Source(kind, partial(_owner_key, by))


class Enqueue(Handler[R], Generic[R]):
    """Adds the keys of every change to a queue. An update asks for those of the old object and of the new."""

    def __init__(self, keys: Callable[[R], Iterable[Key]], add: Callable[[Key], None]) -> None:
        self._keys = keys
        self._add = add

    def on_add(self, obj: R, initial: bool) -> None:
        """Add the object's keys."""
        for key in self._keys(obj):
            self._add(key)

    def on_update(self, old: R, new: R) -> None:
        """Add the keys of both, since one that is no longer meant must look again as well."""
        for key in dict.fromkeys((*self._keys(old), *self._keys(new))):
            self._add(key)

    def on_delete(self, obj: R) -> None:
        """Add the object's keys."""
        for key in self._keys(obj):
            self._add(key)


def _owner_key(owner: type[Resource], obj: Resource) -> tuple[Key, ...]:
    """Map an object to its controller, if that is of the kind looked for. Versions of a group are one kind."""
    reference = controller_of(obj.metadata)
    wanted = owner.resource
    if reference is None or reference.kind != wanted.kind:
        return ()
    if reference.api_version.rpartition("/")[0] != wanted.group:
        return ()
    return (Key(obj.metadata.namespace if wanted.namespaced else "", reference.name),)


def _own_key(obj: Resource) -> tuple[Key, ...]:
    return (obj.key,)
