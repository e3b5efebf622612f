"""The set of member clusters of a program; the package's docstring has the contract.

A gate makes that a member that does not answer delays its own keys alone.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from structlog.contextvars import bind_contextvars, unbind_contextvars

from kcr.api.meta import Key, Resource
from kcr.arguments import checked
from kcr.client import Client, ClusterConfig, HttpTransport, Transport
from kcr.clusters.member import MemberCluster
from kcr.clusters.secrets import FIELD, LABEL, KubeconfigSecrets
from kcr.controller import Controller, Source
from kcr.controller.gates import GateDecision
from kcr.controller.sources import EnqueueRequests
from kcr.errors import ConfigError, NotSyncedError
from kcr.informer import Informer
from kcr.log import get_logger
from kcr.manager import Manager
from kcr.metrics.table import MetricsTable, Row
from kcr.runnables import RunnableGroup
from kcr.scopes.gate import ScopeGate, ScopePhase
from kcr.workqueue import Reason

# How often the watches of a cluster that does not answer are checked, while a key waits for them.
CHECK_SECONDS = 1.0

Connect = Callable[[ClusterConfig], AbstractAsyncContextManager[Transport]]

CLUSTER_ROWS = (
    Row(
        GaugeMetricFamily, "kcr_cluster_up", "Whether all watches of a member cluster work: 1 or 0",
        lambda member: float(not member.trouble),
    ),
    Row(
        GaugeMetricFamily, "kcr_cluster_objects", "Number of cached objects of a member cluster",
        lambda member: member.objects,
    ),
)  # fmt: skip

_log = get_logger()


class MemberGate(ScopeGate[str]):
    """Drops the keys of clusters that are not members, and defers those of members that do not answer.

    That is a member of which a watch fails, or a request waits for an answer. After one without an answer, one key is
    admitted at a time, the probe.

    A deferred key holds no worker and has no backoff. A dropped one is lost for nothing: when a cluster of its name
    joins, all of its objects are enqueued.
    """

    opened_reason: ClassVar[Reason] = Reason("cluster", "answers", detail="its watches had failed")
    settled_reason: ClassVar[Reason] = Reason("cluster", "leaves", detail="a create is not answered yet")

    def __init__(self, controller: Controller, members: Mapping[str, MemberCluster]) -> None:
        """Know of no member.

        Args:
            controller: The controller.
            members: The open clusters by name.
        """
        super().__init__(controller)
        self._members = members
        # The members that have joined the controller, and their informers for it.
        self._joined: dict[MemberCluster, tuple[Informer[Any], ...]] = {}
        self._is_checking = False

    def join(self, member: MemberCluster, informers: tuple[Informer[Any], ...]) -> None:
        """Admit the keys of a member from now on, as long as these informers work."""
        open_members = {one: known for one, known in self._joined.items() if not one.is_closed}
        self._joined = {**open_members, member: informers}

    def scope_of(self, key: Key) -> str | None:
        """Return the cluster of a key; None for the home cluster."""
        return key.cluster or None

    def phase(self, scope: str) -> ScopePhase | None:
        """Return the phase of a member: its keys wait while it does not answer."""
        member = self._members.get(scope)
        if member is None or member not in self._joined:
            return None
        return ScopePhase.OPENING if self._is_unavailable(scope) else ScopePhase.ACTIVE

    def check(self, key: Key) -> GateDecision:
        """Decide about a key, and name its cluster in the log lines of its reconcile."""
        if key.cluster:
            bind_contextvars(cluster=key.cluster)
        else:
            unbind_contextvars("cluster")
        return super().check(key)

    def wait(self, key: Key, scope: str) -> None:
        """Enqueue a key when its member answers again."""
        super().wait(key, scope)
        if not self._is_checking:
            self._schedule()

    def _is_unavailable(self, name: str) -> bool:
        member = self._members.get(name)
        informers = () if member is None else self._joined.get(member, ())
        return any(one.last_error for one in informers) or (member is not None and member.is_silent)

    def _schedule(self) -> None:
        self._is_checking = True
        # An empty context: the timer outlives the reconcile that sets it, and must not log in its name.
        loop = asyncio.get_running_loop()
        loop.call_later(CHECK_SECONDS, self._enqueue_answered, context=contextvars.Context())

    def _enqueue_answered(self) -> None:
        for name in tuple(self._waiting):
            if not self._is_unavailable(name):
                self.opened(name)
        self._is_checking = False
        if self._waiting:
            self._schedule()


class _Watched(NamedTuple):
    """The sources of a controller: in the members, and at home; and the gate of its keys."""

    in_members: list[Source]
    at_home: list[Source]
    gate: MemberGate


class Clusters:
    """The member clusters of a program, which come and go while it runs.

    ```python
    def setup(manager: kcr.Manager) -> None:
        clusters = kcr.Clusters(manager)
        clusters.add_secrets("fleet")  # kubeconfigs, in labelled Secrets of this namespace
        controller = manager.add_controller("fleet", FleetReconciler(manager, clusters))
        clusters.watch(controller, kcr.watch(ConfigMap))  # in each member
    ```

    `clusters[key.cluster]` is the member of a key, with its `client` and its stores. Iteration yields the names.
    Leader election, events and the manager's stores are those of the home cluster. Standbys have the caches of
    the members as well, and write to none.

    Attributes:
        members: The open clusters by name.
    """

    name = "clusters"

    @checked
    def __init__(
        self, manager: Manager, members: Mapping[str, ClusterConfig] = {}, *, connect: Connect | None = None
    ) -> None:
        """Make the set, and run it with the manager.

        Args:
            manager: The manager of the home cluster; its namespaces are watched in the members as well.
            members: Members that are open from the start: `{"east": kcr.client.load_config(context="east")}`.
            connect: Returns the context of a connection to a cluster; None for HTTP.

        Raises:
            ConfigError: The program is sharded, or its namespaces may change.
            ValueError: A name is empty, or has a slash.
        """
        if manager.shards is not None:
            raise ConfigError("member clusters cannot be sharded: run without --shards, with --leader-elect")
        if manager.namespaces is not None:
            raise ConfigError("namespaces that change are those of one cluster: name fixed ones for member clusters")
        self._manager = manager
        self._connect: Connect = connect or HttpTransport
        self._open: dict[str, MemberCluster] = {}
        self.members: Mapping[str, MemberCluster] = MappingProxyType(self._open)
        self._watched: dict[Controller, _Watched] = {}
        self._running = RunnableGroup("clusters")
        self._is_running = False
        self._table: MetricsTable[MemberCluster] = MetricsTable(("cluster",), CLUSTER_ROWS)
        manager.metrics.registry.register(self._table)
        manager.add_members(self)
        manager.add(self, needs_leader_election=False)
        for name, config in members.items():
            self.open(name, config)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._open))

    def __contains__(self, name: object) -> bool:
        return name in self._open

    def __getitem__(self, name: str) -> MemberCluster:
        """Return an open member.

        Raises:
            NotSyncedError: No cluster of this name is open.
        """
        member = self._open.get(name)
        if member is None:
            raise NotSyncedError(f"cluster {name!r} is not open")
        return member

    @checked
    def open(self, name: str, config: ClusterConfig) -> MemberCluster:
        """Open a member, before the manager runs or while it does; one of this name is closed first.

        Args:
            name: Its name.
            config: How to reach it, from `kcr.client.load_config`.

        Raises:
            ValueError: The name is empty, or has a slash.
        """
        if not name or "/" in name:
            raise ValueError(f"cluster {name!r}: give it a name without slashes")
        self.close(name)
        election, manager = self._manager.elector, self._manager
        member = self._open[name] = MemberCluster(
            name, namespace=manager.namespace, random=manager.random,
            fence=None if election is None else election.check,
        )  # fmt: skip
        self._table.sources[name,] = member
        # Never red: a restart of this program would change nothing, and the other clusters need it.
        manager.health.add_ready(f"cluster-{name}", str, remark=lambda: member.trouble)
        connect, client_of = partial(self._connect, config), self._client_of
        self._running.add(partial(member.run, connect, client_of, self._join), name)
        return member

    @checked
    def close(self, name: str) -> None:
        """Close a member, at once; nothing happens when there is none of this name."""
        member = self._open.pop(name, None)
        if member is not None:
            del self._table.sources[name,]
            self._manager.health.remove_ready(f"cluster-{name}")
            member.close()
            _log.info("member cluster closed", cluster=name)

    @checked
    def add_secrets(self, namespace: str, *, labels: str = f"{LABEL}=true", field: str = FIELD) -> None:
        """Open a member for each Secret that has a kubeconfig, as long as the Secret exists; its name is the member's.

        A kubeconfig that cannot be used is a warning event of its Secret, and is tried again when it changes. It may
        name no files and no programs. The Role of the program needs `list` and `watch` of Secrets in the namespace.

        Args:
            namespace: The namespace of the Secrets, in the home cluster.
            labels: Selects the Secrets.
            field: The field of `data` that has the kubeconfig.

        Raises:
            ValueError: It was called before, or the namespace is empty.
        """
        KubeconfigSecrets(self._manager, self.open, self.close, namespace, labels, field)

    @checked
    def watch(self, controller: Controller, source: Source) -> None:
        """Watch a kind in all members: a change enqueues the keys of the source, in the cluster of the change.

        Args:
            controller: The controller; it must not run yet.
            source: `kcr.watch` or `kcr.owned`.

        Raises:
            RuntimeError: The manager runs already.
        """
        self._watched_by(controller).in_members.append(source)

    @checked
    def watch_home(self, controller: Controller, source: Source) -> None:
        """Watch a kind in the home cluster: a change enqueues the keys of the source once for each member.

        A member that joins gets the keys of all objects that exist.

        Args:
            controller: The controller; it must not run yet.
            source: `kcr.watch` or `kcr.owned`.

        Raises:
            RuntimeError: The manager runs already.
        """
        watched = self._watched_by(controller)
        self._manager.informer(source.kind)
        watched.at_home.append(source)

    def _watched_by(self, controller: Controller) -> _Watched:
        if self._is_running:
            raise RuntimeError(f"controller {controller.name}: watch member clusters before the manager runs")
        watched = self._watched.get(controller)
        if watched is None:
            watched = self._watched[controller] = _Watched([], [], MemberGate(controller, self.members))
            controller.watched.note_source()
        return watched

    @checked
    def gate_of(self, controller: Controller) -> MemberGate | None:
        """Return the gate of a controller's keys in member clusters; None for one without such keys."""
        watched = self._watched.get(controller)
        return None if watched is None else watched.gate

    async def run(self) -> None:
        """Run the informers of all members until cancelled."""
        self._is_running = True
        async with self._running:
            # Ends by cancellation only.
            await asyncio.get_running_loop().create_future()

    def _client_of(self, transport: Transport) -> Client:
        return Client(transport).with_options(dry_run=self._manager.client.is_dry_run)

    def _join(self, member: MemberCluster) -> None:
        for controller, watched in self._watched.items():
            member.spawn(partial(self._join_controller, member, controller, watched), f"joins {controller.name}")

    async def _join_controller(self, member: MemberCluster, controller: Controller, watched: _Watched) -> None:
        with suppress(NotSyncedError):  # it is closed meanwhile
            handles = [member.open_informer(source.kind) for source in watched.in_members]
            home = [self._manager.open_informer(source.kind) for source in watched.at_home]
            for handle in home:
                member.call_at_close(handle.close)
            for handle in (*handles, *home):
                await handle.wait_synced()
            # No await from here on: no change is missed, and no key comes before the member has joined.
            kinds = {handle.kind for handle in handles}
            watched.gate.join(member, tuple(one for kind in kinds for one in member.informers_of(kind)))
            sources = (*watched.in_members, *watched.at_home)
            for handle, source in zip((*handles, *home), sources, strict=True):
                mapped = source._replace(map_to=partial(_keys_in, member.name, source.map_to))
                handle.add_handler(EnqueueRequests(controller.name, mapped, controller.queue.add, controller.dropped))
            _log.info("member cluster joined", cluster=member.name, controller=controller.name)


def _keys_in(cluster: str, map_to: Callable[[Any], Iterable[Key]], obj: Resource) -> Iterable[Key]:
    return [key.in_cluster(cluster) for key in map_to(obj)]
