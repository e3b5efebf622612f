"""The embedded cluster in one context: API server, the cluster's own controllers, node."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import structlog
from msgspec import Meta

from kcr.api.meta import Key
from kcr.api.resources import ResourceType
from kcr.api.scheduling import BetaPodGroup, PodGroup
from kcr.arguments import check_fields, checked
from kcr.client import Client
from kcr.clock import Clock, SystemClock
from kcr.errors import ConfigError
from kcr.keywords import Keywords
from kcr.manager import Manager
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.apiserver.authorization import Rbac
from kcr_devcluster.apiserver.http.resource_metrics import METRICS_KINDS
from kcr_devcluster.apiserver.kinds.catalogue import (
    ALL_KINDS,
    CERTIFICATE_SIGNING_REQUESTS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    VALIDATING_POLICIES,
)
from kcr_devcluster.apiserver.kinds.gangs import BETA_POD_GROUPS, with_gangs
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import kinds_in
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.kinds.views.legacy import LEGACY_KINDS
from kcr_devcluster.apiserver.registry.bootstrap import with_rbac
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster import volume_protection
from kcr_devcluster.cluster.controllers import pod_gc, pod_groups, quota_status, role_aggregation, token_secrets
from kcr_devcluster.cluster.controllers import service_accounts as accounts
from kcr_devcluster.cluster.controllers.garbage_collector import GarbageCollector
from kcr_devcluster.cluster.controllers.namespaces import NamespaceController
from kcr_devcluster.cluster.effects.advice import process_warnings
from kcr_devcluster.cluster.faults import ListenerFaults
from kcr_devcluster.cluster.first_objects import FirstObjects
from kcr_devcluster.cluster.names import cluster_names
from kcr_devcluster.cluster.node import NodeAgent, OnRun
from kcr_devcluster.cluster.node.runtime import RunningContainer
from kcr_devcluster.cluster.node.usage.proc import has_process_table
from kcr_devcluster.cluster.nodes import Nodes, node_names
from kcr_devcluster.cluster.scheduling import scheduler
from kcr_devcluster.cluster.scheduling.preemption import Budgets
from kcr_devcluster.cluster.webhooks.caller import HTTPCaller
from kcr_devcluster.cluster.webhooks.services import Services
from kcr_devcluster.cluster.workloads import setup as setup_workloads
from kcr_devcluster.cluster.workloads.replicasets import setup_replication_controllers
from kcr_devcluster.kinds import KindSource, define, definitions_of
from kcr_devcluster.options import MAX_CONNECTIONS, ClusterOptions, ServiceAccounts
from kcr_devcluster.transport import COMPONENT, Connections, InProcessTransport
from kcr_devcluster.versions import TRAITS

if TYPE_CHECKING:  # the listener needs aiohttp's server and cryptography; only `serve` loads them
    from kcr_devcluster.cluster.datadir import DataDir
    from kcr_devcluster.cluster.listener import ServerAddress
    from kcr_devcluster.cluster.streaming.pod_streams import PodStreams


_Port = Annotated[int, Meta(ge=0, le=65535)]
_Connections = Annotated[int, Meta(ge=1)]


class _Keywords(ClusterOptions, frozen=True, kw_only=True):
    """The keywords of `EmbeddedCluster`."""

    clock: Annotated[Clock | None, "What time it is; the machine's clock by default."] = None
    random: Annotated[
        Random | None,
        "Where names and uids come from; a seed makes a whole run repeatable. With a data folder, seeds must differ "
        "from start to start: equal ones draw equal uids.",
    ] = None
    kinds: Annotated[
        Sequence[KindSource],
        "Kinds that are served beside the built-in ones: classes, files of CustomResourceDefinitions, and folders of "
        "such files.",
    ] = ()
    on_run: Annotated[OnRun | None, "Returns the outcome of a container to the simulated runtime."] = None
    faults: Annotated[ListenerFaults | None, "Faults of the listener at first; rules can be added later."] = None


class EmbeddedCluster:
    """A cluster that lives as long as its context.

    Attributes:
        transport: The way to the server without a socket.
        client: An admin's client on that transport.
        server: The API server.
        manager: Runs the cluster's own controllers.
        nodes: The nodes by name, such as `kcr-node-0`; none when there is no runtime.
        node: The first of them; None when there is none.
        faults: The faults that clients of the listener meet.
    """

    @Keywords(_Keywords)
    def __init__(self, options: _Keywords) -> None:
        """Make a cluster; it runs inside `async with`.

        Args:
            options: Its nodes, controllers and served APIs.

        Raises:
            ConfigError: The data folder is damaged or in use, or a kind cannot be served.
            TypeError: An option has a value of another type.
            ValueError: A value is out of its bounds.
        """
        check_fields("EmbeddedCluster", options)
        self._clock = options.clock or SystemClock()
        self._random = options.random or Random()
        self._data = _open_data(options)
        with _closed_on_error(self._data):
            self._make_server(options)
            self._set_up(options)
        self._gc, self._deployments = options.gc, options.deployments
        self.faults: ListenerFaults = options.faults or ListenerFaults()
        self._stack = AsyncExitStack()
        # Serves connections into pods without a socket; None before the first.
        self._pod_streams: PodStreams | None = None
        self._first_objects = FirstObjects(self.storage, self.manager)
        self._tasks: list[asyncio.Task[None]] = []

    def _make_server(self, options: _Keywords) -> None:
        journal, signing_key = (self._data.journal, self._data.signing_key) if self._data else (None, b"")
        self.storage: Storage = Storage(journal, self._clock)
        self._webhooks = HTTPCaller(Services(self.storage, options.webhook_services))
        self._accounts: ServiceAccounts = options.service_accounts or (
            "tokens" if options.authorization == "rbac" else "none"
        )
        authorizer = Rbac(self.storage) if options.authorization == "rbac" else None
        version = options.kubernetes_version
        self._kinds = kinds_in(with_gangs(ALL_KINDS, version) if options.gangs else ALL_KINDS, version)
        if authorizer is not None:
            self._kinds = with_rbac(self._kinds)
        served = (*self._kinds, *VIEWS, *(LEGACY_KINDS if options.legacy_apis else ()))
        if options.runtime == "process" and has_process_table():
            served = (*served, *METRICS_KINDS)
        self.server: APIServer = APIServer(
            self.storage,
            clock=self._clock,
            random=self._random,
            kinds=served,
            signing_key=signing_key,
            authorizer=authorizer,
            sharded_list_and_watch=options.sharded_list_and_watch,
            version=version,
            caller=self._webhooks,
            accounts=self._accounts,
            # Only where a controller removes the finalizers again.
            protects_volumes=options.gc,
        )
        define(self.server, definitions_of(options.kinds))

    def _set_up(self, options: _Keywords) -> None:
        self.transport: InProcessTransport = InProcessTransport(self.server, connections=self._connections)
        self.client: Client = Client(self.transport)
        # Its own randomness, so that the controllers change no name or uid that the server draws.
        self.manager: Manager = Manager(
            self.client.with_options(field_manager=COMPONENT),
            clock=self._clock,
            random=Random(self._random.getrandbits(64)),
        )
        # Set up with the first budget.
        self._budgets: Callable[[], Budgets] = tuple
        if options.runtime is not None:
            scheduler.setup(self.manager, self._current_budgets, _groups(options))
        if options.gc:
            own_nodes = node_names(options.nodes if options.runtime is not None else 0)
            pod_gc.setup(self.manager, options.terminated_pod_gc_threshold, own_nodes)
        self._has_budgets = options.gc and options.quota_and_disruption
        if self._has_budgets:
            quota_status.setup(self.manager, self.server.registry.quotas)
        if options.authorization == "rbac":
            role_aggregation.setup(self.manager)
        if self._accounts != "none":
            accounts.setup(self.manager)
        # Whether controllers have the authorities of the first listener.
        self._has_authorities = False
        self.nodes: Nodes = Nodes(
            options.nodes,
            self.transport,
            clock=self._clock,
            random=self._random,
            runtime=options.runtime,
            on_run=options.on_run,
            accounts_only=self._accounts == "tokens",
        )
        self.nodes.attach(self.server, heartbeats=options.heartbeats)
        self.node: NodeAgent | None = next(iter(self.nodes.values()), None)
        if options.runtime == "process":
            self.server.advisers.append(process_warnings)

    async def __aenter__(self) -> Self:
        if self._data is not None:
            self._stack.callback(self._data.close)
        self._stack.push_async_callback(self._webhooks.close)
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.callback(self._stop)
        self._stack.callback(self._first_objects.close)
        self._tasks.append(group.create_task(self._run_manager(), name=COMPONENT))
        if self._gc:
            resources = [kind.type for kind in self._kinds]
            collector = GarbageCollector(self.manager, resources)
            namespaces = NamespaceController(self.manager, resources)
            for kind in self._kinds:
                # Source: kubernetes/pkg/controller/garbagecollector/config/v1alpha1, DefaultIgnoredResources: events.
                if kind.garbage_collected:
                    self._first_objects.call(kind, collector.watch, namespaces.watch)
            self._follow_definitions(collector, namespaces)
            self._first_objects.set_up(volume_protection.PROTECTED, volume_protection.setup)
            if BETA_POD_GROUPS in self._kinds:
                self._first_objects.set_up((BETA_POD_GROUPS,), pod_groups.setup)
        if self._has_budgets:
            self._first_objects.set_up((DISRUPTION_BUDGETS,), self._set_up_budgets)
        if self._gc:
            self._first_objects.set_up((VALIDATING_POLICIES,), self._set_up_policies)
        if self._deployments:
            self._first_objects.set_up((DEPLOYMENTS, REPLICA_SETS), setup_workloads)
            self._first_objects.set_up((REPLICATION_CONTROLLERS,), setup_replication_controllers)
        if self.nodes:
            self._first_objects.set_up((SERVICES,), self._set_up_names)
            self._tasks.append(group.create_task(self.nodes.run(self.manager), name="nodes"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is not None and not isinstance(error, asyncio.CancelledError):
            # The caller's own error is raised unchanged, not as a member of the task group's.
            await self._stack.__aexit__(None, None, None)
            return None
        return await self._stack.__aexit__(kind, error, trace)

    async def _run_manager(self) -> None:
        # A task of its own, so this context is that of all its log lines: users run managers in the same process.
        structlog.contextvars.bind_contextvars(component=COMPONENT)
        await self.manager.run()

    def _follow_definitions(self, collector: GarbageCollector, namespaces: NamespaceController) -> None:
        """Have custom resources collected and deleted with their namespaces, for as long as they are served."""
        followed: dict[ResourceType, Kind] = {}

        def follow() -> None:
            served = self.server.definitions.served
            collector.add_owner_kinds(kind.type for kinds in served for kind in kinds)
            namespaces.set_custom_kinds(kinds[0].type for kinds in served)
            current = {kinds[0].type: kinds[0] for kinds in served}
            for gone in [kind for kind in followed if kind not in current]:
                del followed[gone]
                namespaces.unwatch(gone)
                collector.unwatch(gone)
            for kind in current.values():
                if kind.type not in followed:
                    self._first_objects.call(kind, collector.watch, namespaces.watch)
            followed.update(current)

        follow()
        self.server.definitions.on_change.append(follow)

    def _current_budgets(self) -> Budgets:
        return self._budgets()

    def _set_up_budgets(self, manager: Manager) -> None:
        from kcr_devcluster.cluster.controllers import disruption  # noqa: PLC0415  # few clusters have budgets

        self._budgets = disruption.setup(manager).snapshot

    def _set_up_policies(self, manager: Manager) -> None:
        from kcr_devcluster.cluster.controllers import policy_status  # noqa: PLC0415  # few clusters have policies

        policy_status.setup(manager, self.server.admission.served)

    def _set_up_names(self, manager: Manager) -> None:
        from kcr_devcluster.cluster.names import endpoint_slices  # noqa: PLC0415  # few clusters have Services

        endpoint_slices.setup(manager)
        if self.nodes.names is not None:
            cluster_names.setup(manager, self.nodes.names)

    def _stop(self) -> None:
        # Last in, first out: listeners are closed by now, and the task group waits for the tasks cancelled here.
        for task in self._tasks:
            task.cancel()
        self.server.close()

    def on_storage_failure(self, call: Callable[[str], object]) -> None:
        """Call back, with the reason, whenever the data folder cannot be written: its disk is full, say.

        The requests that write are answered 500 then, and store nothing; the objects are those of before.

        Args:
            call: It is called in the middle of such a request.
        """
        if self._data is not None:
            self._data.journal.on_failure = call

    @checked
    def client_as(self, username: str, groups: Sequence[str] = ()) -> Client:
        """Return a client without a socket whose requests are those of a user.

        With `authorization="rbac"` it has the rights that roles and bindings grant to the user; so a controller can be
        tested with the rights that it will have.

        Args:
            username: Such as `alice`, or `system:serviceaccount:default:builder`.
            groups: The groups that the user is in, beside those of every service account and every user.
        """
        return Client(InProcessTransport(self.server, user_named(username, groups), connections=self._connections))

    def _connections(self) -> Connections:
        if self._pod_streams is None:
            from kcr_devcluster.cluster.streaming.pod_streams import PodStreams  # noqa: PLC0415  # loads aiohttp's server

            self._pod_streams = PodStreams(self._running_containers)
            self._stack.callback(self._pod_streams.close)
        return self._pod_streams

    def _running_containers(self, key: Key, uid: str) -> Mapping[str, RunningContainer]:
        return self.nodes.running_containers(key, uid)

    @checked
    async def serve(self, port: _Port = 0, *, max_connections: _Connections = MAX_CONNECTIONS) -> "ServerAddress":
        """Open the TLS listener on 127.0.0.1 for as long as the context lives.

        Args:
            port: 0 for any free one, or that of before where there is a data folder.
            max_connections: How many connections may be open; the oldest idle one makes room for a new one.

        Raises:
            OSError: The port is taken.
            TypeError: An argument has another type.
            ValueError: It is out of its bounds.
            ConfigError: The credentials in the data folder cannot be read or written.
            ImportError: The extra `embedded` is not installed.
        """
        from kcr_devcluster.cluster.listener import Listener  # noqa: PLC0415  # loads aiohttp's server and cryptography
        from kcr_devcluster.cluster.streaming.pod_streams import PodStreams  # noqa: PLC0415  # likewise

        streams = PodStreams(self._running_containers)
        listener = Listener(self.server, self.faults, self._data, streams, max_connections=max_connections)
        self._stack.push_async_callback(listener.close)
        address = await listener.open(port)
        self.nodes.publish(address.url, address.kubeconfig)
        if not self._has_authorities:
            self._has_authorities = True
            self._provide_authorities(address)
        return address

    def _provide_authorities(self, address: "ServerAddress") -> None:
        """Publish the authorities of the first listener and of its clients, and start the controllers that use them."""
        from kcr_devcluster.cluster.client_certificates import publish_trust  # noqa: PLC0415  # loads cryptography
        from kcr_devcluster.cluster.controllers import certificate_signer  # noqa: PLC0415  # likewise

        publish_trust(self.server.registry, address.clients)
        signer = partial(certificate_signer.setup, authority=address.clients)
        self._first_objects.set_up((CERTIFICATE_SIGNING_REQUESTS,), signer)
        if self._accounts != "none":
            accounts.publish_authority(self.manager, address.ca_pem)
            token_secrets.setup(self.manager, address.ca_pem)


@contextmanager
def _closed_on_error(data: "DataDir | None") -> Iterator[None]:
    """Let other clusters use the data folder when this one cannot be made.

    Raises:
        ConfigError: The data folder cannot be written.
    """
    try:
        yield
    except BaseException as error:
        if data is None:
            raise
        data.close()
        if data.journal.failure:
            # A request failed of it, with words of its own around the reason.
            raise ConfigError(f"{data.journal.failure}: free some space") from error
        raise


def _groups(options: ClusterOptions) -> type[PodGroup] | None:
    """Return the kind of the groups of pods that are served, if any."""
    if not options.gangs:
        return None
    return PodGroup if TRAITS[options.kubernetes_version].gangs_by_form else BetaPodGroup


def _open_data(options: ClusterOptions) -> "DataDir | None":
    if options.data_dir is None:
        return None
    from kcr_devcluster.cluster.datadir import DataDir  # noqa: PLC0415  # loads sqlite3

    return DataDir(Path(options.data_dir), options.kubernetes_version)
