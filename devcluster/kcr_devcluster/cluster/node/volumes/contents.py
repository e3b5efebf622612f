"""Files of a volume: keys of ConfigMaps and Secrets, fields of the pod. Values in, a value out."""

import json
from collections.abc import Iterable, Mapping

from kcr.api.full.core_v1 import ConfigMap, DownwardAPIVolumeFile, KeyToPath, ResourceFieldSelector, Secret
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.process.environment import field_of
from kcr_devcluster.cluster.node.process.resource_fields import ResourceFieldError, resource_text
from kcr_devcluster.cluster.node.volumes.atomic_writer import Payload, ProjectedFile

DEFAULT_MODE = 0o644


class VolumeError(Exception):
    """A volume cannot be set up; the message is the kubelet's reason."""


def config_map_files(
    config_map: ConfigMap, items: Iterable[KeyToPath], mode: int | None, *, optional: bool | None
) -> Payload:
    """Return the files that a ConfigMap gives.

    Args:
        config_map: The ConfigMap.
        items: Which keys, and their paths; none for all.
        mode: The files' mode, unless an item has its own.
        optional: Whether keys may be missing.

    Raises:
        VolumeError: A key is missing.

    Source: kubernetes/pkg/volume/configmap/configmap.go, MakePayload.
    """
    data = {key: text.encode() for key, text in config_map.data.items()} | dict(config_map.binary_data)
    return _files(data, items, mode, None if optional else "configmap references non-existent config key")


def secret_files(secret: Secret, items: Iterable[KeyToPath], mode: int | None, *, optional: bool | None) -> Payload:
    """Return the files that a Secret gives; see `config_map_files`.

    Source: kubernetes/pkg/volume/secret/secret.go, MakePayload.
    """
    return _files(secret.data, items, mode, None if optional else "references non-existent secret key")


def _files(data: Mapping[str, bytes], items: Iterable[KeyToPath], mode: int | None, missing: str | None) -> Payload:
    default = DEFAULT_MODE if mode is None else mode
    if not (items := tuple(items)):
        return {key: ProjectedFile(value, default) for key, value in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = ProjectedFile(data[item.key], default if item.mode is None else item.mode)
        elif missing is not None:
            raise VolumeError(f"{missing}: {item.key}")
    return files


def downward_files(
    pod: KubeletPod, items: Iterable[DownwardAPIVolumeFile], mode: int | None, allocatable: Mapping[str, str]
) -> Payload:
    """Return the files that show fields of the pod.

    Args:
        pod: The pod.
        items: Which fields, and their paths.
        mode: The files' mode, unless an item has its own.
        allocatable: Of the node: stands for a limit that a container has not got.

    Raises:
        VolumeError: A resource cannot be found.

    Source: kubernetes/pkg/volume/downwardapi/downwardapi.go, CollectData.
    """
    files = {}
    for item in items:
        text = ""
        if item.field_ref is not None:
            text = _field(pod, item.field_ref.field_path)
        elif item.resource_field_ref is not None:
            text = _resource(pod, item.resource_field_ref, allocatable)
        chosen = item.mode if item.mode is not None else mode
        files[item.path] = ProjectedFile(text.encode(), DEFAULT_MODE if chosen is None else chosen)
    return files


def _field(pod: KubeletPod, path: str) -> str:
    """Return a field of the pod as a file shows it: maps line by line, sorted.

    Source: kubernetes/pkg/fieldpath/fieldpath.go, FormatMap.
    """
    maps = {"metadata.labels": pod.metadata.labels, "metadata.annotations": pod.metadata.annotations}
    if path in maps:
        return "\n".join(f"{key}={json.dumps(text, ensure_ascii=False)}" for key, text in sorted(maps[path].items()))
    # Volumes have fields of the metadata only, which ask for neither node nor address.
    return field_of(pod, path, "", "")


def _resource(pod: KubeletPod, wanted: ResourceFieldSelector, allocatable: Mapping[str, str]) -> str:
    container = wanted.container_name or ""
    try:
        return resource_text(pod, container, wanted.resource, str(wanted.divisor or "0"), allocatable)
    except ResourceFieldError as error:
        raise VolumeError(str(error)) from error
