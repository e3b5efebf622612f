"""Read-your-writes: the writes of a controller that its stores do not show yet.

A store lags behind the server. A reconcile that reads a store without its own writes repeats them, and creates the
same objects twice. A controller therefore has one `OwnWrites`, in which its reconciler records each write. For each
owner it contains:

- **Versions to reach.** The response to a write carries a resourceVersion. Until the store has passed it,
  `defer_if_stale` defers the owner's key without occupying a worker; the key is enqueued when the store has caught
  up. After 0.5 s that is an error, and the key is retried with backoff. A reconcile thus sees every confirmed write.
- **Unobserved objects.** An object that was created and deleted before a relist never appears in a watch event. When a
  store passes its version without showing it, the key is enqueued.
- **Echoes.** The watch event of an own write contains no news: `enqueue_unless_echo` ignores it, once. It often
  arrives before the response to the write, so events during a reconcile are evaluated after the reconcile.
- **Unconfirmed creates.** A create is recorded before it is sent, and confirmed by its response. Without a response
  the object may exist; it is created again under the same name, never under another one.
- **Deletions.** A deletion returns no version. Until the store shows the object terminating or deleted, its uid is in
  `deleted`, and counts exclude it; or the key is deferred (`await_deletion`). `released` contains the uids whose
  finalizer was removed.
- **Unverified owners.** An unconfirmed status write may have happened, and a newly elected replica may lack its
  predecessor's writes. The owner is then read live, once, before the next reconcile: `must_verify` and `verify`.
- **Expectations.** `kcr.Expectations`, client-go's form, keeps its counts here.

Pending writes are compared with the store on demand instead of counted from events, so relists and missed or repeated
events are harmless, and nothing expires. All of it is in memory and may be lost at any moment, because a new process
starts with a list that shows all earlier writes. Versions only increase and need no uid; all other records belong to
one uid, so an object that is created again under an old name starts clean.
"""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kcr.api.meta import Key, Resource
from kcr.arguments import checked, checked_on_failure
from kcr.client import Client
from kcr.client.context import reconciled_key
from kcr.controller.generated_names import UnansweredCreates
from kcr.controller.pending_objects import PendingObjects, is_running
from kcr.errors import KcrError
from kcr.informer import Store
from kcr.informer.store import StoreProgress, version_of

# How long a key is deferred for a store, before that becomes an error.
STALE_SECONDS = 0.5
# How many events of a key wait for the end of its reconcile; later ones enqueue it at once.
_MAX_EVENTS = 256


class StaleStoreError(KcrError):
    """A store still lags behind our own writes; the key is retried with backoff."""


