"""Which parts of which volumes a container has, and at which paths: volumeMounts, resolved on the machine."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from kcr.api.full.core_v1 import VolumeMount
from kcr_devcluster.apiserver.registry.service_accounts import TOKEN_DIRECTORY
from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.container_mounts import Mount
from kcr_devcluster.cluster.node.process.environment import MissingConfigError

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")


class PreparedVolume(NamedTuple):
    """A volume of a pod on the machine.

    Attributes:
        path: Where it is.
        read_only: Whether no container may write to it, whatever its mount says.
    """

    path: Path
    read_only: bool


def mounts_of(
    container: KubeletContainer, volumes: Mapping[str, PreparedVolume], variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Return the mounts of a container. A subPath that is missing in its volume is made there, as a directory.

    Args:
        container: The container.
        volumes: The pod's volumes by name.
        variables: Of the container, for subPathExpr.

    Raises:
        MissingConfigError: A variable or a subPath is missing; the message is the kubelet's.

    Source: kubernetes/pkg/kubelet/kubelet_pods.go, makeMounts.
    """
    mounts = []
    for given in container.volume_mounts:
        mount = msgspec.convert(given, VolumeMount)
        volume = volumes.get(mount.name)
        if volume is None:
            raise MissingConfigError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        source = _sub_path(volume.path, mount, container.name, variables)
        target = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
        mounts.append(Mount(mount.name, str(source), target, bool(mount.read_only) or volume.read_only))
    return tuple(mounts)


def _sub_path(volume: Path, mount: VolumeMount, container: str, variables: Mapping[str, str]) -> Path:
    chosen = _expanded(mount.sub_path_expr, variables) if mount.sub_path_expr else mount.sub_path
    if not chosen:
        return volume
    path = volume / chosen
    where = f'for volumeMount "{mount.name}" of container "{container}"'
    if Path(chosen).is_absolute() or ".." in Path(chosen).parts or not path.resolve().is_relative_to(volume.resolve()):
        raise MissingConfigError(f"failed to prepare subPath {where}")
    if not path.exists():
        try:
            path.mkdir(mode=volume.stat().st_mode & 0o777, parents=True)
        except OSError:
            raise MissingConfigError(f"failed to create subPath directory {where}") from None
    return path


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value, all of which must be there.

    Source: kubernetes/pkg/kubelet/container/helpers.go, ExpandContainerVolumeMounts.
    """

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        if found[1] not in variables:
            raise MissingConfigError(f'missing value for "{found[1]}"')
        return variables[found[1]]

    return _REFERENCE.sub(value, text)


def token_volume(container: KubeletContainer) -> str:
    """Return the volume that a container has at the place of its service account's token; empty for none."""
    for mount in container.volume_mounts:
        if str(mount.get("mountPath", "")).rstrip("/") == TOKEN_DIRECTORY:
            return str(mount.get("name", ""))
    return ""
