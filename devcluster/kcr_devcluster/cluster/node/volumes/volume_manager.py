"""Volume manager: sets up the volumes of pods as directories of the node, and keeps their files up to date.

ConfigMaps and Secrets are read when a pod starts, and watched only as long as a node has pods that show some: a
change, or a token that nears its end, makes the files of the pod's volumes be read and written again. Changes
of the pod's own labels and annotations come from the kubelet.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from kcr.api.full.core_v1 import ConfigMap, Secret, Volume
from kcr.api.meta import FullResource
from kcr.client import Client
from kcr.clock import TIMER_SLACK_SECONDS
from kcr.informer import Handler, Informer, Selection
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.runtime import NodeInfo, RecordWarning
from kcr_devcluster.cluster.node.volumes.atomic_writer import write_payload
from kcr_devcluster.cluster.node.volumes.contents import VolumeError
from kcr_devcluster.cluster.node.volumes.host_paths import prepare_host_path
from kcr_devcluster.cluster.node.volumes.memory import MemoryVolumes
from kcr_devcluster.cluster.node.volumes.mounts import PreparedVolume
from kcr_devcluster.cluster.node.volumes.retries import MountRetries, setup_failure, source_name
from kcr_devcluster.cluster.node.volumes.sources import (
    Reference,
    VolumeContents,
    VolumeSources,
    projections_of,
    volumes_of,
)

R = TypeVar("R", bound=FullResource)

# A token that cannot be renewed, and a file that cannot be written, is tried again after so long.
RETRY_SECONDS = 10.0
# The directory of volumes below that of a pod.
FOLDER = ".volumes"


@dataclass(slots=True)
class _PodVolumes:
    """The volumes of one pod.

    Attributes:
        pod: The pod as last observed.
        volumes: Those that are set up, by name.
        shown: Those of them that consist of files, with the contents that are written now.
        renew_at: When they are to be written again at the latest, on the loop's time.
        failures: Failures of the last update, reported already.
    """

    pod: KubeletPod
    volumes: dict[str, PreparedVolume] = field(default_factory=dict)
    shown: dict[str, tuple[Volume, VolumeContents]] = field(default_factory=dict)
    renew_at: float | None = None
    failures: set[str] = field(default_factory=set)


class VolumeManager:
    """The volumes of a node's pods.

    Attributes:
        retries: Mounts the volumes of pods.
    """

    def __init__(
        self, client: Client, node: NodeInfo, root: Path, group: asyncio.TaskGroup, record: RecordWarning
    ) -> None:
        """Make a volume manager; it watches nothing before a volume needs it.

        Args:
            client: Reads and watches ConfigMaps and Secrets, and requests tokens.
            node: The node.
            root: Where each pod has a directory, named by its uid.
            group: Runs the tasks that follow changes.
            record: Writes events.
        """
        self.retries = MountRetries(self._mount, record)
        self._client = client
        self._sources = VolumeSources(client, node)
        self._memory = MemoryVolumes()
        self._root = root
        self._group = group
        self._record = record
        self._pods: dict[str, _PodVolumes] = {}
        # Pods whose files are to be read again.
        self._outdated: set[str] = set()
        self._has_outdated = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The informers of ConfigMaps and Secrets, by kind in lower case.
        self._informers: dict[str, Informer[ConfigMap | Secret]] = {}

    def volumes_of(self, uid: str) -> Mapping[str, PreparedVolume]:
        """Return the volumes of a pod whose volumes are mounted."""
        return self._pods[uid].volumes

    def update(self, pod: KubeletPod) -> None:
        """Take over a pod that has changed; its labels and annotations may be files."""
        state = self._pods.get(pod.metadata.uid)
        if state is None:
            return
        before, state.pod = state.pod.metadata, pod
        if (before.labels, before.annotations) != (pod.metadata.labels, pod.metadata.annotations):
            self._schedule_refresh(pod.metadata.uid)

    def release(self, uid: str) -> None:
        """Forget a pod; its files are removed with its directory."""
        self._pods.pop(uid, None)
        self._outdated.discard(uid)
        self._sources.forget(uid)
        self._memory.release(uid)
        self.retries.release(uid)

    def close(self) -> None:
        """Follow no more changes, and remove the volumes in memory."""
        for task in self._tasks.values():
            task.cancel()
        self._memory.close()

    async def _mount(self, pod: KubeletPod) -> Sequence[str]:
        """Set up all volumes of a pod, and return the failures."""
        state = _PodVolumes(pod)
        failures = []
        for volume in volumes_of(pod):
            try:
                state.volumes[volume.name] = await self._set_up(state, volume)
            except (VolumeError, OSError) as error:
                failures.append(setup_failure(volume.name, error))
        if not failures:
            self._pods[pod.metadata.uid] = state
            self._follow(state)
        return failures

    def _in_memory(self, pod: KubeletPod, volume: str) -> Path | None:
        directory = self._memory.directory(pod.metadata.uid, volume)
        if directory is None:
            message = f'volume "{volume}": this machine has no tmpfs for the medium Memory, so the directory is on disk'
            self._record(pod, "MemoryVolumeOnDisk", message)
        return directory

    async def _set_up(self, state: _PodVolumes, volume: Volume) -> PreparedVolume:
        if volume.host_path is not None:
            return PreparedVolume(prepare_host_path(volume.host_path), read_only=False)
        directory = self._root / state.pod.metadata.uid / FOLDER / volume.name
        if volume.empty_dir is not None:
            if volume.empty_dir.medium == "Memory":
                directory = self._in_memory(state.pod, volume.name) or directory
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o777)
            return PreparedVolume(directory, read_only=False)
        if projections_of(volume) is None:
            raise VolumeError(
                f"{source_name(volume)} volumes are not supported where containers run as processes: "
                "use emptyDir, or hostPath for what has to outlive the pod"
            )
        contents = await self._sources.read(state.pod, volume)
        directory.mkdir(parents=True, exist_ok=True)
        write_payload(directory, contents.payload)
        state.shown[volume.name] = (volume, contents)
        return PreparedVolume(directory, read_only=True)

    def _follow(self, state: _PodVolumes) -> None:
        """Watch the objects that the volumes of a pod show, and schedule the renewal of their tokens."""
        state.renew_at = _first(contents for _, contents in state.shown.values())
        if state.shown:
            self._run_once("files", self._refresh_outdated)
        self._has_outdated.set()
        for _, contents in state.shown.values():
            for reference in contents.versions:
                kind = ConfigMap if reference.kind == "configmap" else Secret
                self._run_once(reference.kind, partial(self._watch, kind))
        # The informers may have reported changes since the read before the pod was known.
        if any(self._has_changed(contents.versions) for _, contents in state.shown.values()):
            self._schedule_refresh(state.pod.metadata.uid)

    def _has_changed(self, versions: Mapping[Reference, str]) -> bool:
        """Return whether objects have another version now, as far as an informer knows them."""
        for reference, version in versions.items():
            informer = self._informers.get(reference.kind)
            if informer is not None and informer.store.synced:
                found = informer.store.get(reference.key)
                if version != (found.metadata.resource_version if found is not None else ""):
                    return True
        return False

    def _run_once(self, name: str, run: Callable[[], Coroutine[None, None, None]]) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._group.create_task(run(), name=f"volumes: {name}")

    async def _watch(self, kind: type[ConfigMap | Secret]) -> None:
        # Only the versions are of interest; changed objects are read from the server.
        informer = Informer(self._client, Selection(kind, transform=_metadata_of))
        self._informers[kind.resource.kind.lower()] = informer
        informer.add_handler(_Changes(self))
        await informer.run()

    def note_version(self, reference: Reference, version: str) -> None:
        """Schedule a refresh of pods that show another version of an object; the version is empty for a deleted one."""
        for uid, state in self._pods.items():
            shown = (contents.versions.get(reference, version) for _, contents in state.shown.values())
            if any(known != version for known in shown):
                self._schedule_refresh(uid)

    def _schedule_refresh(self, uid: str) -> None:
        self._outdated.add(uid)
        self._has_outdated.set()

    async def _refresh_outdated(self) -> None:
        """Write the files of volumes again when objects that they show have changed, or tokens near their end."""
        loop = asyncio.get_running_loop()
        while True:
            moments = {uid: state.renew_at for uid, state in self._pods.items() if state.renew_at is not None}
            try:
                async with asyncio.timeout_at(min(moments.values(), default=None)):
                    await self._has_outdated.wait()
            except TimeoutError:
                now = loop.time() + TIMER_SLACK_SECONDS
                self._outdated.update(uid for uid, moment in moments.items() if moment <= now)
            self._has_outdated.clear()
            while self._outdated:
                await self._refresh(self._outdated.pop())

    async def _refresh(self, uid: str) -> None:
        """Bring the files of a pod up to date. A volume that cannot be read stays as it was written last."""
        state = self._pods.get(uid)
        if state is None:
            return
        failures = set()
        for name, (volume, before) in tuple(state.shown.items()):
            try:
                contents = await self._sources.read(state.pod, volume)
                if uid not in self._pods:
                    return
                if contents.payload != before.payload:
                    write_payload(state.volumes[name].path, contents.payload)
                state.shown[name] = (volume, contents)
            except (VolumeError, OSError) as error:
                failures.add(setup_failure(name, error))
        for failure in sorted(failures - state.failures):
            self._record(state.pod, "FailedMount", failure)
        state.failures = failures
        state.renew_at = _first(contents for _, contents in state.shown.values())
        if failures:
            state.renew_at = asyncio.get_running_loop().time() + RETRY_SECONDS


def _first(shown: Iterable[VolumeContents]) -> float | None:
    """Return when the first of these contents is to be renewed."""
    return min((contents.renew_at for contents in shown if contents.renew_at is not None), default=None)


def _metadata_of(obj: R) -> R:
    return type(obj)(metadata=obj.metadata)


class _Changes(Handler[ConfigMap | Secret]):
    def __init__(self, manager: VolumeManager) -> None:
        self._manager = manager

    def on_add(self, obj: ConfigMap | Secret, initial: bool) -> None:
        self._note(obj, obj.metadata.resource_version)

    def on_update(self, old: ConfigMap | Secret, new: ConfigMap | Secret) -> None:
        self._note(new, new.metadata.resource_version)

    def on_delete(self, obj: ConfigMap | Secret, final_state_unknown: bool) -> None:
        self._note(obj, "")

    def _note(self, obj: ConfigMap | Secret, version: str) -> None:
        self._manager.note_version(Reference(obj.resource.kind.lower(), obj.key), version)
