"""Sources of a controller's keys: watched objects, and anything else that yields keys; the kinds that it watches."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kcr.annotations import shown
from kcr.api.meta import Key, OwnerReference, Resource, controller_of, is_key
from kcr.api.resources import ResourceType
from kcr.arguments import checked, list_in, ran, refuse
from kcr.controller.gates import HandlingGate, is_resumed
from kcr.controller.observers.conflicts import Conflicts
from kcr.controller.observers.hot_loop import HotLoops
from kcr.controller.own_writes import OwnWrites
from kcr.controller.predicates import Predicate, name_of
from kcr.controller.retries import is_requested
from kcr.errors import KcrError, NotSyncedError, described
from kcr.informer import Handler, Informer, InformerHandle, Store, Trigger
from kcr.informer.slots import SlotRules
from kcr.log import about_no_object, get_logger
from kcr.tokenbucket import TokenBucket
from kcr.workqueue import Reason, WorkQueue

R = TypeVar("R", bound=Resource)
AnyInformer = Informer[Any] | InformerHandle[Any]
# How many reconciles of a quiet object are not delayed.
_BURST = 5


class Source(NamedTuple):
    """A kind to watch, the keys that a change of one object enqueues, and the predicate that filters changes.

    Under sharding, `slot_rules` say which objects of the kind a replica keeps; None for all of them.
    """

    kind: type[Resource]
    map_to: Callable[[Any], Iterable[Key]]
    predicate: Predicate | None = None
    slot_rules: SlotRules | None = None

    @property
    def enqueues_itself(self) -> bool:
        """Whether a change enqueues the object's own key: the kind is the one that the controller reconciles."""
        return self.map_to is own_key


class Channel(NamedTuple):
    """Keys from elsewhere."""

    keys: AsyncIterable[Key]


@checked
def watch(
    kind: type[R],
    *,
    map_to: Callable[[R], Iterable[Key]] | None = None,
    predicate: Predicate | None = None,
    with_owner: bool = False,
) -> Source:
    """Watch a kind, and enqueue keys for its changes.

    Args:
        kind: The kind.
        map_to: Maps a changed object to the keys to enqueue, such as `keys_by_index(…)`; without it, the object's own
            key. It is called on the event loop with every change, so it must be quick, and it never awaits.
        predicate: Filters the changes, such as `generation_changed`; without it, every change enqueues. The end of a
            pause, and a new value of the annotation `kcr.dev/reconcile-at`, enqueue the object whatever it says.
        with_owner: Whether, under sharding, a replica keeps only the objects whose controller it reconciles: for a
            `map_to` that maps an object to its controller. Else it keeps the objects of `map_to` from all shards.
    """
    if map_to is None:
        return Source(kind, own_key, predicate, SlotRules(is_root=True))
    return Source(kind, map_to, predicate, SlotRules(is_owned=True) if with_owner else None)


@checked
def owned(
    kind: type[Resource],
    *,
    by: type[Resource],
    only_controller_owner: bool = True,
    predicate: Predicate | None = None,
    adopts: bool = False,
) -> Source:
    """Watch a kind whose objects have owners of another kind; a change enqueues the owner's key.

    Args:
        kind: The kind of the dependents.
        by: The kind of the owner. Versions of its group are one kind.
        only_controller_owner: Whether only the owner counts that controls the object, and no other owner.
        predicate: Filters the changes; without it, every change enqueues.
        adopts: Whether the controller adopts objects (`kcr.dependents.claim`): under sharding, every replica then keeps
            those that have no controller. Objects of owners that are no controllers are kept from all shards.
    """
    if not only_controller_owner:
        return Source(kind, partial(_every_owner, by), predicate)
    return Source(kind, owner_keys(by), predicate, SlotRules(is_owned=True, is_adoptable=adopts))


@checked
def channel(keys: AsyncIterable[Key]) -> Channel:
    """Reconcile whatever keys an asynchronous iterator yields: a timer's, a web hook's, another system's.

    It is read once the stores are synced. When it ends, the controller continues without it; when it fails, so does
    the manager.
    """
    return Channel(keys)


