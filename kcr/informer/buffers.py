"""What waits for a slow handler, and what becomes of it when it is much.

All buffers keep the order of one object's changes. They differ in what they do when the handler falls behind:
`Block` makes the informer wait, `Coalesce` merges what is told of one object, and `Resnapshot` drops everything
and later tells the difference between what the handler last heard and what there is.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from kcr.api.meta import Resource

R = TypeVar("R", bound=Resource)
Pair = tuple[str, str]
Policy = Literal["block", "coalesce", "resnapshot"]

# How many notices wait before a policy takes effect.
SIZE = 4096


class Added(NamedTuple, Generic[R]):
    """A new object."""

    obj: R
    initial: bool


class Updated(NamedTuple, Generic[R]):
    """An object and its new version."""

    old: R
    new: R


class Gone(NamedTuple, Generic[R]):
    """The last state of an object that is gone, or the last known one when its end was not seen."""

    obj: R
    seen: bool


class Synced(NamedTuple):
    """All that was there at first has been told."""


Change = Added[R] | Updated[R] | Gone[R]
Notice = Change[R] | Synced


class Buffer(Protocol[R]):
    """Notices on their way to a handler."""

    @property
    def is_full(self) -> bool:
        """Whether the informer should wait."""
        ...

    def put(self, notice: Notice[R]) -> None:
        """Add a notice; there is always room for it."""
        ...

    def take(self) -> Notice[R] | None:
        """Return what to tell next, None when there is nothing."""
        ...


class Block(Generic[R]):
    """Keeps every notice, and is full when there are many: the informer stops reading until there is room.

    A list is taken whole, so for a moment there may be one list more than the size.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._notices: deque[Notice[R]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether the informer should wait."""
        return len(self._notices) >= self._size

    def put(self, notice: Notice[R]) -> None:
        """Add a notice at the end."""
        self._notices.append(notice)

    def take(self) -> Notice[R] | None:
        """Return the oldest notice."""
        return self._notices.popleft() if self._notices else None


class Coalesce(Generic[R]):
    """Merges the notices of one object, and is never full: it holds at most two for each life of an object."""

    is_full = False

    def __init__(self) -> None:
        # The notices of each object, in the order in which the objects changed first.
        self._pending: dict[Pair, list[Notice[R]]] = {}

    def put(self, notice: Notice[R]) -> None:
        """Add a notice, merged with the one before it about the same object where that loses nothing."""
        pending = self._pending.setdefault(_pair(notice), [])
        pending[-1:] = merged(pending[-1], notice) if pending else (notice,)

    def take(self) -> Notice[R] | None:
        """Return the first notice of the object that has waited longest."""
        if not self._pending:
            return None
        pair = next(iter(self._pending))
        pending = self._pending[pair]
        notice = pending.pop(0)
        if not pending:
            del self._pending[pair]
        return notice


def merged(before: Notice[R], after: Notice[R]) -> tuple[Notice[R], ...]:
    """Return what is left of two notices about one object.

    An addition and the deletion after it both stay, for whoever waits to see what was created; so do a deletion
    and the addition after it, which are two objects.
    """
    match before, after:
        case Added(_, initial), Updated(_, new):
            return (Added(new, initial),)
        case Updated(old, _), Updated(_, new):
            return (Updated(old, new),)
        case Updated(), Gone():
            return (after,)
    return (before, after)


class Resnapshot(Generic[R]):
    """Drops everything when there is too much, and then tells the difference to what there is; it is never full.

    It remembers the version of each object that the handler heard of last. These are the store's own values but
    for what has changed since, so the memory is a pointer per object.
    """

    is_full = False

    def __init__(self, size: int, present: Callable[[], Iterable[R]]) -> None:
        """Make a buffer.

        Args:
            size: How many notices wait at most.
            present: Returns all objects the handler may see, as they are now.
        """
        self._size = size
        self._present = present
        self._notices: deque[Notice[R]] = deque()
        # What the handler has been told last, by key.
        self._told: dict[Pair, R] = {}
        # What is left of the difference; None while notices are told as they come.
        self._difference: Iterator[Change[R]] | None = None
        # Whether something changed while the difference was being told.
        self._is_outdated = False

    def put(self, notice: Notice[R]) -> None:
        """Add a notice at the end; what came before may be dropped for it."""
        if isinstance(notice, Synced):
            self._notices.append(notice)
        elif self._difference is not None:
            self._is_outdated = True
        elif len(self._notices) < self._size:
            self._notices.append(notice)
        else:
            dropped = (*self._notices, notice)
            is_initial = any(isinstance(found, Added) and found.initial for found in dropped)
            self._difference = self._differences(initial=is_initial)
            self._notices = deque(found for found in dropped if isinstance(found, Synced))

    def take(self) -> Notice[R] | None:
        """Return the next difference, or the oldest notice."""
        notice = self._next()
        match notice:
            case Added(obj, _) | Updated(_, obj):
                self._told[_pair(notice)] = obj
            case Gone():
                self._told.pop(_pair(notice), None)
        return notice

    def _next(self) -> Notice[R] | None:
        while self._difference is not None:
            for change in self._difference:
                return change
            # All is told as it was when the telling began. If it has changed since, there is a new difference.
            self._difference = self._differences(initial=False) if self._is_outdated else None
        return self._notices.popleft() if self._notices else None

    def _differences(self, *, initial: bool) -> Iterator[Change[R]]:
        self._is_outdated = False
        present = {(obj.metadata.namespace, obj.metadata.name): obj for obj in self._present()}
        for pair, old in list(self._told.items()):
            if pair not in present or present[pair].metadata.uid != old.metadata.uid:
                yield Gone(old, seen=False)
        for pair, new in present.items():
            known = self._told.get(pair)
            if known is None:
                yield Added(new, initial)
            elif known is not new:
                yield Updated(known, new)


def _pair(notice: Notice[R]) -> Pair:
    match notice:
        case Added(obj, _) | Updated(_, obj) | Gone(obj, _):
            return obj.metadata.namespace, obj.metadata.name
    # No object has this name.
    return "", ""
