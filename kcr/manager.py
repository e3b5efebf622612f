"""The manager: what runs in one process, started and stopped in order."""

import asyncio
import gc
import random as randomness
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from typing import Any, Self, TypeVar, cast

import structlog

from kcr.api.meta import Key, PartialObjectMetadata, Resource
from kcr.client import Client, api_client
from kcr.clock import Clock, SystemClock
from kcr.controller import Channel, Controller, OwnWrites, Reconciler, Source
from kcr.controller.controller import GRACE_SECONDS
from kcr.controller.sources import ChannelSource, EnqueueRequests
from kcr.endpoint import HTTPServer, ProbeRequest, ProbeResponse, parse_address
from kcr.errors import NotSyncedError, leaves
from kcr.events import EventRecorder
from kcr.health import Health, LoopMonitor
from kcr.informer import Informer, Selection, Store
from kcr.informer.selection import disjoint
from kcr.metrics import Metrics
from kcr.runnables import Runnable, RunnableGroup, running
from kcr.workqueue import RateLimiter, WorkQueue

R = TypeVar("R", bound=Resource)

_log = structlog.get_logger()
_SYSTEM_CLOCK = SystemClock()

# Source: controller-runtime, Controller.CacheSyncTimeout.
SYNC_SECONDS = 120.0
# How often a log line names the caches that are not synced.
UNSYNCED_LINE_SECONDS = 20.0
# With fewer objects a full collection is quick.
FREEZE_FROM = 1000


