"""A controller: a queue of keys, and the workers that reconcile them."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from kcr.annotations import Text, check_of
from kcr.api.meta import Key, Resource
from kcr.api.resources import ResourceType
from kcr.arguments import check_fields, checked, error_of
from kcr.client import Client
from kcr.client.context import WRITE_CONTEXT, WriteContext
from kcr.controller.gates import DRY_RUN_INTERVAL_SECONDS, EventSink, Gate, HandlingGate, MinInterval, Pauses
from kcr.controller.observers import Observer
from kcr.controller.observers.breaker import Breaker
from kcr.controller.observers.conflicts import Conflicts
from kcr.controller.observers.hot_loop import HotLoopFinding, HotLoops
from kcr.controller.observers.journal import LongRuns, ReconcileJournal
from kcr.controller.observers.reports import DebugLog, ReconcileMetrics, ReconcileSpans
from kcr.controller.outcome import Outcomes
from kcr.controller.own_writes import OwnWrites
from kcr.controller.read_your_writes import InformersOf, OwnWritesGate, ReadYourWrites, TrackedServer, TrackedWrites
from kcr.controller.reconcile import Explaining, Reconciler, ReleasesKeys, TimedReconciler
from kcr.controller.retries import Backoff, ParkedFailure, RetryLimit, RetryOnEvent
from kcr.controller.rights import Right
from kcr.controller.sources import Channel, DroppedEvents, EnqueueRequests, Source, WatchedKinds
from kcr.controller.waits import Waits
from kcr.controller.worker import Worker
from kcr.informer import Informer, InformerHandle, Store
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics, Metrics
from kcr.tracing import find_tracer
from kcr.workqueue import FairBy, MostInFlight, RateLimiter, WorkQueue

_log = get_logger()

# How long running reconciles may take once the controller stops. Together with the last events
# it must fit into the five seconds a process has to end in.
GRACE_SECONDS = 2.0


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a controller: each is written here, and is a keyword of `Manager.add_controller`."""

    workers: Annotated[int, Meta(ge=1, le=10_000), "Keys reconciled concurrently; at least 1."] = 1
    limiter: Annotated[
        RateLimiter[Key] | None, "The backoff of failed keys; None for exponential from 5 ms to 1,000 s."
    ] = None
    max_retries: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        "Retries of a key that fails each time; then it is parked until its object's generation changes, or a user "
        "asks for it. None for no limit.",
    ] = None
    retry_on_event: Annotated[
        RetryOnEvent,
        "Whether an event reconciles a key that waits for a retry: at most once in half of the delay, and not as "
        'a retry; `"always"` as in client-go; False for a change of the spec alone.',
    ] = True
    breaker: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        "Reconciles of a key a minute, over five minutes, that may repeat its own writes; with more it is slowed to "
        "one in 10 s, until it is calm for a minute. None for no limit.",
    ] = 60.0
    fair_by: Annotated[
        FairBy[Key] | None,
        "Within a priority, groups of keys take turns, so that many keys of one tenant do not delay those of another: "
        '`"namespace"`, or a function that returns the group of a key; None for one FIFO.',
    ] = None
    in_flight: Annotated[
        MostInFlight[Key] | None,
        'At most so many keys of a group are reconciled at a time: `("namespace", 2)`, or a function that returns '
        "the group of a key and the number; None for no limit but `workers`.",
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
    on_own_writes: Annotated[
        bool,
        "Whether the watch event of the reconcile's own write enqueues the key, as in controller-runtime. False for a "
        "reconciler that needs no second turn after `create`, `patch` and `patch_status`; other writes, and changes of "
        "finalizers, enqueue it.",
    ] = True
    reconcile_timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, "Seconds after which a reconcile is cancelled and fails; None for never."
    ] = None
    warn_after: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        "Seconds after which a reconcile that is still running is logged with the line at which it waits, and again "
        "after twice as long; None for never.",
    ] = 300.0
    graceful_shutdown_timeout: Annotated[
        float, "Seconds for running reconciles to finish at the end; negative for no limit."
    ] = GRACE_SECONDS
    sharded: Annotated[
        bool,
        "Under sharding, whether each replica reconciles its share of the keys; else the replica that holds the first "
        "shard reconciles all of them, and watches all objects.",
    ] = True
    recorder: Annotated[
        EventSink | None,
        "Records begin and end of pauses (`kcr.dev/paused`) as events of the object; None for no events.",
    ] = None
    expected_errors: Annotated[
        Iterable[type[Exception]],
        "Exceptions of other libraries, or of the author, that are not bugs, such as `httpx.HTTPError`: they are "
        "logged in one line, without a traceback.",
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


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a manager gives each of its controllers; the defaults are those of a controller without a manager.

    Attributes:
        find_informer: Returns the informer of a kind; None when the manager has none.
        informers_of: Returns the informers of a kind, in any form.
        recorder: Returns the recorder of a component; None for no events.
        gates: Make the gates that are asked before all others, in this order: shards, namespaces.
        members: Returns the member clusters by name.
        member_gate: Returns the gate of keys of member clusters, when the controller runs; None without any.
        has_slots: Whether the program is sharded.
        plugin: The plugin that adds the controller, as `--controllers` names it; empty for a program of one's own.
    """

    find_informer: Callable[[type[Resource]], Informer[Any] | None] = lambda kind: None
    informers_of: InformersOf | None = None
    recorder: Callable[[str], EventSink] | None = None
    gates: tuple[Callable[["Controller"], HandlingGate], ...] = ()
    members: Callable[[], Mapping[str, TrackedServer]] = dict
    member_gate: Callable[["Controller"], Gate | None] = lambda controller: None
    has_slots: bool = False
    plugin: str = ""


class _Stations(NamedTuple):
    """The stations of a key, beside the reconciler: all that a worker is made of when the controller runs."""

    client: Client | None
    random: random.Random
    reconciler: Reconciler
    outcomes: Outcomes
    writes: OwnWritesGate | None
    limit: RetryLimit | None
    backoff: Backoff
    gates: tuple[HandlingGate, ...]
    hot_loops: HotLoops
    breaker: Breaker | None
    conflicts: Conflicts | None


_DEFAULTS, _ALONE = ControllerOptions(), Surroundings()


class Controller:
    """Runs a reconciler over the keys in `queue`, several at a time but never one key twice.

    Attributes:
        name: Names the controller in logs and metrics; unique in a manager.
        queue: Where handlers add keys.
        reconciler: Processes the keys.
        metrics: Its metrics.
        own_writes: Defers keys until the stores show the controller's writes; None if no key is deferred.
        journal: The running reconciles and the last that have ended.
        pauses: The paused objects.
        waits: The keys that wait for objects (`kcr.WaitFor`).
        dropped: The watch events that predicates have dropped.
        watched: The kinds that it watches, and their roles under sharding.
    """

    @checked
    def __init__(  # noqa: PLR0913  # what a controller is made of, all by name
        self, name: Text, reconciler: Reconciler, options: ControllerOptions = _DEFAULTS, *, random: random.Random,
        metrics: Metrics | None = None, client: Client | None = None, surroundings: Surroundings = _ALONE,
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
            surroundings: What its manager gives it.

        Raises:
            TypeError: The reconciler or an option is of another type.
            ValueError: An option is out of its bounds, or the metrics know a controller of this name.
        """
        about = f"controller {name}"
        check_fields(about, options)
        if hasattr(reconciler, "explain") and (fault := check_of(Explaining).fault(reconciler)):
            raise error_of(about, "reconciler", fault)
        if options.queue is not None and (options.limiter or options.fair_by or options.in_flight):
            raise ValueError(f"{about}: the queue brings limiter, fair_by and in_flight: give them to Manager.queue")
        if not options.on_own_writes and options.own_writes is not True:
            raise ValueError(f"{about}: on_own_writes=False needs own_writes=True, so that the writes are known")
        expected = tuple(options.expected_errors)
        check_fields(about, ControllerOptions(expected_errors=expected))
        self.name = name
        metrics = metrics or Metrics()
        self.queue: WorkQueue[Key] = (
            WorkQueue(
                options.limiter, metrics=metrics.queue(name), fair_by=options.fair_by, in_flight=options.in_flight
            )
            if options.queue is None
            else options.queue
        )
        self._options, self._surroundings = options, surroundings
        self.reconciler: Reconciler = reconciler
        own = options.own_writes
        self.own_writes: OwnWrites | None = (OwnWrites() if own else None) if isinstance(own, bool) else own
        self.metrics: ControllerMetrics = metrics.controller(name, options.workers)
        self.journal: ReconcileJournal = ReconcileJournal()
        self.dropped: DroppedEvents = DroppedEvents()
        self.metrics.dropped = self.dropped.counts
        limit = self._make_limit(options.max_retries)
        backoff = Backoff(self.queue, options.retry_on_event, self._find, limit)
        breaker = self._make_breaker(options.breaker, backoff)
        hot_loops, conflicts = HotLoops(client, breaker), None if client is None else Conflicts(client)
        watched = WatchedKinds(hot_loops, conflicts, has_other_source=_has_other_source(options))
        self.watched: WatchedKinds = watched
        self.pauses: Pauses = Pauses(self.metrics, watched.own_object, options.recorder)
        self.waits: Waits = Waits(self.queue, surroundings.find_informer)
        # Seconds for running reconciles to finish; None when they must not write any more.
        self._grace: float | None = options.graceful_shutdown_timeout
        outcomes = Outcomes(
            self.queue, self.metrics, random=random, expected_errors=expected, waits=self.waits, backoff=backoff
        )
        if options.reconcile_timeout is not None:
            reconciler = TimedReconciler(reconciler, options.reconcile_timeout, self.metrics)
        writes = self._make_writes(reconciler, client, random, breaker)
        if isinstance(writes, TrackedWrites):
            reconciler = writes
        # The last, for gates ask the controller.
        self._stations = _Stations(
            client, random, reconciler, outcomes, writes, limit, backoff,
            tuple(make(self) for make in surroundings.gates), hot_loops, breaker, conflicts,
        )  # fmt: skip
        for gate in self._stations.gates:
            self.watched.handle_with(gate)

    def _make_limit(self, max_retries: int | None) -> RetryLimit | None:
        if max_retries is None:
            return None
        return RetryLimit(max_retries, self._find, self.queue.forget, self.metrics, self._make_recorder())

    def _make_breaker(self, per_minute: float | None, backoff: Backoff) -> Breaker | None:
        if per_minute is None:
            return None
        return Breaker(
            per_minute, backoff.slow, controller=self.name, find=self._find, metrics=self.metrics,
            recorder=self._make_recorder,
        )  # fmt: skip

    def _find(self, key: Key) -> Resource | None:
        return self.watched.own_object(key)

    def _make_recorder(self) -> EventSink | None:
        return self._surroundings.recorder and self._surroundings.recorder(self.name)

    def _make_writes(
        self, reconciler: Reconciler, client: Client | None, random: random.Random, breaker: Breaker | None
    ) -> OwnWritesGate | None:
        """Return the gate of `own_writes`; the client reports the writes to it where the reconciler records none."""
        if self.own_writes is None:
            return None
        if not isinstance(self._options.own_writes, bool):
            return ReadYourWrites(self.own_writes, self.queue)
        if client is None or self._surroundings.informers_of is None:
            return None
        return TrackedWrites(
            self.own_writes, self.queue, reconciler, client=client, informers_of=self._surroundings.informers_of,
            members=self._surroundings.members, random=random, breaker=breaker,
        )  # fmt: skip

    @checked
    def watch(self, source: Source, informer: Informer[Any] | InformerHandle[Any]) -> None:
        """Let the changes of a kind enqueue keys.

        Args:
            source: The kind, and how its objects are mapped to keys. The first that enqueues the objects' own keys
                determines the kind of this controller's keys.
            informer: Watches the kind.
        """
        self.watched.add(source, informer)
        own_writes = None if self._options.on_own_writes else self.own_writes
        informer.add_handler(EnqueueRequests(self.name, source, self.queue.add, self.dropped, own_writes))

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
        self.watched.declare(informer, kind, dependents, keys_are_dependents=keys_are_dependents)

    @property
    def lacks_watches(self) -> bool:
        """Whether nothing is known to enqueue a key: neither a watch nor other code, which has its queue."""
        return not (self.watched.has_other_source or self.watched.kinds or len(self.queue))

    @property
    def own_store(self) -> Store[Any] | None:
        """The store of the objects that the keys name; None when they name none that it knows of."""
        return self.watched.own_store

    @property
    def own_kind(self) -> ResourceType | None:
        """The kind of the objects that the keys name; None when they name none that it knows of."""
        return self.watched.own_kind

    @property
    def kinds(self) -> tuple[ResourceType, ...]:
        """The kinds that it watches, each once; that of its keys is the first."""
        return self.watched.kinds

    @property
    def is_sharded(self) -> bool:
        """Whether, under sharding, each replica reconciles its share of the keys."""
        return self._options.sharded

    @property
    def plugin(self) -> str:
        """The plugin that has added it, as `--controllers` names it; empty for a program of one's own."""
        return self._surroundings.plugin

    def release(self, key: Key) -> None:
        """Drop the memory of a key that another replica reconciles from now on; its delays in the queue are over."""
        if self.own_writes is not None:
            self.own_writes.forget(key)
        self.queue.forget(key)
        self.waits.end(key)
        self._stations.backoff.forget(key)
        if self._stations.breaker is not None:
            self._stations.breaker.forget(key)
        if isinstance(self.reconciler, ReleasesKeys):
            self.reconciler.release(key)

    @property
    def paused(self) -> tuple[Key, ...]:
        """The keys of paused objects, as far as they have come."""
        return self.pauses.keys

    @property
    def parked(self) -> dict[Key, ParkedFailure]:
        """The keys that have failed `max_retries` times and are no longer retried; it may be read in any thread."""
        return {} if self._stations.limit is None else self._stations.limit.parked.copy()

    def has_timed_out(self, key: Key) -> bool:
        """Return whether the wait of a key (`kcr.WaitFor`) is longer than its timeout, as its reconciles may ask."""
        return self.waits.has_timed_out(key)

    def hot_loop(self, key: Key, now: float) -> HotLoopFinding | None:
        """Return the hot loop of a key in the last ten minutes, with the remedy; None if there is none.

        Args:
            key: The key.
            now: The time of the controller's loop.
        """
        return self._stations.hot_loops.finding(key, now)

    async def run(self) -> None:
        """Reconcile until cancelled. Then no key is begun, and running reconciles get a few seconds to finish."""
        worker, seconds = self._make_worker(), self._options.warn_after
        long_runs = None if seconds is None else LongRuns(self.name, seconds, self.journal, self.queue)
        async with asyncio.TaskGroup() as group:
            for number in range(self._options.workers):
                group.create_task(worker.run(), name=f"{self.name} worker {number}")
            if long_runs is not None:
                long_runs.start()
            try:
                # Ends by cancellation only.
                await asyncio.get_running_loop().create_future()
            finally:
                if long_runs is not None:
                    long_runs.stop()
                await self._stop()

    def _make_worker(self) -> Worker:
        """Make the worker that all tasks run: gates and observers that are off, such as traces, are not in it."""
        stations, tracer = self._stations, find_tracer()
        client, writes = stations.client, stations.writes
        member_gate = self._surroundings.member_gate(self)
        gates: list[Gate] = [*stations.gates, self.pauses]
        if member_gate is not None:
            gates.insert(0, member_gate)
        if stations.limit is not None:
            gates.append(stations.limit)
        # The hot loops wait for the server before they let a reconcile begin: nothing else has begun by then.
        observers: list[Observer] = [DebugLog(self.queue, self.watched.own_object)] if DebugLog.is_enabled() else []
        if stations.conflicts is not None:
            observers.append(stations.conflicts)
        # The span ends before the metrics, which take its exemplar.
        observers += (stations.hot_loops, self.journal, ReconcileMetrics(self.metrics))
        if tracer is not None:
            observers.append(ReconcileSpans(tracer, self.name, self.queue, self.watched.own_object))
        if writes is not None:
            gates.append(writes)
        if isinstance(writes, ReadYourWrites):
            # The innermost: events that arrived during a reconcile are enqueued even if another observer fails.
            observers.append(writes)
        elif self.own_writes is not None and not self._options.on_own_writes:
            observers.append(ReadYourWrites(self.own_writes, self.queue))
        if client is not None and client.is_dry_run:
            # Late, for it counts the keys that it admits as reconciled.
            gates.append(MinInterval(DRY_RUN_INTERVAL_SECONDS, self.queue))
        # Likewise: it counts events.
        gates.append(stations.backoff)
        return Worker(
            self.name, self.queue, stations.reconciler, context_of=self._make_contexts(), gates=tuple(gates),
            outcomes=stations.outcomes, observers=tuple(observers), journal=self.journal, random=stations.random,
        )  # fmt: skip

    def _make_contexts(self) -> Callable[[Key], WriteContext]:
        """Return the function that says on whose behalf the reconcile of a key writes; each reconcile pays for it."""
        writes, gates, manager = self._stations.writes, self._stations.gates, WRITE_CONTEXT.get().manager
        tracker = writes if isinstance(writes, TrackedWrites) else self._stations.breaker
        if not self._surroundings.has_slots:
            return lambda key: WriteContext(key, tracker, manager)

        def context_of(key: Key) -> WriteContext:
            shards = (gate.shard_of(key) for gate in gates)
            shard = next((one for one in shards if one is not None), None)
            return WriteContext(key, tracker, manager, shard, has_slots=True)

        return context_of

    def skip_grace_period(self) -> None:
        """Cancel running reconciles at once when the controller stops: they must not write any more."""
        self._grace = None

    async def _stop(self) -> None:
        dropped = self.queue.shut_down(discard=True)
        _log.debug("controller stops", controller=self.name, delayed_keys_dropped=dropped)
        grace = self._grace or 0.0
        timeout = asyncio.timeout(None if grace < 0 else grace)
        try:
            async with timeout:
                await self.queue.drain()
        except (TimeoutError, asyncio.CancelledError):
            # In a task that is cancelled already, Python before 3.11.4 leaves a timeout as a cancellation.
            if not timeout.expired():
                raise
            if self._grace is None:
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


def _has_other_source(options: ControllerOptions) -> bool:
    """Return whether keys come to the queue by other code, as far as it is known before there are watches."""
    return not isinstance(options, ManagedOptions) or options.watches is not None or options.queue is not None
