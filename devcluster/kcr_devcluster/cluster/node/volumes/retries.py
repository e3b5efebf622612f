"""Mounting of volumes until it succeeds: when it is retried, and how often its failure is reported."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from kcr.api.full.core_v1 import Volume
from kcr.client import Client
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.runtime import NodeInfo, RecordWarning
from kcr_devcluster.cluster.node.volumes.contents import VolumeError
from kcr_devcluster.cluster.node.volumes.sources import VolumeSources, volumes_of

# Source: kubernetes/pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go, initialDurationBeforeRetry and
# maxDurationBeforeRetry. Here it is retried more often, and reported as often as there.
INITIAL_SECONDS, MAX_EVENT_SECONDS = 0.5, 122.0
MAX_RETRY_SECONDS = 4.0

# Tries to mount the volumes of a pod, and returns why it cannot, one message for each volume that fails.
MountVolumes = Callable[[KubeletPod], Awaitable[Sequence[str]]]


@dataclass(slots=True)
class _Attempts:
    """Failed attempts for one pod: when the next one is due and when the next event is, on the loop's time."""

    count: int = 0
    retry_at: float = 0.0
    events: int = 0
    event_at: float = 0.0


class MountRetries:
    """Mounts the volumes of each pod once, and retries while that fails.

    A pod whose volumes are not mounted stays in ContainerCreating. Events name the reason, like the kubelet's.
    """

    def __init__(self, mount: MountVolumes, record: RecordWarning) -> None:
        """Make retries.

        Args:
            mount: Tries once.
            record: Writes events.
        """
        self._mount_volumes = mount
        self._record = record
        self._mounted: set[str] = set()
        self._attempts: dict[str, _Attempts] = {}

    async def mount(self, pod: KubeletPod) -> float | None:
        """Mount the volumes of a pod, and return None; or in how many seconds to try again."""
        uid = pod.metadata.uid
        if uid in self._mounted:
            return None
        attempts = self._attempts.setdefault(uid, _Attempts())
        now = asyncio.get_running_loop().time()
        if now >= attempts.retry_at:
            if not (failures := await self._mount_volumes(pod)):
                self._mounted.add(uid)
                self._attempts.pop(uid, None)
                return None
            attempts.count += 1
            attempts.retry_at = now + min(INITIAL_SECONDS * 2.0 ** (attempts.count - 1), MAX_RETRY_SECONDS)
            self._report(pod, attempts, failures, now)
        return attempts.retry_at - now

    def _report(self, pod: KubeletPod, attempts: _Attempts, failures: Sequence[str], now: float) -> None:
        if now < attempts.event_at:
            return
        attempts.event_at = now + min(INITIAL_SECONDS * 2.0**attempts.events, MAX_EVENT_SECONDS)
        attempts.events += 1
        for failure in failures:
            self._record(pod, "FailedMount", failure)

    def release(self, uid: str) -> None:
        """Forget a pod."""
        self._mounted.discard(uid)
        self._attempts.pop(uid, None)


def setup_failure(volume: str, why: object) -> str:
    """Return the message of the event for a volume that cannot be set up.

    Source: kubernetes/pkg/volume/util/operationexecutor/operation_generator.go, GenerateMountVolumeFunc.
    """
    return f'MountVolume.SetUp failed for volume "{volume}" : {why}'


def checked_volumes(client: Client, node: NodeInfo, record: RecordWarning) -> MountRetries:
    """Return the simulated runtime's check of volumes: whether their ConfigMaps, Secrets and keys exist.

    Nothing is written, and other volumes are taken to exist.

    Args:
        client: Reads ConfigMaps and Secrets.
        node: The node.
        record: Writes events.
    """
    sources = VolumeSources(client, node)

    async def check(pod: KubeletPod) -> Sequence[str]:
        failures = []
        for volume in volumes_of(pod):
            try:
                await sources.check(pod, volume)
            except VolumeError as error:
                failures.append(setup_failure(volume.name, error))
        return failures

    return MountRetries(check, record)


def source_name(volume: Volume) -> str:
    """Return the name of a volume's source field, such as `persistentVolumeClaim`."""
    return next((name for name in msgspec.to_builtins(volume) if name != "name"), "emptyDir")
