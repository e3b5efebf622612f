"""The objects of one owner that were written, and that no store shows accordingly yet: a part of `OwnWrites`.

All of it is compared with the store when it is read, and nothing is counted from events, except by `kcr.Expectations`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kcr.api.meta import Key, Resource
from kcr.informer import Store
from kcr.informer.store import version_of


class Expected:
    """How many creations and deletions of an owner's objects have yet to be observed; at zero or below they are."""

    __slots__ = ("creations", "deletions", "since")

    def __init__(self, creations: int, deletions: int, since: float) -> None:
        self.creations: int = creations
        self.deletions: int = deletions
        self.since: float = since

    @property
    def is_met(self) -> bool:
        """Whether everything was observed."""
        return self.creations <= 0 and self.deletions <= 0


class AppliedObject(NamedTuple):
    """An object that was applied: a hash of the content, and the answer's uid, generation and resourceVersion."""

    digest: bytes
    uid: str
    generation: int | None
    resource_version: str


class PendingObjects:
    """The objects of one owner that were written, and that the store does not show so yet.

    Attributes:
        uid: The owner's.
        creates: Names to appear: the creates that were sent and not answered, by key, as they were sent.
        unconfirmed_status: Whether a write of the owner's status had no answer: the store may show less than the
            server has.
        unverified_before: The version that the owner's store has to reach before it shows all that an earlier leader
            wrote; 0 once the owner was read live.
        expected: The counts of `kcr.Expectations`; None for none.
        applied: The objects that `kcr.Children` has applied, by group, plural, namespace and name.
    """

    __slots__ = (
        "_deletions", "_releases", "applied", "creates", "expected", "uid", "unconfirmed_status", "unverified_before",
    )  # fmt: skip

    def __init__(self, uid: str, leading_since: int = 0) -> None:
        self.uid: str = uid
        self.creates: dict[Key, Resource] = {}
        self.unconfirmed_status: bool = False
        self.unverified_before: int = leading_since
        self.expected: Expected | None = None
        self.applied: dict[tuple[str, str, str, str], AppliedObject] = {}
        # By the object's uid: whether it is still shown.
        self._deletions: dict[str, Callable[[], bool]] = {}
        self._releases: dict[str, tuple[Store[Any], Resource, str]] = {}

    def expect_deletion(self, store: Store[Any], obj: Resource) -> None:
        """Note that the server has deleted an object, or has set its deletionTimestamp."""
        uid = obj.metadata.uid
        self._deletions[uid] = partial(is_running, store, obj.key, uid)

    def expect_absence(self, uid: str, is_shown: Callable[[], bool]) -> None:
        """Note a deleted object that is to be left out for longer: as long as `is_shown` returns that it must be.

        That is for owners that list their objects in their status, too.
        """
        self._deletions[uid] = is_shown

    def expect_release(self, store: Store[Any], obj: Resource, finalizer: str) -> None:
        """Record that this process removed an object's finalizer, or that the object is deleted.

        Args:
            store: Shows the object.
            obj: The object in the answer; without one, as it was.
            finalizer: Its name.
        """
        self._releases[obj.metadata.uid] = (store, obj, finalizer)

    def forget_releases(self) -> None:
        """Drop the removals of finalizers that the store shows.

        To be called when the store has passed a write: a later look may find the API server restored from a backup, in
        which the object has its finalizer again.
        """
        for uid, (store, freed, finalizer) in tuple(self._releases.items()):
            shown = _shown(store, freed.key, uid)
            if shown is None or finalizer not in shown.metadata.finalizers or _is_back(shown, freed, finalizer):
                del self._releases[uid]

    @property
    def deleted(self) -> frozenset[str]:
        """The uids of deleted objects that the store does not show as terminating or deleted yet."""
        # Compared with the store at each look, and never counted from events: a relist that skips an event changes
        # nothing.
        for uid, is_shown in tuple(self._deletions.items()):
            if not is_shown():
                del self._deletions[uid]
        return frozenset(self._deletions)

    @property
    def released(self) -> frozenset[str]:
        """The uids of the objects that have lost their finalizer, though the store still shows it."""
        self.forget_releases()
        return frozenset(self._releases)


def _is_back(shown: Resource, freed: Resource, finalizer: str) -> bool:
    """Return whether an object with a finalizer is newer than the one without it.

    The version of the store does not count: the store never shows the removal if its watch has lost the event.
    """
    versions = version_of(shown.metadata.resource_version), version_of(freed.metadata.resource_version)
    return finalizer not in freed.metadata.finalizers and versions[0] > versions[1]


def _shown(store: Store[Any], key: Key, uid: str) -> Resource | None:
    obj: Resource | None = None if store.is_closed else store.get(key)
    return obj if obj is not None and obj.metadata.uid == uid else None


def is_running(store: Store[Any], key: Key, uid: str) -> bool:
    """Return whether the store shows an object, and shows it without a deletionTimestamp."""
    shown = _shown(store, key, uid)
    return shown is not None and shown.metadata.deletion_timestamp is None