@checked
def keys_by_index(store: Store[R], index: str) -> Callable[[Resource], Iterable[Key]]:
    """Return a `map_to` for objects that others refer to: it enqueues those others, found in an index of their store.

    ```python
    websites = manager.store(Website)
    websites.add_index("config", lambda site: [f"{site.metadata.namespace}/{site.spec.config_map}"])
    kcr.watch(ConfigMap, map_to=kcr.keys_by_index(websites, "config"))
    ```

    Args:
        store: Has the objects to enqueue.
        index: Holds each of them under the keys of the objects it refers to, in the form of `str(key)`.

    Raises:
        KeyError: The store has no such index.

    Source: controller-runtime/pkg/handler/enqueue_mapped.go, EnqueueRequestsFromMapFunc, with a field index.
    """
    with suppress(NotSyncedError):
        store.by_index(index, "")
    return lambda obj: [found.key for found in store.by_index(index, str(obj.key))]


_KEYS = "kcr.Key(namespace, name)"
_log = get_logger()


def log_wrong_key(key: object) -> None:
    """Log that what an author's code has enqueued is not a key."""
    given = {"key": shown(key), "type": type(key).__name__, "expected": f"a {_KEYS}"}
    about_no_object(_log.error, "key is of the wrong type, dropped", **given)


class DroppedEvents:
    """The watch events of one controller that predicates have dropped; for people, and read in any thread.

    Attributes:
        counts: How many, by kind and predicate.
        last: The last ones, the oldest first: the time of the loop, kind and predicate, the object's key, its version
            before (empty for none) and after (empty for none).
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.last: deque[tuple[float, tuple[str, str], Key, str, str]] = deque(maxlen=1000)


class EnqueueRequests(Handler[Any]):
    """Event handler that enqueues the keys of changes that pass the predicate; of an update, those of both objects."""

    def __init__(
        self, controller: str, source: Source, add: Callable[[Key, int, Reason | None], object],
        dropped: DroppedEvents | None = None, own_writes: OwnWrites | None = None,
    ) -> None:  # fmt: skip
        """Make a handler.

        Args:
            controller: The controller's name, for errors.
            source: The kind, its mapping function and its predicate.
            add: Adds a key to the controller's queue, with its priority and reason.
            dropped: Notes the events that the predicate drops; None for none.
            own_writes: The writes whose events enqueue nothing; None for none.
        """
        self._own_writes = own_writes
        self._dropped = dropped
        self._place = source.kind.resource.display, name_of(source.predicate)
        self._controller = controller
        self._source = source
        self._add = add

    def on_add(self, obj: Resource, initial: bool) -> None:
        """Enqueue the object's keys."""
        if self._passes(None, obj):
            self._enqueue(Trigger.added(obj, initial), obj, may_be_echo=not initial)
        else:
            self._drop(None, obj)

    def on_update(self, old: Resource, new: Resource) -> None:
        """Enqueue the keys of both objects: an object that is no longer mapped to must be reconciled as well."""
        if self._passes(old, new) or (self._source.enqueues_itself and _is_asked_for(old, new)):
            same = old.metadata.finalizers == new.metadata.finalizers  # else `kcr.finalized` waits for it
            self._enqueue(Trigger.updated(old, new), old, new, may_be_echo=same)
        else:
            self._drop(old, new)

    def on_delete(self, obj: Resource, final_state_unknown: bool) -> None:
        """Enqueue the object's keys."""
        if self._passes(obj, None):
            self._enqueue(Trigger.deleted(obj), obj)
        else:
            self._drop(obj, None)

    def _drop(self, *objects: Resource | None) -> None:
        if self._dropped is not None:
            self._dropped.counts[self._place] += 1
            before, after = ("" if obj is None else obj.metadata.resource_version for obj in objects)
            key = next(obj.key for obj in objects if obj is not None)
            self._dropped.last.append((_now(), self._place, key, before, after))

    def _passes(self, old: Resource | None, new: Resource | None) -> bool:
        try:
            passes = self._source.predicate is None or self._source.predicate(old, new)
            return passes is True or bool(passes and ran(passes, "it"))
        except (Exception, SystemExit) as error:
            raise self._failure("predicate", new or old, error) from error

    def _enqueue(self, trigger: Trigger, *objects: Resource, may_be_echo: bool = False) -> None:
        keys: dict[Key, None] = {}
        failure: KcrError | None = None
        for obj in objects:
            try:
                found = self._source.map_to(obj)
                found = found if type(found) is tuple else tuple(list_in(found, "it", _KEYS))
                for key in found:
                    if not is_key(key):
                        refuse(f"it returned {shown(key)} in its list: return a list of {_KEYS}")
                keys.update(dict.fromkeys(found))
            except (Exception, SystemExit) as error:
                failure = self._failure("mapping function", obj, error)
                failure.__cause__ = error
        # Where the mapping of one object fails, that of the other counts.
        if may_be_echo and self._own_writes is not None:
            for key in keys:
                enqueue = partial(self._add, key, *trigger)
                self._own_writes.enqueue_unless_echo(key, objects[-1].metadata.resource_version, enqueue)
        else:
            for key in keys:
                self._add(key, *trigger)
        if failure is not None:
            raise failure

    def _failure(self, what: str, obj: Resource | None, error: BaseException) -> KcrError:
        kind = self._source.kind.resource.kind
        name = "" if obj is None else f" {obj.key}"
        return KcrError(f"controller {self._controller!r}: the {what} failed for {kind}{name}: {described(error)}")


