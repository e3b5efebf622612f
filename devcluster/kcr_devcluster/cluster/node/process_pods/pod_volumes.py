"""Volumes for containers that are processes: set up with the first pod that has some, and found by its containers."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcr.client import Client
from kcr_devcluster.cluster.names.cluster_names import PodIdentity
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.process.container_mounts import (
    Mount,
    MountNamespace,
    NamespaceSupport,
    detect_namespaces,
    kept_visible,
    rewrite_paths,
    rewritten,
)
from kcr_devcluster.cluster.node.process.environment import hostname_of
from kcr_devcluster.cluster.node.runtime import NodeInfo, RecordWarning

if TYPE_CHECKING:  # loaded with the first pod that has volumes: the types of all of core/v1 are many
    from kcr_devcluster.cluster.node.volumes.volume_manager import VolumeManager

ADMIN_KUBECONFIG = "kubeconfig"
# Source: kubernetes/pkg/apis/core/v1/defaults.go, TerminationMessagePathDefault.
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
_NO_MOUNTS = (
    "no mount namespaces here ({}): in command, args and env, mountPaths are replaced by the directories of the "
    "volumes, which KCR_MOUNT_<VOLUME> names; elsewhere these paths are the machine's own"
)
_NO_NAMES = (
    "no mount namespaces here ({}): the container has the machine's /etc/hosts, without the names of Services and "
    "other pods, and without hostAliases"
)


class ContainerStart(NamedTuple):
    """How a container is started.

    Attributes:
        argv: Its argument vector.
        variables: The variables that its spec adds to the environment.
        directory: Its working directory.
        namespace: The mount namespace that it gets; None for none.
        replaced: Mounts whose paths have been replaced, where there are no namespaces.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    directory: Path
    namespace: MountNamespace | None = None
    replaced: tuple[Mount, ...] = ()


class PodVolumes:
    """The volumes of the pods of one node, and how containers see them."""

    def __init__(  # the parts of a node
        self,
        client: Client,
        node: NodeInfo,
        root: Path,
        group: asyncio.TaskGroup,
        record: RecordWarning,
        support: NamespaceSupport | None = None,
    ) -> None:
        """Make them; nothing is done before a pod has volumes.

        Args:
            client: Reads the content of volumes.
            node: The node.
            root: Where each pod has a directory, named by its uid.
            group: Runs the tasks that keep files up to date.
            record: Writes events.
            support: Whether containers get mount namespaces; None to find out with the first one that has mounts.
        """
        self._client, self._node, self._root, self._group, self._record = client, node, root, group, record
        self._loaded: VolumeManager | None = None
        self._support = support
        # Warnings that are recorded: pods, and reasons.
        self._warned: set[tuple[str, str]] = set()

    async def name_mounts(self, pod: KubeletPod) -> tuple[Mount, ...]:
        """Return the mounts of the files with the names of Services and pods; none where they are not wanted."""
        names, identity = self._node.names, _identity(pod)
        if names is None or not names.are_wanted(identity):
            return ()
        support = await self._find_support(self._staging(identity.uid))
        if support.kind:
            files = names.write_files(identity, self._root / identity.uid)
            return tuple(Mount("", str(file), target, read_only=False) for file, target in files)
        if identity.subdomain or identity.aliases:
            self._warn(pod, "NamesUnknown", _NO_NAMES.format(support.reason))
        return ()

    async def mount(self, pod: KubeletPod) -> float | None:
        """Set up the volumes of a pod, and return None; or in how many seconds to try again. Events say why."""
        return await self._manager().retries.mount(pod)

    async def apply(
        self, pod: KubeletPod, container: KubeletContainer, start: ContainerStart, others: tuple[Mount, ...] = ()
    ) -> ContainerStart:
        """Return how a container is started that has mounts, once its volumes are set up.

        Args:
            pod: The pod.
            container: The container.
            start: How it is started without them.
            others: Mounts that are no volumes.

        Raises:
            MissingConfigError: A part of a volume that it mounts is missing.
        """
        from kcr_devcluster.cluster.node.volumes.mounts import mounts_of, token_volume  # noqa: PLC0415  # see above

        uid, home = pod.metadata.uid, self._root / pod.metadata.uid
        volumes = self._manager().volumes_of(uid) if container.volume_mounts else {}
        mounts = mounts_of(container, volumes, start.variables) + others
        variables = start.variables
        if self._node.kubeconfig and (name := token_volume(container)) and (volumes[name].path / "token").exists():
            file = home / f".{container.name}.kubeconfig"
            write_account_kubeconfig(file, self._node.kubeconfig, volumes[name].path / "token", pod.metadata.namespace)
            variables = {"KUBECONFIG": str(file), **variables}
        staging = self._staging(uid)
        support = await self._find_support(staging)
        if support.kind:
            mounts += kept_visible(mounts, (home, self._root / ADMIN_KUBECONFIG))
            return start._replace(variables=variables, namespace=MountNamespace(support.kind, staging, mounts))
        if volumes:
            self._warn(pod, "MountPathsReplaced", _NO_MOUNTS.format(support.reason))
        argv, values = rewritten(start.argv, variables, mounts)
        directory = start.directory
        if container.working_dir.startswith("/"):
            directory = Path(*rewrite_paths((str(directory),), mounts))
        return ContainerStart(argv, values, directory, replaced=mounts)

    def _staging(self, uid: str) -> Path:
        """Return an empty directory of a pod, which is made."""
        staging = self._root / uid / ".mounts"
        staging.mkdir(mode=0o700, exist_ok=True)
        return staging

    async def _find_support(self, staging: Path) -> NamespaceSupport:
        """Return whether containers get mount namespaces; found out once.

        Args:
            staging: An empty directory.
        """
        if self._support is None:
            self._support = await detect_namespaces(staging)
        return self._support

    def update(self, pod: KubeletPod) -> None:
        """Take over a pod that has changed."""
        if self._loaded is not None:
            self._loaded.update(pod)

    def release(self, uid: str) -> None:
        """Forget a pod."""
        self._warned = {one for one in self._warned if one[0] != uid}
        if self._node.names is not None:
            self._node.names.release(uid)
        if self._loaded is not None:
            self._loaded.release(uid)

    def close(self) -> None:
        """Keep no files up to date any more."""
        if self._loaded is not None:
            self._loaded.close()

    def _manager(self) -> "VolumeManager":
        if self._loaded is None:
            from kcr_devcluster.cluster.node.volumes.volume_manager import VolumeManager  # noqa: PLC0415  # see above

            self._loaded = VolumeManager(self._client, self._node, self._root, self._group, self._record)
        return self._loaded

    def _warn(self, pod: KubeletPod, reason: str, message: str) -> None:
        """Record a warning once per pod."""
        if (pod.metadata.uid, reason) not in self._warned:
            self._warned.add((pod.metadata.uid, reason))
            self._record(pod, reason, message)