class OwnWrites:
    """The writes of one controller that its stores do not show yet; the module's docstring has the contract.

    ```python
    own_writes = kcr.OwnWrites()
    ...
    written = await client.patch(website, changed)
    own_writes.wrote(website.key, websites, written)
    ...
    manager.add_controller("website", reconciler, own_writes=own_writes)
    ```

    A reconciler calls `forget` when the object of its key does not exist.
    """

    @checked
    def __init__(
        self, on_stale: Callable[[Store[Any]], None] | None = None, leading_since: Callable[[], int] = lambda: 0
    ) -> None:
        """Start with nothing to wait for.

        Args:
            on_stale: Called with each store that defers a key, every time.
            leading_since: Returns the version with which this process leads (`Manager.leading_since`); 0 without
                election.
        """
        self.leading_since = leading_since
        # The writes that stores have yet to show, by key: a key in here may have to be deferred (`defer_if_stale`).
        self.pending: dict[Key, PendingVersions] = {}
        # The size at which shown writes are swept. It doubles, so that a key costs a constant.
        self._sweep_at = 64
        self._objects: dict[Key, PendingObjects] = {}
        # The member clusters with owners in here.
        self._clusters: set[str] = set()
        self._on_stale = on_stale
        # The writes that may have happened, and that are read live before the next reconcile of their key: the kind and
        # the key of each object, without a name where the server was to draw it: of `TrackedWrites` and `Children`.
        self.unanswered: dict[Key, dict[tuple[type[Resource], Key], None]] = {}
        # The creates under names that the client draws (`generateName`), until they are answered.
        self.generated: dict[Key, UnansweredCreates] = {}
        # The events that arrive while their key is reconciled, each with the function that enqueues the key for it.
        self._events: dict[Key, list[tuple[str, Callable[[], object]]]] = {}

    @checked_on_failure
    def wrote(self, key: Key, store: Store[Any], written: Resource) -> None:
        """Note a write that was answered.

        Args:
            key: The key that is reconciled.
            store: Where the object that was written will show up.
            written: The object as the server returned it. One without a version, as the server answers a create that
                is a dry run, is not kept and will never show up.
        """
        version = written.metadata.resource_version
        if not version:
            return
        self.require_version(key, store, written)
        pending = self.pending[reconciled_key(key)]
        pending.own_versions.add(version)
        pending.written.append((store, written.key))

    @checked_on_failure
    def require_version(self, key: Key, store: Store[Any], obj: Resource) -> None:
        """Defer a key until a store has reached the version of an object, written by any client.

        A version that is not a number cannot be compared: it counts as reached.
        """
        versions = self.pending.setdefault(reconciled_key(key), PendingVersions()).versions
        part = store, store.progress_of(obj)
        versions[part] = max(versions.get(part, 0), version_of(obj.metadata.resource_version))

    @checked_on_failure
    def await_deletion(self, key: Key, store: Store[Any], shown: Resource) -> None:
        """Defer a key until a store shows an object, which the server has deleted, as terminating or not at all."""
        is_shown = partial(is_running, store, shown.key, shown.metadata.uid)
        pending = self.pending.setdefault(reconciled_key(key), PendingVersions())
        pending.deletions.append((store, store.progress_of(shown), is_shown))
        if len(self.pending) >= self._sweep_at:
            # Keys that may never run again, as of Jobs that are gone.
            for other in [*self.pending]:
                if other not in self._events and not self.is_stale(other):
                    self.forget_versions(other)
            self._sweep_at = 2 * len(self.pending) + 64

    def is_echo(self, key: Key, version: str) -> bool:
        """Return whether a watch event shows nothing but a write that was noted for the key; true once per write."""
        pending = self.pending.get(key)
        if pending is None or version not in pending.own_versions:
            return False
        pending.own_versions.discard(version)
        return True

    def enqueue_unless_echo(self, key: Key, version: str, enqueue: Callable[[], object]) -> None:
        """Enqueue a key for a watch event, unless the event shows nothing but a write of the key's own reconcile.

        While the key is reconciled, its write may be unanswered, and so unknown. Then this is decided when the
        reconcile ends, which loses no time: a key is never reconciled twice at once.

        Args:
            key: The key.
            version: The version of the object that the event shows; empty when the event is no echo for sure.
            enqueue: Enqueues the key.
        """
        events = self._events.get(key)
        # The bound is for memory alone: a key that is enqueued while it is reconciled has one more turn, however often.
        if events is not None and version and len(events) < _MAX_EVENTS:
            events.append((version, enqueue))
        elif not self.is_echo(key, version):
            enqueue()

    def begin(self, key: Key) -> None:
        """Note that a reconcile begins; called by the worker, and followed by `end`."""
        self._events[key] = []

    def end(self, key: Key, enqueue: Callable[[], None]) -> None:
        """Record the end of a reconcile, and enqueue its key for changes that it has not observed.

        That is an event that was no echo; or an object that was written and that a store lacks once it has passed the
        version.

        Args:
            key: The key.
            enqueue: Enqueues it for the object.
        """
        # Popped first, so that nothing that is enqueued here waits for an end that has been.
        for shown, wanted in self._events.pop(key, ()):
            # By now the answers to all writes are in, but of those that were lost: their echo enqueues, as it must.
            if not self.is_echo(key, shown):
                wanted()
        pending = self.pending.get(key)
        if pending is None:
            return
        for (_, progress), version in tuple(pending.versions.items()):
            progress.notify_at_version(version, partial(self._all_reached, key, pending, enqueue))

    def follow(self, key: Key, store: Store[Any], written: Resource, enqueue: Callable[[], None]) -> None:
        """Enqueue a key when its stores have passed its writes, and one lacks an object: for a write without `end`.

        Args:
            key: The key.
            store: The store of the write that was noted last.
            written: The object in its answer.
            enqueue: Enqueues the key.
        """
        if key in self._events:
            return  # `end` does
        progress, version = store.progress_of(written), version_of(written.metadata.resource_version)
        progress.notify_at_version(version, partial(self._all_reached, key, self.pending[key], enqueue))

    def _all_reached(self, key: Key, pending: "PendingVersions", enqueue: Callable[[], None]) -> None:
        """Drop pending writes that all stores have passed: their handlers have been called with them."""
        # A reconcile that has begun since sees everything.
        if self.pending.get(key) is not pending or _lagging(pending):
            return
        self.forget_versions(key)
        if (objects := self._objects.get(key)) is not None:
            objects.forget_releases()
        # The store has passed the version of the write: it shows the object, or the object is deleted again.
        if any(not store.is_closed and store.get(name) is None for store, name in pending.written):
            enqueue()

    def of(self, owner: Resource) -> PendingObjects:
        """Return the pending writes of an owner; those of another uid of its name are dropped."""
        key = reconciled_key(owner.key)
        pending = self.find(key, owner.metadata.uid)
        if pending is None:
            if key.cluster:
                self._clusters.add(key.cluster)
            pending = self._objects[key] = PendingObjects(owner.metadata.uid, self.leading_since())
        return pending

    def find(self, key: Key, uid: str) -> PendingObjects | None:
        """Return the pending writes of the owner with this key and uid, or None."""
        pending = self._objects.get(key)
        if pending is None or pending.uid != uid:
            # Handlers know an owner in a member by its local key.
            in_members = (self._objects.get(key.in_cluster(cluster)) for cluster in self._clusters)
            pending = next((one for one in in_members if one is not None and one.uid == uid), None)
        return pending

    def must_verify(self, owner: Resource, store: Store[Any]) -> bool:
        """Return whether an owner must be read live, because its store may show less than was written.

        That is after a write of its status that had no answer; and once for each owner after an election, as long as
        the store has not reached the version with which this process leads.
        """
        pending = self.of(owner)
        if pending.unconfirmed_status:
            return True
        before = pending.unverified_before
        return before > 0 and store.progress_of(owner).resource_version < before

    async def verify(self, client: Client, owner: Resource, store: Store[Any]) -> None:
        """Read an owner live, and defer its key until the store shows it as it is; to be followed by a requeue.

        Raises:
            KcrError: The server did not return the owner; it stays unverified.
        """
        live = await client.get(type(owner), owner.key)
        # Only after the answer: a request that fails leaves the owner unverified.
        self.require_version(owner.key, store, live)
        pending = self.of(owner)
        pending.unconfirmed_status, pending.unverified_before = False, 0

    @property
    def deferred(self) -> dict[Key, tuple["Lagging", ...]]:
        """The keys that are deferred, and the stores that have yet to reach a version; it may be read in any thread."""
        # A copy, because the loop's thread may change the map meanwhile.
        waiting = [(key, pending) for key, pending in self.pending.copy().items() if pending.timer is not None]
        return {key: lacking for key, pending in waiting if (lacking := tuple(_lagging(pending)))}

    def is_stale(self, key: Key) -> bool:
        """Return whether a store has yet to reach a version that the key waits for."""
        return bool(self.lagging(key))

    def lagging(self, key: Key) -> "list[Lagging]":
        """Return the stores that have yet to show the writes for a key."""
        pending = self.pending.get(key)
        return [] if pending is None else _lagging(pending)

    def unconfirmed(self, key: Key) -> tuple[str, ...]:
        """Return in words the writes for a key that were not answered or observed; it may be called in any thread."""
        words = [f"write {kind.resource.plural} {written}" for kind, written in self.unanswered.copy().get(key, ())]
        pending = self._objects.get(key)
        if pending is None:
            return tuple(words)
        words += [f"create {obj.resource.plural} {obj.key}" for obj in tuple(pending.creates.values())]
        if pending.unconfirmed_status:
            words.append(f"patch the status of {key}")
        if (expected := pending.expected) is not None and not expected.is_met:
            words.append(f"{expected.creations} creations and {expected.deletions} deletions expected")
        return tuple(words)

    @property
    def unconfirmed_creates(self) -> tuple[Key, ...]:
        """The keys with unanswered creates, whose objects may exist; it may be read in any thread."""
        return tuple(key for key, pending in self._objects.copy().items() if pending.creates)

    @property
    def unsettled(self) -> tuple[Key, ...]:
        """The keys with writes that were not answered and may still be executed; it may be read in any thread.

        What such a key belongs to (leadership, a shard, a namespace) is not released to another replica, which knows
        nothing of the write.
        """
        unanswered = (*self.unanswered.copy().items(), *self.generated.copy().items())
        return (*self.unconfirmed_creates, *(key for key, writes in unanswered if writes))

    def peek(self, owner: Resource) -> PendingObjects:
        """Return the pending writes of an owner, or an empty value that is not stored."""
        return self.find(reconciled_key(owner.key), owner.metadata.uid) or PendingObjects(owner.metadata.uid)

    def forget(self, key: Key) -> None:
        """Drop all pending writes of a key whose object is deleted or finished."""
        self._objects.pop(key, None)
        self.unanswered.pop(key, None)
        self.generated.pop(key, None)
        self.forget_versions(key)

    def forget_versions(self, key: Key) -> None:
        """Defer a key no longer: there is nothing left to decide about its object."""
        pending = self.pending.pop(key, None)
        if pending is not None and pending.timer is not None:
            pending.timer.cancel()

    def defer_if_stale(self, key: Key, enqueue: Callable[[], None]) -> bool:
        """Return whether a key that a worker is about to reconcile is deferred, because a store lags behind.

        Args:
            key: The key.
            enqueue: Enqueues the key; called when a store catches up or after 0.5 s, perhaps more than once.

        Raises:
            StaleStoreError: It was deferred for 0.5 s, and a store still lags.
        """
        pending = self.pending.get(key)
        if pending is None:
            return False
        stale = _lagging(pending)
        if not stale:
            # The reconcile that begins now sees all of it. Versions only grow, so the next write starts from nothing.
            self.forget_versions(key)
            return False
        if self._on_stale is not None:
            for one in stale:
                self._on_stale(one.store)
        if pending.expired:
            # Not cleared: each retry fails, with a longer backoff, until the store has caught up or is closed.
            raise StaleStoreError(f"{key}: the store does not show our own write yet; its watch is late")
        # Once for each deferral: events that enqueue the key meanwhile find the timer and the notifications set.
        if pending.timer is None:
            # An empty context: it must not log in the name of a reconcile.
            pending.timer = asyncio.get_running_loop().call_later(
                STALE_SECONDS, _force_after_timeout, pending, enqueue, context=contextvars.Context()
            )
            for one in stale:
                one.progress.notify_at_version(one.version, enqueue)
        return True


