"""The embedded cluster in one context: API server, the cluster's own controllers, node."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import structlog

from kcr.api.meta import Key
from kcr.api.resources import ResourceType
from kcr.client import Client
from kcr.clock import Clock, SystemClock
from kcr.errors import ConfigError
from kcr.manager import Manager
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.apiserver.authorization import Rbac
from kcr_devcluster.apiserver.http.resource_metrics import METRICS_KINDS
from kcr_devcluster.apiserver.kinds.catalogue import (
    CERTIFICATE_SIGNING_REQUESTS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    KINDS,
    REPLICA_SETS,
    Kind,
)
from kcr_devcluster.apiserver.kinds.gangs import with_gangs
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.kinds.views.legacy import LEGACY_KINDS
from kcr_devcluster.apiserver.registry.bootstrap import with_rbac
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster.controllers import pod_gc, quota_status, role_aggregation, token_secrets
from kcr_devcluster.cluster.controllers import service_accounts as accounts
from kcr_devcluster.cluster.controllers.garbage_collector import GarbageCollector
from kcr_devcluster.cluster.controllers.namespaces import NamespaceController
from kcr_devcluster.cluster.effects.advice import process_warnings
from kcr_devcluster.cluster.faults import ListenerFaults
from kcr_devcluster.cluster.first_objects import FirstObjects
from kcr_devcluster.cluster.node import NodeAgent, OnRun
from kcr_devcluster.cluster.node.runtime import RunningContainer
from kcr_devcluster.cluster.node.usage.proc import has_process_table
from kcr_devcluster.cluster.nodes import Nodes
from kcr_devcluster.cluster.scheduling import scheduler
from kcr_devcluster.cluster.workloads import setup as setup_workloads
from kcr_devcluster.kinds import KindSource, define, definitions_of
from kcr_devcluster.transport import InProcessTransport

if TYPE_CHECKING:  # the listener needs aiohttp's server and cryptography; only `serve` loads them
    from kcr_devcluster.cluster.datadir import DataDir
    from kcr_devcluster.cluster.listener import ServerAddress

Runtime = Literal["simulated", "process"]
Authorization = Literal["always-allow", "rbac"]
ServiceAccounts = Literal["none", "accounts", "tokens"]

# The field manager of what the cluster's own controllers write.
COMPONENT = "kcr-cluster"


class EmbeddedCluster:
    """A cluster that lives as long as its context.

    Attributes:
        transport: The way to the server without a socket.
        client: An admin's client on that transport.
        server: The API server.
        manager: Runs the cluster's own controllers.
        nodes: The nodes by name, such as `kcr-node-0`; none when there is no runtime.
        node: The first of them; None when there is none.
        faults: What clients of the listener meet.
    """

    def __init__(  # noqa: PLR0913 - each is one independent choice, by name
        self,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        runtime: Runtime | None = "simulated",
        nodes: int = 1,
        heartbeats: bool = False,
        gc: bool = True,
        deployments: bool = True,
        quota_and_disruption: bool = True,
        legacy_apis: bool = False,
        gangs: bool = False,
        authorization: Authorization = "always-allow",
        kinds: Sequence[KindSource] = (),
        on_run: OnRun | None = None,
        service_accounts: ServiceAccounts | None = None,
        terminated_pod_gc_threshold: int = pod_gc.TERMINATED_POD_GC_THRESHOLD,
        data_dir: str | Path | None = None,
        faults: ListenerFaults | None = None,
    ) -> None:
        """Make a cluster; it runs inside `async with`.

        Args:
            clock: What time it is; the machine's clock by default.
            random: Where names and uids come from; a seed makes a whole run repeatable.
            runtime: How the node runs pods; None for no node at all.
            nodes: How many nodes there are.
            heartbeats: Whether the nodes renew their Leases every ten seconds, and are watched, from the beginning;
                else as soon as one is told to fall silent. An idle cluster writes nothing without them.
            gc: Whether the garbage collector, the namespace controller and the pod garbage collector run, and with them
                those of `quota_and_disruption`.
            deployments: Whether Deployments and ReplicaSets are reconciled; switch it off to run controllers of your
                own for them. These start with the first such object, and cost nothing before.
            quota_and_disruption: Whether the resource quota controller and the disruption controller run, which write
                the status of quotas and PodDisruptionBudgets; switch it off to run others. Quotas are enforced in any
                case; budgets whose status no controller writes allow no evictions.
            legacy_apis: Whether `extensions/v1beta1` Jobs and `batch/v1beta1` CronJobs are served as well, as views
                of those of `batch/v1`.
            gangs: Whether workloads and groups of pods are served (`scheduling.k8s.io/v1alpha2`); the scheduler
                here treats each pod for itself all the same.
            authorization: What is allowed: every request, or what roles and bindings grant (`rbac`). The
                cluster's own controllers, its node and `client` may do everything in any case.
            kinds: Kinds that are served beside the built-in ones: classes, files of CustomResourceDefinitions, and
                folders of such files.
            on_run: What the simulated runtime asks for the outcome of a container.
            service_accounts: `none`, as with envtest: namespaces get no account, and a pod may name any. `accounts`:
                each namespace has an account `default`, pods are given it, and those that name a missing one are
                refused; once there is a listener, namespaces have its certificate authority in `kube-root-ca.crt`, and
                Secrets of the type `kubernetes.io/service-account-token` are filled. `tokens`: containers also get a
                token of the account in a volume, as in a real cluster. By default `tokens` with `rbac`, else `none`.
            terminated_pod_gc_threshold: How many finished pods may stay before the oldest are deleted; 0 for all.
            data_dir: The folder that keeps the objects and the listener's credentials for the next cluster; None keeps
                them in memory. It is locked until the context ends. Seeds must differ from start to start: equal ones
                draw equal uids.
            faults: What clients of the listener meet from the beginning; rules can be added later.

        Raises:
            ConfigError: The data folder is damaged or in use, or a kind cannot be served.
        """
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._data = _open_data(data_dir)
        journal, signing_key = (self._data.journal, self._data.signing_key) if self._data else (None, b"")
        with _closed_on_error(self._data):
            self.storage: Storage = Storage(journal)
            authorizer = Rbac(self.storage) if authorization == "rbac" else None
            self._kinds = with_gangs(KINDS) if gangs else KINDS
            if authorizer is not None:
                self._kinds = with_rbac(self._kinds)
            served = (*self._kinds, *VIEWS, *(LEGACY_KINDS if legacy_apis else ()))
            if runtime == "process" and has_process_table():
                served = (*served, *METRICS_KINDS)
            self.server: APIServer = APIServer(
                self.storage,
                clock=self._clock,
                random=self._random,
                kinds=served,
                signing_key=signing_key,
                authorizer=authorizer,
            )
            define(self.server, definitions_of(kinds))
        self.transport: InProcessTransport = InProcessTransport(self.server)
        self.client: Client = Client(self.transport)
        # Its own randomness, so that what the controllers do changes no name or uid that the server draws.
        self.manager: Manager = Manager(
            self.client.with_options(field_manager=COMPONENT),
            clock=self._clock,
            random=Random(self._random.getrandbits(64)),
        )
        self._scheduler = scheduler.setup(self.manager) if runtime is not None else None
        if gc:
            pod_gc.setup(self.manager, terminated_pod_gc_threshold)
        self._has_budgets = gc and quota_and_disruption
        if self._has_budgets:
            quota_status.setup(self.manager, self.server.registry.quotas)
        if authorizer is not None:
            role_aggregation.setup(self.manager)
        mounts_tokens = self._give_accounts(service_accounts or ("tokens" if authorization == "rbac" else "none"))
        self.nodes: Nodes = Nodes(
            nodes, self.transport, clock=self._clock, random=self._random, runtime=runtime, on_run=on_run
        )
        self.nodes.attach(self.server, heartbeats=heartbeats, accounts_only=mounts_tokens)
        self.node: NodeAgent | None = next(iter(self.nodes.values()), None)
        if runtime == "process":
            self.server.advisers.append(process_warnings)
        self._gc, self._deployments = gc, deployments
        self.faults: ListenerFaults = faults or ListenerFaults()
        self._stack = AsyncExitStack()
        self._first_objects = FirstObjects(self.storage, self.manager)
        self._tasks: list[asyncio.Task[None]] = []

    def _give_accounts(self, service_accounts: ServiceAccounts) -> bool:
        """Have namespaces and pods given accounts, as wanted; return whether pods mount tokens."""
        # Whether controllers have the authorities of the first listener.
        self._has_authorities = False
        mounts_tokens = service_accounts == "tokens"
        if service_accounts == "none":
            return False
        admission = self.server.registry.accounts
        admission.is_enabled, admission.mounts_tokens = True, mounts_tokens
        accounts.setup(self.manager)
        return mounts_tokens

    async def __aenter__(self) -> Self:
        if self._data is not None:
            self._stack.callback(self._data.close)
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
        if self._has_budgets:
            self._first_objects.set_up((DISRUPTION_BUDGETS,), self._set_up_budgets)
        if self._deployments:
            self._first_objects.set_up((DEPLOYMENTS, REPLICA_SETS), setup_workloads)
        if self.nodes:
            self._tasks.append(group.create_task(self.nodes.run(self.manager), name="nodes"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is not None and not isinstance(error, asyncio.CancelledError):
            # The caller's own error stays what it is, instead of a member of the task group's.
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

    def _set_up_budgets(self, manager: Manager) -> None:
        from kcr_devcluster.cluster.controllers import disruption  # noqa: PLC0415  # few clusters have budgets

        budgets = disruption.setup(manager)
        if self._scheduler is not None:
            self._scheduler.budgets = budgets.snapshot

    def _stop(self) -> None:
        # Last in, first out: listeners are closed by now, and the task group waits for what is cancelled here.
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

    def client_as(self, username: str, groups: Sequence[str] = ()) -> Client:
        """Return a client without a socket whose requests are those of a user.

        With `authorization="rbac"` it may do what roles and bindings grant to the user; so a controller can be tested
        with the rights that it will have.

        Args:
            username: Such as `alice`, or `system:serviceaccount:default:builder`.
            groups: The groups that the user is in, beside those of every service account and every user.
        """
        return Client(InProcessTransport(self.server, user_named(username, groups)))

    def _running_containers(self, key: Key, uid: str) -> Mapping[str, RunningContainer]:
        return self.nodes.running_containers(key, uid)

    async def serve(self, port: int = 0) -> "ServerAddress":
        """Open the TLS listener on 127.0.0.1 for as long as the context lives.

        Args:
            port: 0 for any free one, or that of before where there is a data folder.

        Raises:
            OSError: The port is taken.
            ConfigError: The credentials in the data folder cannot be read or written.
            ImportError: The extra `embedded` is not installed.
        """
        from kcr_devcluster.cluster.listener import Listener  # noqa: PLC0415  # loads aiohttp's server and cryptography
        from kcr_devcluster.cluster.streaming.pod_streams import PodStreams  # noqa: PLC0415  # likewise

        streams = PodStreams(self._running_containers)
        listener = Listener(self.server, self.faults, self._data, streams)
        self._stack.push_async_callback(listener.close)
        address = await listener.open(port)
        self.nodes.publish(address.url, address.kubeconfig)
        if not self._has_authorities:
            self._has_authorities = True
            self._provide_authorities(address)
        return address

    def _provide_authorities(self, address: "ServerAddress") -> None:
        """Start the controllers that hand out what the first listener trusts, and what its clients trust."""
        from kcr_devcluster.cluster.client_certificates import publish_trust  # noqa: PLC0415  # loads cryptography
        from kcr_devcluster.cluster.controllers import certificate_signer  # noqa: PLC0415  # likewise

        publish_trust(self.server.registry, address.clients)
        signer = partial(certificate_signer.setup, authority=address.clients)
        self._first_objects.set_up((CERTIFICATE_SIGNING_REQUESTS,), signer)
        if self.server.registry.accounts.is_enabled:
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


def _open_data(folder: str | Path | None) -> "DataDir | None":
    if folder is None:
        return None
    from kcr_devcluster.cluster.datadir import DataDir  # noqa: PLC0415  # loads sqlite3

    return DataDir(Path(folder))