def _identity(pod: KubeletPod) -> PodIdentity:
    spec, metadata = pod.spec, pod.metadata
    aliases = tuple(f"{alias.ip}\t{' '.join(alias.hostnames)}" for alias in spec.host_aliases)
    # Source: kubernetes/pkg/kubelet/kubelet_pods.go, GeneratePodHostNameAndDomain: an override has no domain.
    domain = "" if spec.hostname_override else spec.subdomain
    return PodIdentity(metadata.uid, metadata.namespace, pod.status.pod_ip, hostname_of(pod), domain, aliases)


def termination_message_mount(container: KubeletContainer, start: ContainerStart, file: Path) -> Mount | None:
    """Return the mount of the file for a container's termination message, None where the container needs none.

    A mount namespace costs a process more. So a program that nothing names the default path to gets none of its own for
    it: such a program is to write to the file that `$KCR_TERMINATION_LOG` names.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, makeMounts.

    Args:
        container: The container.
        start: Its argument vector and variables, which may name the path.
        file: The file on the machine.
    """
    path = container.termination_message_path
    if not path.startswith("/"):
        return None
    is_named = any(path in text for text in (*start.argv, *start.variables.values()))
    if path == DEFAULT_MESSAGE_PATH and not container.volume_mounts and not is_named:
        return None
    return Mount("", str(file), path, read_only=False)


def write_account_kubeconfig(file: Path, admin: str, token: Path, namespace: str) -> None:
    """Write the kubeconfig of a pod's service account: the same server, and the token that the pod mounts.

    Args:
        file: Where to.
        admin: The text of the node's kubeconfig.
        token: The file with the token, which is renewed.
        namespace: The pod's.
    """
    from kcr_devcluster.yaml_json import load_yaml  # noqa: PLC0415  # only pods with tokens need it

    given = load_yaml(admin)
    cluster = given["clusters"][0]
    context = {"cluster": cluster["name"], "user": "pod", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": "pod", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "pod", "context": context}],
        "current-context": "pod",
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(config))