def _is_asked_for(old: Resource, new: Resource) -> bool:
    """Return whether a change enqueues its object whatever the predicate says: a pause ends, or a user asks for it."""
    return is_resumed(old, new) or is_requested(old, new)


_CHANNEL = Reason("channel")


class ChannelSource:
    """Adds the keys of a channel to a queue."""

    def __init__(self, name: str, source: Channel, queue: WorkQueue[Key]) -> None:
        self.name: str = f"{name} channel"
        self._source = source
        self._queue = queue

    async def run(self) -> None:
        """Add keys until there are no more."""
        async for key in self._source.keys:
            if is_key(key):
                self._queue.add(key, reason=_CHANNEL)
            else:
                log_wrong_key(key)


def own_key(obj: Resource) -> tuple[Key, ...]:
    """Map an object to its own key."""
    return (obj.key,)


def owner_keys(owner: type[Resource]) -> Callable[[Resource], tuple[Key, ...]]:
    """Return a `map_to` that maps an object to the key of its controller, if that is of a kind."""
    return partial(_controller, owner)


def _controller(owner: type[Resource], obj: Resource) -> tuple[Key, ...]:
    reference = controller_of(obj.metadata)
    return () if reference is None else _key_of(owner, reference, obj)


def _every_owner(owner: type[Resource], obj: Resource) -> tuple[Key, ...]:
    return tuple(key for reference in obj.metadata.owner_references for key in _key_of(owner, reference, obj))


def _key_of(owner: type[Resource], reference: OwnerReference, obj: Resource) -> tuple[Key, ...]:
    """Return the key of an object's owner, if it has the given kind, in any version."""
    wanted = owner.resource
    if reference.kind != wanted.kind or reference.api_version.rpartition("/")[0] != wanted.group:
        return ()
    return (Key(obj.metadata.namespace if wanted.namespaced else "", reference.name),)


class Batching:
    """Group commit: enqueues the keys of busy objects once per period, and those of quiet ones at once.

    An object that changes all the time, such as a Job with a thousand pods, has a token bucket of reconciles: a burst
    of five, and one more per period. Beyond it changes wait for the next token, and one reconcile, with one write,
    serves all of them. Only a reconcile that sent a request spends a token.
    """

    def __init__(self, queue: WorkQueue[Key], period_seconds: float) -> None:
        """Make a batching in front of a controller's queue.

        Args:
            queue: The queue.
            period_seconds: How long one token takes to come back; 0 turns batching off.
        """
        self._queue = queue
        self._period = period_seconds
        # Of the objects that have spent a token. Dropped by `forget`.
        self._buckets: dict[Key, TokenBucket] = {}

    def enqueue(self, key: Key, priority: int = 0, reason: Reason | None = None) -> None:
        """Enqueue a key when its bucket has a token: at once while its object has been quiet.

        Args:
            key: The key.
            priority: As for `WorkQueue.add`.
            reason: As for `WorkQueue.add`.
        """
        bucket = self._buckets.get(key)
        self._queue.add_after(key, 0.0 if bucket is None else bucket.delay(_now()), priority, reason)

    def spend(self, key: Key) -> None:
        """Take a token, because a reconcile of the key has sent a request."""
        if self._period <= 0:
            return
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(1.0 / self._period, _BURST)
        bucket.take(_now())

    def forget(self, key: Key) -> None:
        """Drop the bucket of a key whose object is deleted or finished."""
        self._buckets.pop(key, None)


