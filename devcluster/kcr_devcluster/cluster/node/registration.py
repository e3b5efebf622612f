"""Node registration and heartbeats: the Node object, its status, and its Lease.

Source: kubernetes/pkg/kubelet/kubelet_node_status.go, registerWithAPIServer, tryUpdateNodeStatus;
staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go.
"""

import asyncio
import platform
from contextlib import suppress
from datetime import datetime

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from kcr.api.conditions import is_condition_true
from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.core import Node
from kcr.api.meta import Key, MicroTime, ObjectMeta, OwnerReference, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kcr.informer import Store
from kcr.log import get_logger
from kcr_devcluster.cluster.node.runtime import NodeInfo

LEASE_NAMESPACE = "kube-node-lease"
# Source: kubernetes/pkg/kubelet/apis/config/v1beta1/defaults.go, nodeLeaseDurationSeconds; a quarter between renewals.
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
MAX_RETRY_SECONDS = 10.0

_log = get_logger()
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


async def register(client: Client, node: NodeInfo, clock: Clock) -> None:
    """Create the Node object, or renew its status; each step is retried with exponential backoff until it succeeds."""
    retry = AsyncRetrying(
        retry=retry_if_exception_type((ApiError, TransportError)),
        wait=wait_exponential(multiplier=0.1, max=MAX_RETRY_SECONDS),
        sleep=asyncio.sleep,
        before_sleep=_log_failed_registration,
    )
    manifest = node_manifest(node, await retry(client.server_version), clock.now())

    async def create() -> None:
        with suppress(AlreadyExistsError):
            await client.create_manifest(Node, manifest)

    await retry(create)
    status = {"status": manifest["status"]}
    await retry(client.merge_patch, Node, Key("", node.name), status, subresource="status")


def _log_failed_registration(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _log.warning("unable to register node with API server", error=str(error), attempt=state.attempt_number)


class Heartbeats:
    """Renews the Lease of a node, and says that the node is ready when the server thinks it is not."""

    def __init__(self, client: Client, info: NodeInfo, clock: Clock, nodes: Store[Node]) -> None:
        """Make the heartbeats of a node.

        Args:
            client: The node's.
            info: The node.
            clock: For the times in Lease and status.
            nodes: Shows the Node object.
        """
        self._client = client
        self._info = info
        self._clock = clock
        self._nodes = nodes

    async def run(self, begin: asyncio.Event) -> None:
        """Renew the Lease every ten seconds once an event is set; a failed renewal waits for the next."""
        await begin.wait()
        while True:
            try:
                await self._renew_lease()
            except (ApiError, TransportError) as error:
                _log.warning("failed to renew the node's lease", node=self._info.name, error=str(error))
            await asyncio.sleep(RENEW_SECONDS)

    async def _renew_lease(self) -> None:
        node = self._nodes.get(Key("", self._info.name))
        if node is None:
            return
        moment = MicroTime.of(self._clock.now())
        key = Key(LEASE_NAMESPACE, self._info.name)
        owner = OwnerReference(api_version="v1", kind="Node", name=self._info.name, uid=node.metadata.uid)
        metadata = ObjectMeta(name=key.name, namespace=key.namespace, owner_references=(owner,))
        spec = LeaseSpec(holder_identity=key.name, lease_duration_seconds=LEASE_SECONDS, renew_time=moment)
        try:
            await self._client.merge_patch(Lease, key, {"spec": {"renewTime": moment.wire()}})
        except NotFoundError:
            with suppress(AlreadyExistsError):
                await self._client.create(Lease(metadata=metadata, spec=spec))
        if not is_condition_true(node.status.conditions, "Ready"):
            status = {"conditions": node_conditions(self._clock.now())}
            await self._client.strategic_patch(Node, node.key, {"status": status}, subresource="status")


def node_labels(name: str) -> dict[str, str]:
    """Return the labels that every node carries."""
    machine = platform.machine()
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
    }


def node_conditions(moment: datetime) -> list[dict[str, object]]:
    """Return the conditions of a node that is well since a moment."""
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), whole_seconds(moment))
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, **times}
        for kind, status, reason, message in _CONDITIONS
    ]


def node_manifest(node: NodeInfo, version: str, moment: datetime) -> dict[str, object]:
    """Return the whole Node object.

    Args:
        node: The node.
        version: The version it reports: the server's.
        moment: When its conditions were found true.
    """
    labels, resources = node_labels(node.name), {"cpu": "64", "memory": "256Gi", "pods": "100000"}
    network = f"{node.pod_network}.0.0/16"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels, "annotations": {"kcr.dev/simulated": "true"}},
        "spec": {"podCIDR": network, "podCIDRs": [network]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": node.ip}, {"type": "Hostname", "address": node.name}],
            "conditions": node_conditions(moment),
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
