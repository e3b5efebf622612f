"""Where a controller's keys come from: objects it watches, and anything else that yields keys."""

from collections.abc import AsyncIterable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kcr.api.meta import Key, OwnerReference, Resource, controller_of
from kcr.controller.predicates import Predicate
from kcr.informer import Handler
from kcr.workqueue import WorkQueue

R = TypeVar("R", bound=Resource)


class Source(NamedTuple):
    """A kind to watch, the keys that a change of one object asks to reconcile, and which changes do."""

    kind: type[Resource]
    keys: Callable[[Any], Iterable[Key]]
    when: Predicate | None = None


class Channel(NamedTuple):
    """Keys from elsewhere."""

    keys: AsyncIterable[Key]


def watch(kind: type[R], *, to: Callable[[R], Iterable[Key]] | None = None, when: Predicate | None = None) -> Source:
    """Watch a kind.

    Args:
        kind: The kind.
        to: The keys that a change of one object stands for; without it, the object's own key. It is called on
            the event loop with every change, so it must be quick, and it never awaits.
        when: Which changes matter, such as `generation_changed`; all of them without it.
    """
    return Source(kind, to or _own_key, when)


def owned(
    kind: type[Resource], *, by: type[Resource], every_owner: bool = False, when: Predicate | None = None
) -> Source:
    """Watch a kind whose objects are controlled by another; a change stands for the owner's key.

    Args:
        kind: The kind of the dependents.
        by: The kind of the owner. Versions of its group are one kind.
        every_owner: Whether owners count that do not control the object.
        when: Which changes matter; all of them without it.
    """
    return Source(kind, partial(_every_owner if every_owner else _controller, by), when)


def channel(keys: AsyncIterable[Key]) -> Channel:
    """Reconcile whatever keys an asynchronous iterator yields: a timer's, a web hook's, another system's.

    It is read once the stores are synced. When it ends, the controller goes on without it; when it fails, so does
    the manager.
    """
    return Channel(keys)


class Enqueue(Handler[Any]):
    """Adds the keys of every change that matters. An update asks for those of the old object and of the new."""

    def __init__(self, source: Source, add: Callable[[Key], None]) -> None:
        self._keys = source.keys
        self._when = source.when
        self._add = add

    def on_add(self, obj: Resource, initial: bool) -> None:
        """Add the object's keys."""
        if self._when is None or self._when(None, obj):
            for key in self._keys(obj):
                self._add(key)

    def on_update(self, old: Resource, new: Resource) -> None:
        """Add the keys of both, since one that is no longer meant must look again as well."""
        if self._when is None or self._when(old, new):
            for key in dict.fromkeys((*self._keys(old), *self._keys(new))):
                self._add(key)

    def on_delete(self, obj: Resource) -> None:
        """Add the object's keys."""
        if self._when is None or self._when(obj, None):
            for key in self._keys(obj):
                self._add(key)


class Feed:
    """Moves a channel's keys into a queue."""

    def __init__(self, name: str, source: Channel, queue: WorkQueue[Key]) -> None:
        self.name = f"{name} channel"
        self._source = source
        self._queue = queue

    async def run(self) -> None:
        """Add keys until there are no more."""
        async for key in self._source.keys:
            self._queue.add(key)


def _controller(owner: type[Resource], obj: Resource) -> tuple[Key, ...]:
    reference = controller_of(obj.metadata)
    return () if reference is None else _key_of(owner, reference, obj)


def _every_owner(owner: type[Resource], obj: Resource) -> tuple[Key, ...]:
    return tuple(key for reference in obj.metadata.owner_references for key in _key_of(owner, reference, obj))


def _key_of(owner: type[Resource], reference: OwnerReference, obj: Resource) -> tuple[Key, ...]:
    """Return the key of an object's owner, if that is of the kind looked for. Versions of a group are one kind."""
    wanted = owner.resource
    if reference.kind != wanted.kind or reference.api_version.rpartition("/")[0] != wanted.group:
        return ()
    return (Key(obj.metadata.namespace if wanted.namespaced else "", reference.name),)


def _own_key(obj: Resource) -> tuple[Key, ...]:
    return (obj.key,)