def _now() -> float:
    return asyncio.get_running_loop().time()


class WatchedKinds:
    """The kinds that one controller watches.

    Attributes:
        own_kind: The kind of the objects that the keys name; None when they name none that it knows of.
        own_store: The store of these objects.
        slot_rules: The roles of the kinds under sharding; None for a kind of which all objects are needed.
        keys_are_dependents: Whether the objects of the keys are themselves dependents, as orphaned pods are.
        has_other_source: Whether something beside watches enqueues keys, such as a channel.
    """

    def __init__(self, hot_loops: HotLoops, conflicts: Conflicts | None, *, has_other_source: bool) -> None:
        """Watch no kind.

        Args:
            hot_loops: Sees the changes of all kinds.
            conflicts: Sees the changes of the keys' objects; None without a client.
            has_other_source: Whether something beside watches enqueues keys.
        """
        self.own_kind: ResourceType | None = None
        self.own_store: Store[Any] | None = None
        self.slot_rules: dict[type[Resource], SlotRules | None] = {}
        self.keys_are_dependents: bool = False
        self.has_other_source: bool = has_other_source
        self._hot_loops, self._conflicts = hot_loops, conflicts
        self._kinds: dict[ResourceType, None] = {}
        # The gates that handle the events of the keys' objects, and their informer.
        self._handling: list[HandlingGate] = []
        self._own_informer: AnyInformer | None = None

    @property
    def kinds(self) -> tuple[ResourceType, ...]:
        """The kinds, each once; that of the keys is the first."""
        own = () if self.own_kind is None else (self.own_kind,)
        return tuple(dict.fromkeys((*own, *self._kinds)))

    def own_object(self, key: Key) -> Resource | None:
        """Return the object of a key; None without one, and of a store that shows none: its readers report that."""
        store = self.own_store
        return store.get(key) if store is not None and store.synced and not store.progress.is_closed else None

    def add(self, source: Source, informer: AnyInformer) -> None:
        """Note a source; the first that enqueues the objects' own keys determines the kind of the keys."""
        self._kinds[source.kind.resource] = None
        self._add_role(source.kind, source.slot_rules)
        if source.enqueues_itself and self.own_kind is None:
            self.own_kind = source.kind.resource
        if source.enqueues_itself and (self.own_store is None or self.own_store.is_closed):
            self._watch_own(informer)
        self._hot_loops.watch(informer, source.map_to)

    def declare(
        self, informer: Informer[Any], kind: type[Resource], dependents: Sequence[Informer[Any]], *,
        keys_are_dependents: bool,
    ) -> None:  # fmt: skip
        """Note the kind of the keys, and those of their dependents, which handlers of the controller's own watch."""
        self.keys_are_dependents = keys_are_dependents
        self._add_role(kind, SlotRules(is_owned=True) if keys_are_dependents else SlotRules(is_root=True))
        for dependent in dependents:
            self._add_role(dependent.kind, SlotRules(is_owned=True, is_adoptable=True))
        self.own_kind = kind.resource
        self._kinds |= dict.fromkeys(one.kind.resource for one in (informer, *dependents))
        self._watch_own(informer)
        self._hot_loops.watch(informer, own_key)
        for dependent in dependents:
            self._hot_loops.watch(dependent, owner_keys(kind))

    def note_source(self) -> None:
        """Note that something beside watches enqueues keys."""
        self.has_other_source = True

    def handle_with(self, gate: HandlingGate) -> None:
        """Let a gate handle the events of the objects that the keys name."""
        self._handling.append(gate)
        if self._own_informer is not None:
            self._own_informer.add_handler(gate)

    def _add_role(self, kind: type[Resource], rules: SlotRules | None) -> None:
        known = self.slot_rules.get(kind, SlotRules())
        self.slot_rules[kind] = None if rules is None or known is None else known.joined(rules)

    def _watch_own(self, informer: AnyInformer) -> None:
        self.own_store, self._own_informer = informer.store, informer
        if self._conflicts is not None:
            self._conflicts.watch(informer)
        for gate in self._handling:
            informer.add_handler(gate)
