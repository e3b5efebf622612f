"""A controller: a queue of keys, and the workers that reconcile them."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kcr.annotations import Text
from kcr.api.meta import Key, Resource
from kcr.api.resources import ResourceType
from kcr.arguments import check_fields, checked
from kcr.client import Client
from kcr.client.context import WriteContext
from kcr.controller.gates import DRY_RUN_INTERVAL_SECONDS, EventSink, Gate, HandlingGate, MinInterval, Pauses
from kcr.controller.observers import Observer
from kcr.controller.observers.conflicts import Conflicts
from kcr.controller.observers.hot_loop import HotLoopFinding, HotLoops
from kcr.controller.observers.journal import ReconcileJournal
from kcr.controller.observers.reports import DebugLog, ReconcileMetrics, ReconcileSpans
from kcr.controller.outcome import Outcomes
from kcr.controller.own_writes import OwnWrites
from kcr.controller.read_your_writes import OwnWritesGate, ReadYourWrites, TrackedServer, TrackedWrites
from kcr.controller.reconcile import Reconciler, ReleasesKeys, TimedReconciler
from kcr.controller.retries import ParkedFailure, RetryLimit
from kcr.controller.rights import Right
from kcr.controller.sources import Channel, EnqueueRequests, Source, own_key, owner_keys
from kcr.controller.waits import Waits
from kcr.controller.worker import Worker
from kcr.informer import Informer, InformerHandle, Store
from kcr.informer.cache import InformerCache
from kcr.informer.slots import SlotRules
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics, Metrics
from kcr.tracing import find_tracer
from kcr.workqueue import FairBy, RateLimiter, WorkQueue

_log = get_logger()

# How long running reconciles may take once the controller stops. Together with the last events
# it must fit into the five seconds a process has to end in.
GRACE_SECONDS = 2.0


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a controller: each is written here, and is a keyword of `Manager.add_controller`."""

    workers: Annotated[int, Meta(ge=1), "Keys reconciled concurrently; at least 1."] = 1
    limiter: Annotated[
        RateLimiter[Key] | None, "The backoff of failed keys; None for exponential from 5 ms to 1,000 s."
    ] = None
    max_retries: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        "Retries of a key that fails each time; then it is parked until its object's generation changes, or a user "
        "asks for it. None for no limit.",
    ] = None
    fair_by: Annotated[
        FairBy[Key] | None,
        "Within a priority, groups of keys take turns, so that many keys of one tenant do not delay those of another: "
        '`"namespace"`, or a function that returns the group of a key; None for one FIFO.',
    ] = None
    queue: Annotated[
        WorkQueue[Key] | None,
        "From `Manager.queue`, for a reconciler that enqueues keys itself; it brings limiter and order. None for a new "
        "one.",
    ] = None
    own_writes: Annotated[
        OwnWrites | bool,
        "A key is deferred until the stores show the writes of its last reconcile: True for the writes of the "
        "manager's client, an `OwnWrites` for those that the reconciler records in it, False to never defer.",
    ] = True
    reconcile_timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, "Seconds after which a reconcile is cancelled and fails; None for never."
    ] = None
    graceful_shutdown_timeout: Annotated[
        float, "Seconds for running reconciles to finish at the end; negative for no limit."
    ] = GRACE_SECONDS
    sharded: Annotated[
        bool,
        "Under sharding, whether each replica reconciles its share of the keys; else the replica that holds the first "
        "shard reconciles all of them, and watches all objects.",
    ] = True
    expected_errors: Annotated[
        Iterable[type[Exception]],
        "Exceptions of other libraries, or of the author, that are no bugs, such as `httpx.HTTPError`: they are logged "
        "in one line, without a traceback.",
    ] = ()


class ManagedOptions(ControllerOptions, frozen=True, kw_only=True):
    """The options of a controller in a manager."""

    watches: Annotated[
        Iterable[Source | Channel] | None,
        "The sources of keys: `kcr.watch`, `kcr.owned` and `kcr.channel`. `()` where handlers or other code add the "
        "keys to the queue; without any a warning is logged.",
    ] = None
    needs_leader_election: Annotated[bool, "Whether it runs on the leader only."] = True
    rights: Annotated[
        frozenset[Right],
        "The rights of its requests, in addition to its watches, from `kcr.rights`: for `kcr rbac generate`.",
    ] = frozenset()


_DEFAULTS = ControllerOptions()


