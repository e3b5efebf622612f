"""The node: registers itself, and runs the kubelet and a container runtime for as long as its Node object exists."""

import asyncio
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Literal

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from kcr.api.core import Node as NodeObject
from kcr.api.core import reference_to
from kcr.api.kubelet import KubeletContainer, KubeletPod
from kcr.api.meta import Key, whole_seconds
from kcr.apiserver.computed.resource_metrics import NodeUsage
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.node.kubelet import Kubelet
from kcr.cluster.node.logs import Logs
from kcr.cluster.node.probes.handlers import run_handler
from kcr.cluster.node.process.process_runtime import process_runtime
from kcr.cluster.node.runtime import ContainerRuntime, NodeInfo, RecordWarning, RunningContainer
from kcr.cluster.node.simulated import OnRun, RunResult, SimulatedRuntime, annotated_outcome, default_outcome
from kcr.cluster.node.usage.sampler import UsageSampler
from kcr.errors import AlreadyExistsError, ApiError, TransportError
from kcr.informer import Handler, Selection
from kcr.manager import Manager

if TYPE_CHECKING:
    from kcr.cluster.node.volumes.retries import MountRetries

NODE_NAME = "kcr-node-0"
# How long a node is away whose Node object was deleted.
AWAY_SECONDS = 10.0
MAX_RETRY_SECONDS = 10.0