class Manager:
    """Owns the informers, controllers and recorders of a process.

    `run` starts them in order: ports for metrics and probes, informers, and once these are synced, controllers and
    whatever was added. It stops them in the reverse order: running reconciles may finish, then the informers end, the
    ports are closed, and the last events are written.

    Attributes:
        client: Talks to the server; cached reads are `store`.
        clock: What time it is.
        random: The source of randomness.
        namespace: The one namespace to watch; empty for all.
        metrics: The metrics of the process; controllers register their own there.
        health: The health checks; controllers add their own.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock = _SYSTEM_CLOCK,
        random: randomness.Random | None = None,
        namespace: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.random = random or randomness.Random()
        self.namespace = namespace
        self.metrics = metrics or Metrics()
        self.health = Health()
        self._informers: dict[type[Resource], Informer[Any]] = {}
        # Selections of some kinds; of the others, everything in the manager's namespace.
        self._selected: dict[type[Resource], tuple[Selection[Any], ...]] = {}
        self._controllers: dict[str, Controller] = {}
        self._recorders: dict[str, EventRecorder] = {}
        # What runs, in the order of starting. Each stage ends before the one before it does.
        self._writing = RunnableGroup("events")
        self._endpoints: list[HTTPServer] = []
        # Whether ports can no longer be added.
        self._exposed = False
        self._monitoring = RunnableGroup("monitors")
        self._watching = RunnableGroup("informers")
        self._working = RunnableGroup("controllers")
        self._ready = asyncio.Event()
        self.health.add_ready("controllers", lambda: "" if self._ready.is_set() else "they do not run")

    def select(self, *selections: Selection[Any]) -> None:
        """List and watch only these objects of a kind, perhaps by namespace, and store what their transforms return.

        Raises:
            ValueError: The kind has an informer already, or the selections overlap.
        """
        chosen = disjoint(selections)
        kind = chosen[0].kind
        if kind in self._informers or kind in self._selected:
            raise ValueError(f"{kind.resource.display}: select before the kind is used, and once")
        self._selected[kind] = chosen

    def informer(self, kind: type[R]) -> Informer[R]:
        """Return the informer of a kind; it is made on first use."""
        informer = self._informers.get(kind)
        if informer is None:
            made = informer = Informer(self.client, self._selections_of(kind), random=self.random)
            self._informers[kind] = made
            self._watching.add(made.run, kind.resource.display)
            name, (group, version, _, plural, _) = _check_name(kind), kind.resource
            self.health.add_ready(name, lambda: made.not_synced_reason, remark=lambda: made.last_error)
            self.metrics.informer((name.removeprefix("informer-"), group, version, plural), made)
        return cast("Informer[R]", informer)

    def remove_informer(self, kind: type[Resource]) -> None:
        """Stop watching a kind that the server serves no longer; its objects stay in the store as they were last seen.

        Source: controller-runtime/pkg/cache/cache.go, RemoveInformer.
        """
        informer = self._informers.pop(kind, None)
        if informer is not None:
            self._watching.remove(informer.run)
            self.health.remove_ready(_check_name(kind))

    @property
    def selections(self) -> tuple[Selection[Any], ...]:
        """What is watched: kinds, each in all namespaces or in some."""
        return tuple(selection.normal() for kind in self._informers for selection in self._selections_of(kind))

    def _selections_of(self, kind: type[R]) -> tuple[Selection[R], ...]:
        return self._selected.get(kind) or (Selection(kind, self.namespace),)

    def store(self, kind: type[R]) -> Store[R]:
        """Return the cached objects of a kind."""
        return self.informer(kind).store

    @cached_property
    def api_client(self) -> Any:
        """kubernetes-asyncio's API on `client`: `BatchV1Api(manager.api_client)`, see `kcr.client.api_client`."""
        return api_client(self.client)

    def recorder(self, component: str, *, host: str = "") -> EventRecorder:
        """Return the recorder that writes events in a component's name.

        Args:
            component: The component.
            host: On which machine it runs, for components that run on several.
        """
        recorder = self._recorders.get(component)
        if recorder is None:
            recorder = EventRecorder(self.client, component, clock=self.clock, random=self.random, host=host)
            self._recorders[component] = recorder
            self._writing.add(recorder.run, component)
        return recorder

    def queue(self, controller: str, limiter: RateLimiter[Key] | None = None) -> WorkQueue[Key]:
        """Make the queue of a controller before the controller, for a reconciler that enqueues keys itself.

        Args:
            controller: The name that the controller will have.
            limiter: How long a failed key waits; None for the default of `add_controller`.
        """
        return WorkQueue(limiter, metrics=self.metrics.queue(controller))

    def add_controller(  # noqa: PLR0913  # the options of a controller, all by name
        self,
        name: str,
        reconciler: Reconciler,
        *,
        watches: Iterable[Source | Channel] = (),
        workers: int = 1,
        limiter: RateLimiter[Key] | None = None,
        queue: WorkQueue[Key] | None = None,
        own_writes: OwnWrites | None = None,
        reconcile_timeout: float | None = None,
        graceful_shutdown_timeout: float = GRACE_SECONDS,
    ) -> Controller:
        """Add a controller, before the manager runs or while it does.

        Args:
            name: Names the controller in logs and metrics.
            reconciler: Reconciles one key.
            watches: The sources of keys: `kcr.watch`, `kcr.owned` and `kcr.channel`.
            workers: How many keys are reconciled concurrently.
            limiter: The backoff of failed keys; by default exponential from 5 ms to 1,000 s, and for all keys together
                a token bucket of 100 with ten a second.
            queue: From `queue`, for a reconciler that enqueues keys itself; it brings its limiter. None for a new one.
            own_writes: Defers keys until the stores show what the reconciler wrote; None for no such care.
            reconcile_timeout: Seconds after which a reconcile is cancelled and fails; None for never.
            graceful_shutdown_timeout: Seconds that running reconciles may go on at the end; negative for no limit.

        Raises:
            ValueError: There is a controller of this name already.
        """
        if name in self._controllers:
            raise ValueError(f"controller {name}: there is one of this name already")
        controller = Controller(
            name,
            reconciler,
            random=self.random,
            workers=workers,
            limiter=limiter,
            queue=queue,
            own_writes=own_writes,
            reconcile_timeout=reconcile_timeout,
            graceful_shutdown_timeout=graceful_shutdown_timeout,
            metrics=self.metrics,
        )
        self._controllers[name] = controller
        for source in watches:
            self.add_watch(controller, source)
        self.add(controller)
        return controller

    def add_watch(self, controller: Controller, source: Source | Channel) -> None:
        """Add a source of keys to a controller, before the manager runs or while it does.

        Args:
            controller: The controller.
            source: `kcr.watch`, `kcr.owned` or `kcr.channel`. Objects that exist enqueue their keys at once.

        Source: controller-runtime/pkg/controller/controller.go, Watch.
        """
        if isinstance(source, Channel):
            self.add(ChannelSource(controller.name, source, controller.queue))
        else:
            self.informer(source.kind).add_handler(EnqueueRequests(controller.name, source, controller.queue.add))

    def add(self, component: Runnable) -> None:
        """Run a component beside the controllers: once the stores are synced."""

        async def run() -> None:
            # The stores it may read, however late it is added.
            await self._wait_synced()
            await component.run()

        self._working.add(run, getattr(component, "name", repr(component)))

    def expose(self, *, metrics: str = "0", probes: str = "0") -> None:
        """Serve metrics and probes for as long as the manager runs, and monitor the event loop.

        Args:
            metrics: Where `/metrics` is, such as `:8080` or `127.0.0.1:8080`; `0` for nowhere.
            probes: Where `/healthz`, `/livez` and `/readyz` are; `0` for nowhere.

        Raises:
            ConfigError: An address is malformed.
            RuntimeError: The manager runs already, or this is the second call.
        """
        if self._exposed:
            raise RuntimeError("expose a manager once, and before it runs")
        self._exposed = True
        for what, text, page in (("metrics", metrics, self._metrics_page), ("probes", probes, self._probe_page)):
            address = parse_address(text)
            if address is not None:
                self._endpoints.append(HTTPServer(what, address, page))
        monitor = LoopMonitor(self.metrics.loop_lag)
        self._monitoring.add(monitor.run, monitor.name)
        self.health.add_live("event-loop", monitor.check)

    def _metrics_page(self, asked: ProbeRequest) -> ProbeResponse | None:
        return ProbeResponse(200, *self.metrics.render(asked.accept)) if asked.path == "/metrics" else None

    def _probe_page(self, asked: ProbeRequest) -> ProbeResponse | None:
        verdict = self.health.answer(asked.path, asked.query)
        return ProbeResponse(verdict.status, verdict.text.encode()) if verdict is not None else None

    async def run(self) -> None:
        """Run everything until cancelled, or until a part fails.

        Raises:
            ConfigError: An address given to `expose` cannot be bound.
            NotSyncedError: A store could not be filled; the message names the cause.
            Exception: What a component raised, as it is.
        """
        failure: BaseException | None = None
        try:
            async with self._writing, self._listening(), self._monitoring, self._watching:
                await self._wait_synced(self._log_unsynced)
                if sum(len(informer.store) for informer in self._informers.values()) >= FREEZE_FROM:
                    # Full collections that walk the cached objects would block the event loop.
                    gc.collect()
                    gc.freeze()
                async with self._working:
                    await self._work()
        except BaseExceptionGroup as group:
            failure, *others = leaves(group)
            for other in others:
                _log.error("additional error during shutdown", error=str(other), exc_info=other)
        if failure is not None:
            # Here and not above, so that the group is not its context.
            raise failure

    def running(self) -> AbstractAsyncContextManager[Self]:
        """Run for as long as the context lives; it begins once the stores are synced and the workers run.

        ```python
        async with manager.running():
            await client.create(website)
            await eventually(is_ready)
        ```

        For tests and scripts; a program is `kcr.run`. What the manager or the context fails with is raised as it is.
        """
        return running(self, self.wait_ready)

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        self._exposed = True
        async with AsyncExitStack() as stack:
            for endpoint in self._endpoints:
                await stack.enter_async_context(endpoint)
            yield

    async def _work(self) -> None:
        self._ready.set()
        _log.info("ready: caches are synced, workers run")
        try:
            # Ends by cancellation only.
            await asyncio.get_running_loop().create_future()
        finally:
            self._ready.clear()

    async def wait_ready(self) -> None:
        """Wait until the stores are synced and the workers run."""
        await self._ready.wait()

    async def _wait_synced(self, while_waiting: Callable[[], None] = lambda: None) -> None:
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                while late := self._late():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(UNSYNCED_LINE_SECONDS):
                            await late[0].wait_synced()
                            continue
                    while_waiting()
        except TimeoutError as error:
            causes = "; ".join(informer.not_synced_reason for informer in self._late())
            raise NotSyncedError(f"not synced after {SYNC_SECONDS:.0f} s: {causes}") from error

    def _log_unsynced(self) -> None:
        late = self._late()
        causes = "; ".join(informer.not_synced_reason for informer in late)
        _log.warning("waiting for caches to sync", kinds=len(late), error=causes, gives_up_after_seconds=SYNC_SECONDS)

    def _late(self) -> list[Informer[Any]]:
        return [informer for informer in self._informers.values() if not informer.store.synced]


def _check_name(kind: type[Resource]) -> str:
    # A kind may have two informers, one of them of the metadata only.
    return f"informer-{kind.resource.display}" + ("-metadata" if issubclass(kind, PartialObjectMetadata) else "")