class Controller:
    """Runs a reconciler over the keys in `queue`, several at a time but never one key twice.

    Attributes:
        name: Names the controller in logs and metrics; unique in a manager.
        queue: Where handlers add keys.
        reconciler: Processes the keys.
        metrics: Its metrics.
        own_writes: Defers keys until the stores show the controller's writes; None if no key is deferred.
        journal: The running reconciles and the last that have ended.
        pauses: The paused objects; with a `recorder` in it, pauses are recorded as events.
        waits: The keys that wait for objects (`kcr.WaitFor`).
        is_sharded: Whether, under sharding, each replica reconciles its share of the keys.
        plugin: The plugin that has added it, as `--controllers` names it; empty for a program of one's own.
    """

    plugin: str = ""

    @checked
    def __init__(
        self, name: Text, reconciler: Reconciler, options: ControllerOptions = _DEFAULTS, *, random: random.Random,
        metrics: Metrics | None = None, client: Client | None = None,
    ) -> None:  # fmt: skip
        """Make a controller; it does nothing before it runs.

        Args:
            name: Its name.
            reconciler: Processes the keys.
            options: Its options.
            random: Makes the ids under which runs are logged.
            metrics: Where it is counted; None for metrics that are not served.
            client: Tells who else writes the objects of a hot loop; None leaves that out. When its writes are dry runs,
                a key is reconciled at most once in ten seconds.

        Raises:
            TypeError: The reconciler or an option is of another type.
            ValueError: An option is out of its bounds, or the metrics know a controller of this name.
        """
        about = f"controller {name}"
        check_fields(about, options)
        expected = tuple(options.expected_errors)
        check_fields(about, ControllerOptions(expected_errors=expected))
        self.name = name
        metrics = metrics or Metrics()
        self.queue: WorkQueue[Key] = (
            WorkQueue(options.limiter, metrics=metrics.queue(name), fair_by=options.fair_by)
            if options.queue is None
            else options.queue
        )
        self.is_sharded: bool = options.sharded
        # Whether keys come to the queue, as far as it is known; else from the kinds that are watched or declared.
        self._has_source = not isinstance(options, ManagedOptions) or options.watches is not None
        self._has_source |= options.queue is not None
        self._options, self._grace = options, options.graceful_shutdown_timeout
        # Whether running reconciles must not write any more.
        self._skips_grace = False
        self.reconciler: Reconciler = reconciler
        own = options.own_writes
        self.own_writes: OwnWrites | None = (OwnWrites() if own else None) if isinstance(own, bool) else own
        # The gate of `own_writes`; the client reports the writes to it where the reconciler records none.
        self._writes: OwnWritesGate | None = None if isinstance(own, bool) else ReadYourWrites(own, self.queue)
        self.metrics: ControllerMetrics = metrics.controller(name, options.workers)
        # The kind of the keys, and all watched kinds.
        self._own_kind: ResourceType | None = None
        self._watched: dict[ResourceType, None] = {}
        # The roles of the watched kinds under sharding; None for a kind of which all objects are needed.
        self.slot_rules: dict[type[Resource], SlotRules | None] = {}
        # Whether the objects that the keys name are themselves dependents, as orphaned pods are.
        self.keys_are_dependents: bool = False
        # Asked before all others, under sharding or with changing namespaces; and the informer of the keys' objects.
        self._outer_gates: list[Gate] = []
        self._member_gate: Gate | None = None
        # Returns the shard of an admitted key; None without sharding.
        self._shard_of: Callable[[Key], int | None] | None = None
        self._own_informer: Informer[Any] | InformerHandle[Any] | None = None
        self.journal: ReconcileJournal = ReconcileJournal()
        self.pauses: Pauses = Pauses(self.metrics)
        self._random, self._client, self._hot_loops = random, client, HotLoops(client)
        self._conflicts = None if client is None else Conflicts(client)
        self.waits: Waits = Waits(self.queue)
        self._limit = (
            None
            if options.max_retries is None
            else RetryLimit(options.max_retries, lambda: self.own_store, self.queue.forget, self.metrics)
        )
        self._outcomes = Outcomes(
            self.queue, self.metrics, random=random, expected_errors=expected, waits=self.waits, limit=self._limit
        )

    @checked
    def watch(self, source: Source, informer: Informer[Any] | InformerHandle[Any]) -> None:
        """Let the changes of a kind enqueue keys.

        Args:
            source: The kind, and how its objects are mapped to keys. The first that enqueues the objects' own keys
                determines the kind of this controller's keys.
            informer: Watches the kind.
        """
        self._watched[source.kind.resource] = None
        self._add_role(source.kind, source.slot_rules)
        if source.enqueues_itself and self._own_kind is None:
            self._own_kind = source.kind.resource
        if source.enqueues_itself and (self.pauses.store is None or self.pauses.store.is_closed):
            self._watch_own(informer)
        self._hot_loops.watch(informer, source.map_to)
        informer.add_handler(EnqueueRequests(self.name, source, self.queue.add))

    @checked
    def declare(
        self, informer: Informer[Any], kind: type[Resource], *dependents: Informer[Any],
        keys_are_dependents: bool = False,
    ) -> None:  # fmt: skip
        """Declare the kind of the keys, for a controller with its own event handlers; `watch` does so for others.

        So the annotation `kcr.dev/paused` on an object keeps its key from being reconciled, hot loops are found, and
        under sharding each replica watches its share of the kinds.

        Args:
            informer: Watches the objects that the keys of this controller name.
            kind: Their kind.
            dependents: Watch the objects that these own, or may adopt.
            keys_are_dependents: Whether the objects of the keys are dependents themselves, as orphaned pods are: under
                sharding they follow their controller.
        """
        self.keys_are_dependents = keys_are_dependents
        self._add_role(kind, SlotRules(is_owned=True) if keys_are_dependents else SlotRules(is_root=True))
        for dependent in dependents:
            self._add_role(dependent.kind, SlotRules(is_owned=True, is_adoptable=True))
        self._own_kind = kind.resource
        self._watched |= dict.fromkeys(one.kind.resource for one in (informer, *dependents))
        self._watch_own(informer)
        self._hot_loops.watch(informer, own_key)
        for dependent in dependents:
            self._hot_loops.watch(dependent, owner_keys(kind))

    def note_source(self) -> None:
        """Note that something beside watches enqueues keys, such as a channel."""
        self._has_source = True

    @property
    def lacks_watches(self) -> bool:
        """Whether nothing is known to enqueue a key: neither a watch nor other code, which has its queue."""
        return not (self._has_source or self._watched or len(self.queue))

    def _add_role(self, kind: type[Resource], rules: SlotRules | None) -> None:
        known = self.slot_rules.get(kind, SlotRules())
        self.slot_rules[kind] = None if rules is None or known is None else known.joined(rules)

    def _watch_own(self, informer: Informer[Any] | InformerHandle[Any]) -> None:
        """Note the informer of the objects that the keys name."""
        self.pauses.store, self._own_informer = informer.store, informer
        if self._conflicts is not None:
            self._conflicts.watch(informer)
        for gate in self._outer_gates:
            if isinstance(gate, HandlingGate):
                informer.add_handler(gate)

    def connect(self, cache: InformerCache, recorder: Callable[[str], EventSink]) -> None:
        """Connect this with its manager: with its informers, and where events are recorded.

        Args:
            cache: The informers.
            recorder: Returns the recorder of a component; called only if this records events.
        """
        self.waits.find_informer = cache.find
        if self._client is not None and self.own_writes is not None and self._writes is None:
            self._writes = TrackedWrites(
                self.own_writes,
                self.queue,
                client=self._client,
                informers_of=cache.all_of,
                random=self._random,
            )
        if self._limit is not None:
            self._limit.recorder = recorder(self.name)

    def add_outer_gate(self, gate: Gate, shard_of: Callable[[Key], int | None] | None = None) -> None:
        """Ask a gate before all others, but after earlier ones; a `HandlingGate` handles events of its objects."""
        self._outer_gates.append(gate)
        self._shard_of = shard_of or self._shard_of
        if self._own_informer is not None and isinstance(gate, HandlingGate):
            self._own_informer.add_handler(gate)

    def add_member_gate(self, gate: Gate, members: Mapping[str, TrackedServer]) -> None:
        """Ask a gate about the keys of member clusters, and track the writes to these clusters; before this runs."""
        self._member_gate, self._has_source = gate, True
        if isinstance(self._writes, TrackedWrites):
            self._writes.members = members

    @property
    def own_store(self) -> Store[Any] | None:
        """The store of the objects that the keys name; None when they name none that it knows of."""
        return self.pauses.store

    def release(self, key: Key) -> None:
        """Drop the memory of a key that another replica reconciles from now on; its delays in the queue are over."""
        if self.own_writes is not None:
            self.own_writes.forget(key)
        self.queue.forget(key)
        self.waits.end(key)
        if self._limit is not None:
            self._limit.forget(key)
        if isinstance(self.reconciler, ReleasesKeys):
            self.reconciler.release(key)

    @property
    def own_kind(self) -> ResourceType | None:
        """The kind of the objects that the keys name; None when they name none that it knows of."""
        return self._own_kind

    @property
    def kinds(self) -> tuple[ResourceType, ...]:
        """The kinds that it watches, each once; that of its keys is the first."""
        own = () if self._own_kind is None else (self._own_kind,)
        return tuple(dict.fromkeys((*own, *self._watched)))

    @property
    def paused(self) -> tuple[Key, ...]:
        """The keys of paused objects, as far as they have come."""
        return self.pauses.keys

    @property
    def parked(self) -> dict[Key, ParkedFailure]:
        """The keys that have failed `max_retries` times and are no longer retried; it may be read in any thread."""
        return {} if self._limit is None else self._limit.parked.copy()

    def has_timed_out(self, key: Key) -> bool:
        """Return whether the wait of a key (`kcr.WaitFor`) is longer than its timeout, as its reconciles may ask."""
        return self.waits.has_timed_out(key)

    def hot_loop(self, key: Key, now: float) -> HotLoopFinding | None:
        """Return the hot loop of a key in the last ten minutes, with the remedy; None if there is none.

        Args:
            key: The key.
            now: The time of the controller's loop.
        """
        return self._hot_loops.finding(key, now)

    async def run(self) -> None:
        """Reconcile until cancelled. Then no key is begun, and running reconciles get a few seconds to finish."""
        worker = self._make_worker()
        async with asyncio.TaskGroup() as group:
            for number in range(self._options.workers):
                group.create_task(worker.run(), name=f"{self.name} worker {number}")
            try:
                # Ends by cancellation only.
                await asyncio.get_running_loop().create_future()
            finally:
                await self._stop()

    def _make_worker(self) -> Worker:
        """Make the worker that all tasks run: gates and observers that are off, such as traces, are not in it."""
        reconciler, client, tracer = self.reconciler, self._client, find_tracer()
        if self._options.reconcile_timeout is not None:
            reconciler = TimedReconciler(reconciler, self._options.reconcile_timeout, self.metrics)
        gates: list[Gate] = [*self._outer_gates, self.pauses]
        if self._member_gate is not None:
            gates.insert(0, self._member_gate)
        if self._limit is not None:
            gates.append(self._limit)
        # The hot loops wait for the server before they let a reconcile begin: nothing else has begun by then.
        observers: list[Observer] = [DebugLog(self.queue, lambda: self.own_store)] if DebugLog.is_enabled() else []
        if self._conflicts is not None:
            observers.append(self._conflicts)
        # The span ends before the metrics, which take its exemplar.
        observers += (self._hot_loops, self.journal, ReconcileMetrics(self.metrics))
        if tracer is not None:
            observers.append(ReconcileSpans(tracer, self.name, self.queue, lambda: self.own_store))
        if self._writes is not None:
            gates.append(self._writes)
        if isinstance(self._writes, ReadYourWrites):
            # The innermost: events that arrived during a reconcile are enqueued even if another observer fails.
            observers.append(self._writes)
        if isinstance(self._writes, TrackedWrites):
            reconciler = self._writes.around(reconciler)
        if client is not None and client.is_dry_run:
            # The last, for it counts the keys that it admits as reconciled.
            gates.append(MinInterval(DRY_RUN_INTERVAL_SECONDS, self.queue))
        return Worker(
            self.name, self.queue, reconciler, context_of=self._context_of, gates=tuple(gates), outcomes=self._outcomes,
            observers=tuple(observers), journal=self.journal, random=self._random,
        )  # fmt: skip

    def _context_of(self, key: Key) -> WriteContext:
        """Return on whose behalf the reconcile of a key writes."""
        tracker = self._writes if isinstance(self._writes, TrackedWrites) else None
        if self._shard_of is None:
            return WriteContext(key, tracker)
        return WriteContext(key, tracker, self._shard_of(key), has_slots=True)

    def skip_grace_period(self) -> None:
        """Cancel running reconciles at once when the controller stops: they must not write any more."""
        self._grace, self._skips_grace = 0.0, True

    async def _stop(self) -> None:
        dropped = self.queue.shut_down(discard=True)
        _log.debug("controller stops", controller=self.name, delayed_keys_dropped=dropped)
        timeout = asyncio.timeout(None if self._grace < 0 else self._grace)
        try:
            async with timeout:
                await self.queue.drain()
        except (TimeoutError, asyncio.CancelledError):
            # In a task that is cancelled already, Python before 3.11.4 leaves a timeout as a cancellation.
            if not timeout.expired():
                raise
            if self._skips_grace:
                # The leader has lost its lease, and its manager logs that.
                return
            processing = sorted(str(key) for key in self.queue.processing)
            if not processing:
                # The last one ended at that very moment.
                return
            _log.warning(
                "reconciles cancelled, shutdown timed out",
                controller=self.name,
                after_seconds=self._grace,
                keys=processing,
            )
