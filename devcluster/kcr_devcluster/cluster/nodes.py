"""The nodes of an embedded cluster, all in this process."""

import asyncio
from collections.abc import Iterator, Mapping
from random import Random

from kcr.api.meta import Key
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.manager import Manager
from kcr_devcluster.apiserver.http.pods.pod_streams import SIMULATED
from kcr_devcluster.apiserver.kinds.catalogue import NODES
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.cluster.names.cluster_names import ClusterNames
from kcr_devcluster.cluster.node import NodeAgent, OnRun
from kcr_devcluster.cluster.node.connection import NodeConnection
from kcr_devcluster.cluster.node.logs import Log
from kcr_devcluster.cluster.node.runtime import NodeInfo, RunningContainer
from kcr_devcluster.cluster.node_lifecycle.controller import NodeLifecycleReconciler
from kcr_devcluster.cluster.node_lifecycle.taint_eviction import TaintEvictionReconciler
from kcr_devcluster.options import Runtime

_NAME = "kcr-node-{}"
# The network of the first node's pods is 10.244.0.0/16, that of the second one's 10.245.0.0/16.
_FIRST_NETWORK = 244
# With more, the networks of their pods would meet that of the services, 10.96.0.0/16.
MAX_NODES = 100


def node_names(count: int) -> list[str]:
    """Return the names of so many nodes."""
    return [_NAME.format(number) for number in range(count)]


class Nodes(Mapping[str, NodeAgent]):
    """The nodes by name: `kcr-node-0`, `kcr-node-1` and so on.

    Attributes:
        heartbeats: Set once the nodes have to say that they are alive.
        names: The names that containers know; None where containers are no processes.
    """

    def __init__(  # noqa: PLR0913  # by name
        self,
        count: int,
        transport: Transport,
        *,
        clock: Clock,
        random: Random,
        runtime: Runtime | None,
        on_run: OnRun | None = None,
        accounts_only: bool = False,
    ) -> None:
        """Make nodes.

        Args:
            count: How many.
            transport: How they reach the server.
            clock: For the times in statuses and logs.
            random: For names and pauses.
            runtime: Whether commands really run; None for no nodes.
            on_run: Returns the outcome of a container for the simulated runtime.
            accounts_only: Whether the kubeconfig of a pod is that of its account, or none.

        Raises:
            ValueError: There are too few or too many.
        """
        if not 1 <= count <= MAX_NODES:
            raise ValueError(f"nodes: {count}: a cluster has 1 to {MAX_NODES}")
        self.heartbeats: asyncio.Event = asyncio.Event()
        self._runtime = runtime
        self.names: ClusterNames | None = ClusterNames() if runtime == "process" else None
        self._nodes: dict[str, NodeAgent] = {}
        for number, name in enumerate(node_names(count if runtime is not None else 0)):
            connection = NodeConnection(transport)
            network = f"10.{(_FIRST_NETWORK + number) % 256}" if self.names is None else self.names.network(number)
            info = NodeInfo(name, pod_network=network, names=self.names, accounts_only=accounts_only)
            node = NodeAgent(
                Client(connection), clock=clock, random=random, runtime=runtime or "simulated", on_run=on_run,
                info=info, connection=connection, heartbeats=self.heartbeats,
            )  # fmt: skip
            self._nodes[info.name] = node

    def __getitem__(self, name: str) -> NodeAgent:
        """Return the node of a name."""
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of numbers."""
        return iter(self._nodes)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._nodes)

    def attach(self, server: APIServer, *, heartbeats: bool) -> None:
        """Have a server ask the nodes for logs, streams and metrics.

        Args:
            server: The server.
            heartbeats: Whether the nodes say from the beginning that they are alive.
        """
        stored = {record.metadata.name for record in server.registry.storage.cache(NODES).records.values()}
        if heartbeats or stored - set(self):
            # The previous cluster had more nodes: the rest never report again.
            self.heartbeats.set()
        if not self._nodes:
            return
        server.logs = NodeLogs(self)
        server.streams_unavailable = "" if self._runtime == "process" else SIMULATED
        server.metrics += self._nodes.values()

    async def run(self, manager: Manager) -> None:
        """Run the nodes until cancelled, and the controllers of their life.

        Args:
            manager: The cluster's own, which the controllers are added to.
        """
        lifecycle = NodeLifecycleReconciler(manager)
        TaintEvictionReconciler(manager)
        async with asyncio.TaskGroup() as group:
            for name, node in self._nodes.items():
                group.create_task(node.run(), name=name)
            if self.names is not None:
                group.create_task(self.names.run(), name="names")
            await self.heartbeats.wait()
            lifecycle.monitor()

    def running_containers(self, key: Key, uid: str) -> Mapping[str, RunningContainer]:
        """Return the containers of a pod that run, by name."""
        found = (node.running_containers(key, uid) for node in self._nodes.values())
        return next((running for running in found if running), {})

    def publish(self, api_url: str, kubeconfig: str) -> None:
        """Pass the server's address to the processes on all nodes."""
        for node in self._nodes.values():
            node.info.api_url, node.info.kubeconfig = api_url, kubeconfig


class NodeLogs:
    """The source of the logs of all nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def get(self, uid: str, container: str, *, previous: bool = False) -> Log | None:
        """Return the log of the present run of a pod's container or the one before; None when there is none."""
        logs = (node.logs.get(uid, container, previous=previous) for node in self._nodes.values())
        return next((log for log in logs if log is not None), None)