_log = structlog.get_logger()
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class NodeAgent:
    """Runs every pod of the cluster, as processes or as a simulation.

    Attributes:
        logs: What containers print.
        on_run: Says how a simulated run goes: called with the pod, the container's name and how often it
            has run before (0 the first time). Where it is or returns None, the annotations `sim.kcr.dev/…` say.
        info: Its name and address; `api_url` and `kubeconfig` in it are handed to processes once they are set.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        runtime: Literal["simulated", "process"] = "simulated",
        on_run: OnRun | None = None,
        fast: bool = False,
    ) -> None:
        """Make a node.

        Args:
            client: How to reach the server.
            clock: For the times in statuses and logs.
            random: For names and pauses.
            runtime: Whether commands really run.
            on_run: See above.
            fast: Whether simulated pods skip the states that last no time.
        """
        self.logs = Logs(clock)
        self.on_run = on_run
        self.info = NodeInfo(NODE_NAME, host_network=runtime == "process")
        self._client = client
        self._clock = clock
        self._random = random
        self._process = runtime == "process"
        self._fast = fast
        self._kubelet: Kubelet | None = None
        self._sampler: UsageSampler | None = None

    def running_containers(self, key: Key, uid: str) -> Mapping[str, RunningContainer]:
        """Return the containers of a pod that run here, by name.

        Args:
            key: The pod.
            uid: Its uid.
        """
        return {} if self._kubelet is None else self._kubelet.running_containers(key, uid)

    async def run(self) -> None:
        """Run pods until cancelled; every process has ended when this returns.

        When its Node object is deleted, the node is lost with all that runs on it. It comes back a little later,
        as a machine does that was replaced by one of the same name.
        """
        while True:
            await self._run_until_lost()
            self.logs.clear()
            await asyncio.sleep(AWAY_SECONDS)

    async def usage(self) -> NodeUsage | None:
        """Measure what containers use; None for a lost node, and for simulated containers."""
        return None if self._sampler is None else await self._sampler.usage()

    async def delete(self) -> None:
        """Lose the node: delete its Node object.

        Raises:
            NotFoundError: It is lost already, or has not begun yet.
        """
        await self._client.delete(NodeObject, Key("", self.info.name))

    async def _run_until_lost(self) -> None:
        """Register the node, and run a kubelet with a manager of its own until the Node object is gone."""
        await register(self._client, self.info, self._clock)
        key = Key("", self.info.name)
        lost = asyncio.Event()
        manager = Manager(self._client, clock=self._clock, random=Random(self._random.getrandbits(64)))
        async with self._open_runtime(self._recorder(manager)) as runtime, asyncio.TaskGroup() as group:
            kubelet = Kubelet(
                manager, runtime, self.logs, node=self.info, group=group, fast=self._fast,
                run_handler=run_handler if self._process else None,
            )  # fmt: skip
            self._kubelet = kubelet
            manager.select(Selection(NodeObject, fields=f"metadata.name={self.info.name}"))
            manager.informer(NodeObject).add_handler(_NodeLost(lost))
            running = group.create_task(self._run_manager(manager))
            try:
                await manager.wait_ready()
                if manager.store(NodeObject).get(key) is not None:
                    await lost.wait()
            finally:
                self._kubelet = None
                kubelet.close()
                running.cancel()

    async def _run_manager(self, manager: Manager) -> None:
        # A task of its own, so this context is that of all its log lines.
        structlog.contextvars.bind_contextvars(component="kubelet", node=self.info.name)
        await manager.run()

    def _recorder(self, manager: Manager) -> RecordWarning:
        recorder = manager.recorder("kubelet", host=self.info.name)
        return lambda pod, reason, message: recorder.event(reference_to(pod), "Warning", reason, message)

    @asynccontextmanager
    async def _open_runtime(self, record: RecordWarning) -> AsyncIterator[ContainerRuntime]:
        def volumes() -> "MountRetries":
            from kcr.cluster.node.volumes.retries import checked_volumes  # noqa: PLC0415  # few pods have volumes

            return checked_volumes(self._client, self.info, record)

        if not self._process:
            yield SimulatedRuntime(self.logs, self._outcome_of, volumes, fast=self._fast)
            return
        async with process_runtime(self._client, self.logs, self.info, record) as runtime:
            self._sampler = UsageSampler(self.info.name, runtime.running, self._clock)
            try:
                yield runtime
            finally:
                self._sampler = None

    def _outcome_of(self, pod: KubeletPod, container: KubeletContainer, attempt: int) -> RunResult:
        outcome = self.on_run(pod, container.name, attempt) if self.on_run is not None else None
        if outcome is not None:
            return outcome
        return annotated_outcome(pod, container.name, attempt, default_outcome(pod, container))


class _NodeLost(Handler[NodeObject]):
    def __init__(self, lost: asyncio.Event) -> None:
        self._lost = lost

    def on_delete(self, obj: NodeObject, final_state_unknown: bool) -> None:
        self._lost.set()


async def register(client: Client, node: NodeInfo, clock: Clock) -> None:
    """Create the Node object, or renew its status; each step is retried with exponential backoff until it succeeds.

    Source: kubernetes/pkg/kubelet/kubelet_node_status.go, registerWithAPIServer.
    """
    retry = AsyncRetrying(
        retry=retry_if_exception_type((ApiError, TransportError)),
        wait=wait_exponential(multiplier=0.1, max=MAX_RETRY_SECONDS),
        sleep=asyncio.sleep,
        before_sleep=_log_failed_registration,
    )
    manifest = node_manifest(node.name, node.ip, await retry(client.server_version), clock.now())

    async def create() -> None:
        with suppress(AlreadyExistsError):
            await client.create_manifest(NodeObject, manifest)

    await retry(create)
    status = {"status": manifest["status"]}
    await retry(client.merge_patch, NodeObject, Key("", node.name), status, subresource="status")


def _log_failed_registration(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _log.warning("unable to register node with API server", error=str(error), attempt=state.attempt_number)


def node_labels(name: str) -> dict[str, str]:
    """Return the labels that every node carries."""
    machine = platform.machine()
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
    }


def node_manifest(name: str, ip: str, version: str, moment: datetime) -> dict[str, object]:
    """Return the whole Node object.

    Args:
        name: The node's name.
        ip: Its address.
        version: The version it reports: the server's.
        moment: When its conditions were found true.
    """
    labels, resources = node_labels(name), {"cpu": "64", "memory": "256Gi", "pods": "100000"}
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), whole_seconds(moment))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kcr.dev/simulated": "true"}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "conditions": [
                {"type": kind, "status": status, "reason": reason, "message": message, **times}
                for kind, status, reason, message in _CONDITIONS
            ],
            "nodeInfo": {
                "kubeletVersion": version,
                "kubeProxyVersion": "",
                "containerRuntimeVersion": f"kcr://{version.removeprefix('v')}",
                "osImage": platform.system(),
                "operatingSystem": labels["kubernetes.io/os"],
                "architecture": labels["kubernetes.io/arch"],
                "kernelVersion": platform.release(),
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }
