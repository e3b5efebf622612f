"""The manager: starts and stops informers, controllers and other components in order."""

import asyncio
import random as randomness
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from kcr.annotations import NamespaceNames, Text
from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress
from kcr.api.meta import Key, Resource
from kcr.arguments import checked
from kcr.client import Client, RequestObserver, api_client
from kcr.client.context import WRITE_CONTEXT, WriteContext, writing
from kcr.clock import Clock, SystemClock
from kcr.controller import Channel, Controller, Reconciler, Right, Source, rights, watch_rights
from kcr.controller.controller import ManagedOptions, Surroundings
from kcr.controller.gates import Gate
from kcr.controller.read_your_writes import TrackedServer
from kcr.controller.sources import ChannelSource
from kcr.errors import LeadershipLostError
from kcr.events import EventRecorder, EventsApi, event_kind
from kcr.informer import Informer, InformerHandle, Selection, Store
from kcr.informer.cache import InformerCache
from kcr.keywords import Keywords
from kcr.log import get_logger
from kcr.metrics import Metrics
from kcr.runnables import Phase, Runnable, RunnableGroup, first_failure, running
from kcr.scopes.gate import unsettled_keys
from kcr.scopes.leaderelection import Leadership
from kcr.scopes.namespaces import Namespaces
from kcr.scopes.sharding import OnFirstShard, ShardedReplica, Shards
from kcr.serving.debug.access import DebugOptions
from kcr.serving.health import Health
from kcr.serving.observability import Observability
from kcr.serving.ports import SecureServing
from kcr.serving.webhooks import WebhookOptions, Webhooks
from kcr.serving.webhooks.server import WebhookServing, attach
from kcr.workqueue import FairBy, MostInFlight, RateLimiter, WorkQueue

if TYPE_CHECKING:  # the registration checks webhooks: method by method
    from kcr.serving.webhooks.registration import Webhook

R = TypeVar("R", bound=Resource)
_log = get_logger()
_SYSTEM_CLOCK, _NO_OPTIONS = SystemClock(), DebugOptions()