class PendingVersions:
    """The versions that stores have to reach for one key."""

    __slots__ = ("deletions", "expired", "own_versions", "timer", "versions", "written")

    def __init__(self) -> None:
        # By the store, and its part.
        self.versions: dict[tuple[Store[Any], StoreProgress], int] = {}
        # Deleted objects that defer the key, with whether the store still shows them as if they were not.
        self.deletions: list[tuple[Store[Any], StoreProgress, Callable[[], bool]]] = []
        # Those that were written here and whose event has not come.
        self.own_versions: set[str] = set()
        # The objects that were written, and where they will show up.
        self.written: list[tuple[Store[Any], Key]] = []
        # Runs while the key is deferred. It is not the queue's: a delay that the key has there stays its own.
        self.timer: asyncio.Handle | None = None
        self.expired: bool = False


class Lagging(NamedTuple):
    """A store, or a part of one, that has yet to reach a version; the next one, where a deletion is awaited."""

    store: Store[Any]
    progress: StoreProgress
    version: int


def _lagging(pending: PendingVersions) -> list[Lagging]:
    """Return the stores that do not show the writes yet; one that is closed never will."""
    # Strictly below: a store that has reached the version shows the write.
    lagging = [
        Lagging(store, progress, version)
        for (store, progress), version in pending.versions.items()
        if progress.resource_version < version and not progress.is_closed
    ]
    if pending.deletions:
        # The event of the deletion, too, moves its store to a higher version.
        pending.deletions = [one for one in pending.deletions if one[2]()]
        lagging += (Lagging(store, part, part.resource_version + 1) for store, part, _ in pending.deletions)
    return lagging


def _force_after_timeout(pending: PendingVersions, enqueue: Callable[[], None]) -> None:
    # The key gets its turn, and fails with a StaleStoreError: that is visible, which a silent wait is not.
    pending.expired = True
    enqueue()
