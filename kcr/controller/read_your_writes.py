"""Read-your-writes: the gates that defer a key until the stores show the writes of its last reconcile.

`ReadYourWrites` is for an `OwnWrites` in which the reconciler records its writes. All other controllers, but those with
`own_writes=False`, have `TrackedWrites`: the client reports the writes of each reconcile, and the next one of the key
begins when the stores show them.

- **A write with an answer** defers the key until each store of the kind, if it selects the object, has reached the
  version of the answer.
- **A deletion** defers it until these stores show the object as terminating or not at all.
- **A write that may have happened** (no answer, 5xx, cancelled) is looked up before the next reconcile: the object is
  read live, and the stores have to show that version. That reconcile fails when the server does not answer.
- **A create with `generateName`** is sent under a name that is drawn here (`generated_names`). One that may have
  happened keeps its name: a later reconcile that creates an object of the same kind, prefix and controller repeats it.

A key is deferred for at most 0.5 s; then it is retried with backoff. Member clusters (`kcr.Clusters`) have stores of
their own, and the writes to them are tracked by the client that was used. Not tracked are kinds without a store in the
cluster, writes to other servers, dry runs, bindings, and writes by other clients, such as kubernetes-asyncio's.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol

from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.client.context import GeneratedName, WritingClient
from kcr.controller.gates import GateDecision
from kcr.controller.generated_names import NamelessCreate, UnansweredCreates
from kcr.controller.observers import Observer, ReconcileRun
from kcr.controller.observers.breaker import Breaker
from kcr.controller.own_writes import STALE_SECONDS, OwnWrites, StaleStoreError
from kcr.controller.reconcile import Reconciler, Result
from kcr.informer import Informer
from kcr.workqueue import KeyState, Reason, WorkQueue

_STALE_STORE = Reason("reconcile", "deferred", detail="a store did not show our own write yet")
_UNSEEN_WRITE = Reason("reconcile", "unseen write", detail="an object that was written is gone")
# A global is found faster than the member of an enumeration.
_ADMIT = GateDecision.ADMIT

# Returns the informers of a kind, in any form: of the whole objects, of their metadata, of another version.
InformersOf = Callable[[type[Resource]], Iterable[Informer[Any]]]


class TrackedServer(Protocol):
    """A member cluster, as far as writes to it are tracked."""

    def is_server_of(self, client: WritingClient) -> bool:
        """Return whether a client talks to this cluster."""
        ...

    @property
    def client(self) -> Client:
        """Reads objects of this cluster live."""
        ...

    def informers_of(self, kind: type[Resource]) -> Iterable[Informer[Any]]:
        """Return the informers of a kind in this cluster, in any form."""
        ...


class OwnWritesGate:
    """Defers keys whose stores lag behind the writes of their last reconcile; the gate of an `OwnWrites`."""

    def __init__(self, own_writes: OwnWrites, queue: WorkQueue[Key]) -> None:
        """Make the gate.

        Args:
            own_writes: Knows the writes.
            queue: Gets the keys that were deferred.
        """
        self._own_writes = own_writes
        self._pending = own_writes.pending
        self._queue = queue

    def check(self, key: Key) -> GateDecision:
        """Defer a key whose stores do not show our own writes yet; it is enqueued when they do, or after 0.5 s.

        Raises:
            StaleStoreError: It was deferred for 0.5 s, and a store still lags.
        """
        # Nearly always nothing is pending at all, and that is known without the hash of the key.
        if not self._pending or key not in self._pending:
            return _ADMIT
        # The queue forgets the key's state when this turn is done.
        enqueue = partial(self._enqueue_deferred, key, self._queue.state(key))
        return GateDecision.DEFER if self._own_writes.defer_if_stale(key, enqueue) else GateDecision.ADMIT

    def _enqueue_deferred(self, key: Key, state: KeyState) -> None:
        for reason in (*state.processing_reasons, _STALE_STORE):
            self._queue.add(key, state.processing or 0, reason)

    def _enqueue_unseen(self, key: Key) -> None:
        """Queue a key for an object that was written and that a store lacks."""
        self._queue.add(key, priority=self._queue.priority(key), reason=_UNSEEN_WRITE)


class ReadYourWrites(OwnWritesGate, Observer):
    """The gate of an `OwnWrites` in which the reconciler records its writes.

    It observes reconciles as well, because an event that arrives during one is judged when that ends: it may be the
    echo of a write whose answer is still on its way. As an observer it is the innermost: `OwnWrites.end` follows the
    reconcile directly, so no failure of another observer loses an event that arrived meanwhile.
    """

    def begin(self, run: ReconcileRun) -> None:
        """Let the events of the key wait from now on."""
        self._own_writes.begin(run.key)

    def end(self, run: ReconcileRun) -> None:
        """Enqueue the key for the events that were no echoes, and later for a write that no store shows."""
        key, queue = run.key, self._queue
        self._own_writes.end(key, partial(queue.add, key, priority=queue.priority(key), reason=_UNSEEN_WRITE))


class TrackedWrites(OwnWritesGate):
    """The writes of one controller's reconciles: the gate of its keys, and a reconciler around the controller's."""

    def __init__(  # noqa: PLR0913  # by name
        self,
        own_writes: OwnWrites,
        queue: WorkQueue[Key],
        reconciler: Reconciler,
        *,
        client: Client,
        informers_of: InformersOf,
        members: Callable[[], Mapping[str, TrackedServer]],
        random: Random,
        breaker: Breaker | None = None,
    ) -> None:
        """Track no writes yet.

        Args:
            own_writes: Keeps the writes.
            queue: Gets the keys that were deferred.
            reconciler: The controller's.
            client: Reads objects live; writes to its server are tracked.
            informers_of: Returns the informers of a kind.
            members: Returns the member clusters by name; none for a program without them.
            random: Draws names for `metadata.generateName`.
            breaker: Counts the writes as well; None for none.
        """
        super().__init__(own_writes, queue)
        self._reconcile = reconciler.reconcile
        self._client = client
        self._informers_of = informers_of
        self._random, self._breaker = random, breaker
        self._unanswered = own_writes.unanswered
        self._members = members

    def reconcile(self, key: Key) -> Coroutine[Any, Any, Result]:
        """Reconcile a key, after its unanswered writes were looked up; a plain function, each reconcile pays for it."""
        if self._unanswered and key in self._unanswered:
            return self._look_up_and_reconcile(key)
        return self._reconcile(key)

    async def _look_up_and_reconcile(self, key: Key) -> Result:
        for kind, written in tuple(self._unanswered[key]):
            await self._look_up(key, kind, written)
        # Another replica may have taken over the key meanwhile.
        self._unanswered.pop(key, None)
        # The worker waits here, and not the key in the queue: that would end the backoff of a key that always fails.
        try:
            async with asyncio.timeout(STALE_SECONDS):
                while lagging := self._own_writes.lagging(key):
                    caught_up = asyncio.Event()
                    lagging[0].progress.notify_at_version(lagging[0].version, caught_up.set)
                    await caught_up.wait()
        except TimeoutError:
            raise StaleStoreError(f"{key}: the store does not show our own write yet; its watch is late") from None
        return await self._reconcile(key)

    def generate_name(
        self, owner: Key, client: WritingClient, kind: type[Resource], namespace: str, prefix: str, controller_uid: str
    ) -> GeneratedName | None:  # fmt: skip
        """Draw the name of an object that the reconcile of a key creates, or repeat that of an unanswered create."""
        if (cluster := self._cluster_of(client)) is None:
            return None
        wanted = NamelessCreate(kind, namespace, cluster, prefix, controller_uid)
        while True:
            drawn = self._own_writes.generated.setdefault(owner, UnansweredCreates()).name_for(wanted, self._random)
            created = Key(wanted.namespace, drawn.name)
            shown = any(one.store.get(created) is not None for one in self._showing(wanted.kind, cluster))
            if not drawn.may_exist or not shown:
                return drawn
            # It has arrived meanwhile, and the reconcile knows it from its store.
            self._answered(owner, wanted.kind, created.in_cluster(cluster))

    def refused(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Note that the create under a generated name was refused."""
        if (cluster := self._place_of(owner, client, kind, key)) is not None:
            self._answered(owner, kind, key.in_cluster(cluster))

    def _answered(self, key: Key, kind: type[Resource], written: Key) -> None:
        if (unanswered := self._unanswered.get(key)) is not None:
            unanswered.pop((kind, written), None)
        if (creates := self._own_writes.generated.get(key)) is not None:
            creates.answered(kind, written)
            if not creates:
                del self._own_writes.generated[key]

    async def _look_up(self, key: Key, kind: type[Resource], written: Key) -> None:
        """Read the object of an unanswered write, or all of its namespace, and let the stores reach its version."""
        informers = tuple(self._showing(kind, written.cluster))
        # There are none of a member cluster that was closed.
        if not informers:
            return
        client = self._members()[written.cluster].client if written.cluster else self._client
        # A list, because a controller has the right to that for sure.
        fields = f"metadata.name={written.name}" if written.name else ""
        live = await client.list(kind, written.namespace, fields=fields)
        if live and written.name:
            self._answered(key, kind, written)
        for informer in informers:
            for obj in live:
                if informer.shows(obj):
                    self._own_writes.require_version(key, informer.store, obj)
            if written.name and not live and (shown := informer.store.get(written)) is not None:
                self._own_writes.await_deletion(key, informer.store, shown)

    def _cluster_of(self, client: WritingClient) -> str | None:
        """Return the cluster whose server a write has reached, `""` for that of the manager; None if untracked."""
        if client.is_dry_run:
            return None
        if self._client.has_same_server(client):
            return ""
        return next((name for name, member in self._members().items() if member.is_server_of(client)), None)

    def _place_of(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> str | None:
        """Return the cluster of a write, also of a create under a generated name whose member is closed."""
        if (cluster := self._cluster_of(client)) is None and (creates := self._own_writes.generated.get(owner)):
            return creates.cluster_of(kind, key)
        return cluster

    def _showing(self, kind: type[Resource], cluster: str) -> Iterable[Informer[Any]]:
        member = self._members().get(cluster) if cluster else None
        informers = self._informers_of(kind) if not cluster else () if member is None else member.informers_of(kind)
        # Of a store that is not synced nothing is known, and its readers wait for it themselves.
        return (one for one in informers if one.store.synced and not one.store.is_closed)

    def wrote(
        self, owner: Key, client: WritingClient, kind: type[Resource], key: Key, obj: Resource, *, is_new: bool = False
    ) -> None:
        """Note a write of the reconcile of a key."""
        if self._breaker is not None:
            self._breaker.wrote(owner, client, kind, key, obj)
        if (cluster := self._cluster_of(client)) is None or not obj.metadata.resource_version:
            # Not of an API server, whose objects have versions; or of a member that is closed.
            self.unanswered(owner, client, kind, key)
            return
        for informer in self._showing(kind, cluster):
            if informer.shows(obj):
                self._own_writes.wrote(owner, informer.store, obj)
                if not is_new:  # its event may show the write of another
                    self._own_writes.is_echo(owner, obj.metadata.resource_version)
                # When no store shows it then, it is key again.
                self._own_writes.follow(owner, informer.store, obj, partial(self._enqueue_unseen, owner))
        if (self._unanswered or self._own_writes.generated) and key.name:
            # It was sent again, or found, and that has been answered.
            self._answered(owner, kind, key.in_cluster(cluster))

    def deleted(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Note a deletion of the reconcile of a key."""
        if self._breaker is not None:
            self._breaker.deleted(owner, client, kind, key)
        if (cluster := self._cluster_of(client)) is None:
            return
        for informer in self._showing(kind, cluster):
            if (shown := informer.store.get(key)) is not None:
                self._own_writes.await_deletion(owner, informer.store, shown)

    def unanswered(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Note a write of the reconcile of a key that may have happened."""
        if (cluster := self._place_of(owner, client, kind, key)) is not None:
            self._unanswered.setdefault(owner, {})[kind, key.in_cluster(cluster)] = None
            if (creates := self._own_writes.generated.get(owner)) is not None:
                creates.unanswered(kind, key.in_cluster(cluster))