class Manager:
    """Owns the informers, controllers and recorders of a process.

    `run` starts them in order: ports for metrics and probes, informers, and once these are synced, controllers and
    whatever was added. It stops them in the reverse order: running reconciles may finish, then the informers end, the
    ports are closed, and the last events are written.

    With leader election, several replicas run and one leads: controllers run on the leader only; the others stand by
    with synced caches and filled queues. The lease is released when the controllers have ended. A leader that loses it
    ends without a grace period. Under sharding all replicas reconcile, each the keys of the shards that it holds.

    Attributes:
        client: Talks to the server; cached reads are `store`.
        namespace: The namespace to watch, or several, separated by commas; empty for all.
        namespaces: Those to watch if they may change; None for fixed ones.
        metrics: The metrics of the process; controllers register their own there.
        health: The health checks; controllers add their own.
        elector: Decides whether this replica leads; None for a program that runs once, or is sharded.
        webhooks: Answers the API server's reviews; `add_webhook` and `add_conversion` add to them.
        events_api: The API group of the events.
        request_observers: Called for each request of its tasks, beside `metrics`.
    """

    @checked
    def __init__(  # noqa: PLR0913  # by name
        self,
        client: Client,
        *,
        clock: Clock = _SYSTEM_CLOCK,
        random: randomness.Random | None = None,
        namespace: NamespaceNames | Namespaces = "",
        metrics: Metrics | None = None,
        leader_election: Leadership | ShardedReplica | None = None,
        events_api: EventsApi = "core",
    ) -> None:
        """Make a manager; `run` runs it.

        Args:
            client: Talks to the server.
            clock: The source of time.
            random: A seed makes a test repeatable.
            namespace: The namespace to watch, several, separated by commas, or those that may change; empty for all.
            metrics: Where metrics are registered; None for a registry of its own.
            leader_election: Whether this replica leads, or which shards it holds; None for a program that runs once.
            events_api: The API group of the events.
        """
        self._replica = leader_election if isinstance(leader_election, ShardedReplica) else None
        self.elector: Leadership | None = leader_election if isinstance(leader_election, Leadership) else None
        election = self.elector or self.shards
        self.client: Client = client if election is None else client.with_options(fence=election.check)
        self.clock = clock
        self.random: randomness.Random = random or randomness.Random()
        self.namespaces: Namespaces | None = namespace if isinstance(namespace, Namespaces) else None
        self.namespace: str = namespace if isinstance(namespace, str) else ""
        self.metrics: Metrics = metrics or Metrics()
        self.request_observers: list[RequestObserver] = [*WRITE_CONTEXT.get().observers]
        self.health: Health = Health()
        self._ready = asyncio.Event()
        self.health.add_ready("controllers", lambda: "" if self._ready.is_set() else "they do not run")
        reviewer = client.with_options(field_manager="metrics", throttled=False)
        self._observability = Observability(reviewer, self.metrics, self.health, clock, election)
        self._cache = InformerCache(self.namespace, self._make_informer, self._observability.remove_informer)
        self._controllers: dict[str, Controller] = {}
        self._plugin = ""  # the one that adds controllers just now
        self._members: MemberClusters | None = None
        self._has_run = False
        self._rights = frozenset[Right]()  # of controllers and recorders, beside their watches
        self._recorders: dict[str, EventRecorder] = {}
        self.events_api: EventsApi = events_api
        self._recorder_client = client  # a former leader may still report, and no longer write
        self.webhooks: Webhooks = Webhooks(self.metrics)
        self._serving_webhooks: Phase = nullcontext
        self._reviewing: Phase = nullcontext
        # The stages in the order of starting. Each ends before the one before it does.
        stages = ("events", "leader election", "informers", "components", "controllers")
        self._writing, self._electing, self._watching, self._standing_by, self._working = (
            RunnableGroup(stage, self._report) for stage in stages
        )
        self._on_failure: Callable[[Exception], object] = lambda error: None
        self._limits = [one for one in (self.namespaces, self._replica) if one is not None]  # of the watches
        if self.namespaces is not None:
            self.namespaces.connect(self._cache, self.health.add_ready, self._watching.add)

    @checked
    def select(self, *selections: Selection[Any]) -> None:
        """List and watch only the selected objects of a kind, and store the results of their transforms.

        Raises:
            ValueError: The kind has an informer already, or the selections overlap.
        """
        self._cache.select(selections)

    @checked
    def informer(self, kind: type[R]) -> Informer[R]:
        """Return the informer of a kind; it is made on first use, and runs as long as the manager does."""
        return self._cache.informer(kind)

    @checked
    def open_informer(self, kind: type[R]) -> InformerHandle[R]:
        """Open a handle of the informer of a kind, for a while: `async with manager.open_informer(Pod) as pods:`.

        It ends once all handles are closed, also those of `add_watch`, unless `informer` or `store` was called for it.
        """
        return self._cache.open(kind)

    def _make_informer(self, selections: tuple[Selection[Any], ...]) -> Informer[Any]:
        informer, kind = Informer(self.client, selections, random=self.random), selections[0].kind
        for limit in self._limits:
            limit.add_informer(informer)
        self._watching.add(informer.run, kind.resource.display)
        self._observability.add_informer(selections, informer, is_late=self._ready.is_set())
        return informer

    @checked
    def remove_informer(self, kind: type[Resource]) -> None:
        """Close the informer of a kind for all its users (controller-runtime's RemoveInformer); prefer handles."""
        self._cache.remove(kind)

    @property
    def selections(self) -> tuple[Selection[Any], ...]:
        """The watched kinds, each in all namespaces or in some."""
        return self._cache.selections

    @property
    def leading_since(self) -> int:
        """The version up to which another leader of the running reconcile's shard may have written; 0 for none."""
        return 0 if (election := self.elector or self.shards) is None else election.leading_since

    @property
    def shards(self) -> Shards | None:
        """The shards that this replica holds; None for a program that is not sharded."""
        return None if self._replica is None else self._replica.shards

    @property
    def rights(self) -> frozenset[Right]:
        """The declared rights of all controllers, informers and recorders."""
        return self._rights | watch_rights(self._cache.kinds)

    @checked
    def store(self, kind: type[R]) -> Store[R]:
        """Return the cached objects of a kind, for as long as the manager runs."""
        return self.informer(kind).store

    @cached_property
    def api_client(self) -> Any:
        """The `ApiClient` of typed APIs: `BatchV1Api(manager.api_client)`, see `kcr.client.api_client`."""
        return api_client(self.client)

    @checked
    def recorder(self, component: Text, *, host: str = "") -> EventRecorder:
        """Return the recorder that writes events in a component's name.

        Args:
            component: The component.
            host: On which machine it runs, for components that run on several.
        """
        if (recorder := self._recorders.get(component)) is None:
            recorder = self._recorders[component] = EventRecorder(
                self._recorder_client, component, clock=self.clock, random=self.random, host=host, api=self.events_api
            )
            self._writing.add(recorder.run, component)
            self._rights |= rights(event_kind(self.events_api), "create", "patch")
        return recorder

    @checked
    def queue(
        self, controller: Text, limiter: RateLimiter[Key] | None = None, *, fair_by: FairBy[Key] | None = None,
        in_flight: MostInFlight[Key] | None = None,
    ) -> WorkQueue[Key]:  # fmt: skip
        """Make the queue of a controller before the controller, for a reconciler that enqueues keys itself.

        Args:
            controller: The name that the controller will have.
            limiter: How long a failed key waits; None for the default of `add_controller`.
            fair_by: As for `add_controller`.
            in_flight: As for `add_controller`.
        """
        return WorkQueue(limiter, metrics=self.metrics.queue(controller), fair_by=fair_by, in_flight=in_flight)

    @Keywords(ManagedOptions)
    def add_controller(self, name: Text, reconciler: Reconciler, options: ManagedOptions) -> Controller:
        """Add a controller, before the manager runs or while it does.

        Args:
            name: Names the controller in logs and metrics.
            reconciler: Reconciles one key.
            options: The options of the controller, by name.

        Raises:
            TypeError: The reconciler or an option is of another type.
            ValueError: An option is out of its bounds, or there is a controller of this name already.
        """
        if name in self._controllers:
            raise ValueError(f"controller {name}: there is one of this name already")
        if options.queue is not None and any(one.queue is options.queue for one in self._controllers.values()):
            raise ValueError(f"controller {name}: the queue is another controller's: give it its own, Manager.queue(…)")
        controller = Controller(
            name, reconciler, options, random=self.random, metrics=self.metrics, client=self.client,
            surroundings=self._surroundings(),
        )  # fmt: skip
        self._controllers[name] = controller
        self._observability.add_controller(controller)
        self._rights |= options.rights
        sources = options.watches or ()
        needs = [one for source in sources if (one := self.add_watch(controller, source)) is not None]
        self._add(controller, needs, options.needs_leader_election)
        return controller

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            find_informer=self._cache.find, informers_of=self._cache.all_of, recorder=self.recorder,
            gates=tuple(limit.make_gate for limit in self._limits),
            members=lambda: {} if self._members is None else self._members.members,
            member_gate=lambda controller: None if self._members is None else self._members.gate_of(controller),
            has_slots=self._replica is not None, plugin=self._plugin,
        )  # fmt: skip

    @checked
    @contextmanager
    def adding_for(self, name: str) -> Iterator[None]:
        """Give the controllers that are added meanwhile the name of their plugin."""
        self._plugin = name
        try:
            yield
        finally:
            self._plugin = ""

    @checked
    def add_members(self, members: "MemberClusters") -> None:
        """Reconcile the keys of member clusters as well; `kcr.Clusters` calls this."""
        if self._members is not None:
            raise ValueError("Manager.add_members: it has its member clusters already: add these to them")
        self._members = members

    @Keywords(WebhookOptions)
    def add_webhook(
        self, kind: type[Resource], webhook: "Webhook | Sequence[Webhook]", options: WebhookOptions
    ) -> None:
        """Add an admission webhook of a kind; every replica serves it, whether it leads or not.

        ```python
        class WebsiteWebhook:
            def default(self, obj: Website, request: kcr.WebhookRequest) -> Website | None: ...
            async def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> list[str] | None: ...

        manager.add_webhook(Website, WebsiteWebhook(), timeout_seconds=5)
        ```

        Args:
            kind: The type of the reviewed objects; with `subresource="scale"` the methods get a `Scale`, and with
                `exec` and its like the options as `Unstructured`.
            webhook: An object with some of the methods `default`, `validate_create`, `validate_update`,
                `validate_delete` and `validate_connect`, coroutines or plain functions; or a sequence of such objects,
                called in this order. `default` returns the changed object, or None for no change. Validators raise
                `kcr.Denied`, and may return warnings. Plain functions must not block.
            options: The options of the webhook, by name.

        Raises:
            TypeError: It has none of the methods, or one with other arguments or results.
            ValueError: An option has no such value, or there is a webhook with this path already.
        """
        self.webhooks.add(kind, webhook, options)

    @checked
    def add_conversion(self, kind: type[Resource]) -> None:
        """Serve the conversions between the versions of a kind, by the functions of `@kcr.converts`, at `/convert`.

        Args:
            kind: The class of any of its versions.

        Raises:
            TypeError: A version is not converted to another, or in several ways; the message has the remedy.
        """
        self.webhooks.add_conversion(kind)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added: no controller, informer, webhook, conversion or component."""
        added = self._controllers or self._cache.kinds or self.webhooks.paths
        return not (added or self._working or self._standing_by)

    @property
    def controllers(self) -> Mapping[str, Controller]:
        """The controllers by name, for example for the queue of one that a `setup` function has added."""
        return MappingProxyType(self._controllers)

    @overload
    def add_watch(self, controller: Controller, source: Source) -> InformerHandle[Any]: ...

    @overload
    def add_watch(self, controller: Controller, source: Channel) -> None: ...

    @checked
    def add_watch(self, controller: Controller, source: Source | Channel) -> InformerHandle[Any] | None:
        """Add a source of keys to a controller, before the manager runs or while it does.

        Args:
            controller: The controller.
            source: `kcr.watch`, `kcr.owned` or `kcr.channel`. Objects that exist enqueue their keys at once.

        Returns:
            The handle that ends the watch when it is closed; None for a channel, which ends by itself.

        Source: controller-runtime/pkg/controller/controller.go, Watch.
        """
        if isinstance(source, Channel):
            controller.watched.note_source()
            self.add(ChannelSource(controller.name, source, controller.queue))
            return None
        controller.watch(source, handle := self._cache.open(source.kind))
        return handle

    @checked
    def add(self, component: Runnable, *, needs_leader_election: bool = True) -> None:
        """Run a component beside the controllers: once the stores are synced.

        Args:
            component: The component.
            needs_leader_election: Whether it runs on the leader only.
        """
        self._add(component, (), needs_leader_election)

    def _add(self, component: Runnable, needs: Sequence[InformerHandle[Any]], needs_leader_election: bool) -> None:
        name = getattr(component, "name", repr(component))
        group = self._working if needs_leader_election else self._standing_by
        if not isinstance(component, Controller):
            if not needs_leader_election:
                component = _OnEveryReplica(component)
            elif self._replica is not None:
                component = OnFirstShard(self._replica, component)
        group.add(partial(self._cache.run_synced, component, name, needs), name)

    @checked
    def expose(
        self, *, metrics: str | BindAddress | None = None, probes: str | BindAddress | None = None,
        metrics_secure: SecureServing | None = None, debug: DebugOptions = _NO_OPTIONS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:  # fmt: skip
        """Serve metrics and probes for as long as the manager runs, and monitor the event loop.

        Args:
            metrics: Where `/metrics` is, such as `:8080` or `127.0.0.1:8080`; None or `0` for nowhere.
            probes: Where the probes are, and `/debug/kcr`, for this machine alone; None or `0` for nowhere.
            metrics_secure: HTTPS, for users that the API server knows and who may `get` the path; None for plain HTTP.
            debug: The options of the debug pages.
            max_connections: How many connections each port has open; the oldest idle one makes room for a new one.

        Raises:
            ConfigError: An address is malformed, or there is no certificate.
            RuntimeError: The manager runs already, or this is the second call.
        """
        self._observability.expose(metrics, probes, metrics_secure, debug, max_connections)

    @checked
    def serve_webhooks(self, serving: WebhookServing) -> None:
        """Serve the webhooks over HTTPS, on a thread, while the manager runs; ConfigError without a certificate."""
        server = attach(self, serving, self._watching.add)
        self._serving_webhooks, self._reviewing = server.serving, server.reviewing

    async def run(self, *, on_failure: Callable[[Exception], object] = lambda error: None) -> None:
        """Run everything until cancelled, or until a part fails.

        Args:
            on_failure: Called with the exception of a part that fails, at once: the others end after that.

        Raises:
            ConfigError: An address given to `expose` cannot be bound.
            NotSyncedError: A store could not be filled; the message names the cause.
            LeadershipLostError: Another process leads now, or may do so soon.
            Exception: The exception of a component, unchanged.
            RuntimeError: It runs already, or has run.
        """
        self._refuse_second_run()
        self._has_run = True
        self._on_failure = on_failure
        WRITE_CONTEXT.set(WriteContext(has_slots=self._replica is not None, manager=self))
        if self._replica is not None:
            self._replica.begin(self._cache, self.client)
        with first_failure():
            local, ports = self.webhooks.in_process(self.client), self._observability.serving()
            # Conversions are served before the first list, which may need them; webhooks outlive the lease.
            async with self._writing, ports, self._serving_webhooks(), local.serving(), self._watching:
                await self._cache.wait_synced(log=True)
                if self.namespaces is not None:
                    await self.namespaces.wait_opened()
                self._cache.freeze()
                async with self._reviewing(), self._electing, self._standing_by, local.reviewing():
                    await self._lead_and_work()

    def running(self) -> AbstractAsyncContextManager[Self]:
        """Run for as long as the context lives; it begins once the stores are synced and the workers run.

        ```python
        async with manager.running():
            await client.create(website)
            await eventually(is_ready)
        ```

        For tests and scripts; programs use `kcr.run`. Exceptions of the manager and the context are raised unchanged.

        Raises:
            RuntimeError: It runs already, or has run.
        """
        self._refuse_second_run()
        return running(self, self.wait_ready)

    def _refuse_second_run(self) -> None:
        if self._has_run:
            state = "runs already" if self._ready.is_set() else "has run, or begins to"
            remedy = "one manager runs once: make another one, and add its controllers there"
            raise RuntimeError(f"Manager: this one {state}: {remedy}")

    def _report(self, error: Exception) -> None:
        self._on_failure(error)

    async def _lead_and_work(self) -> None:
        try:
            if (election := self._replica or self.elector) is not None:
                self._electing.add(partial(self._campaign, election), election.config.name)
            if self.elector is not None:
                self._ready.set()
                _log.info("ready: caches are synced, standing by", lease=str(self.elector.config.key))
                await self.elector.elected.wait()
                self.elector.record_event(self.recorder(self.elector.config.name))
            async with self._working:
                self._ready.set()
                _log.info("ready: caches are synced, workers run")
                self._warn_of_missing_watches()
                try:  # until cancelled: readiness fails at once, while reconciles end
                    await asyncio.get_running_loop().create_future()
                finally:
                    self._ready.clear()
        finally:
            self._ready.clear()
            if self.elector is not None and (keys := set(unsettled_keys(self._controllers.values()))):
                self.elector.retain()
                _log.warning("lease is left to expire: writes had no answer", keys=" ".join(sorted(map(str, keys))[:8]))

    def _warn_of_missing_watches(self) -> None:
        for controller in self._controllers.values():
            if controller.lacks_watches:
                remedy = "give it watches=[kcr.watch(…)], or watches=() if other code adds keys to its queue"
                _log.warning("controller has no watches", controller=controller.name, remedy=remedy)

    async def _campaign(self, elector: Runnable) -> None:
        """Run the elector; it ends after the controllers do, unless it loses."""
        try:
            await elector.run()
        except LeadershipLostError:
            for controller in self._controllers.values():
                controller.skip_grace_period()
            raise

    async def wait_ready(self) -> None:
        """Wait until the stores are synced and the workers run, or stand by for leadership."""
        await self._ready.wait()


class MemberClusters(Protocol):
    """The member clusters of a program, as `kcr.Clusters` has them."""

    @property
    def members(self) -> Mapping[str, TrackedServer]:
        """The open clusters by name."""
        ...

    def gate_of(self, controller: Controller) -> Gate | None:
        """Return the gate of a controller's keys in these clusters; None for one without such keys."""
        ...


class _OnEveryReplica:
    """A component that runs on every replica, and whose writes need no Lease."""

    def __init__(self, component: Runnable) -> None:
        self._component = component

    async def run(self) -> None:
        """Run the component."""
        with writing(every_replica=True):
            await self._component.run()
