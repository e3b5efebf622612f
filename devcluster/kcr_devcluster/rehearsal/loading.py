"""A data folder of an embedded cluster with the objects of a snapshot, past admission and validation.

Uids, statuses, owner references, finalizers, times and versions are those of the snapshot. What differs follows from
the nodes, which are simulated: pods are bound to them, their containers start anew, Node objects are left out, and so
are references to owners of which the snapshot cannot have anything. ConfigMaps and Secrets that pods mount and the
snapshot does not have are empty.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from kcr.errors import ConfigError
from kcr_devcluster.apiserver.kinds.catalogue import ALL_KINDS, CONFIG_MAPS, NODES, PODS, SECRETS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import in_order
from kcr_devcluster.apiserver.storage.journal import write_journal
from kcr_devcluster.apiserver.storage.records import FIRST_REVISION, StoredRow, encode, key_of
from kcr_devcluster.cluster.datadir import JOURNAL
from kcr_devcluster.cluster.nodes import MAX_NODES, node_names
from kcr_devcluster.rehearsal.snapshot_file import Snapshot, SnapshotKind

# A simulated node runs any number of pods; several of them spread what has to be spread.
_PODS_PER_NODE = 500
_FEWEST_NODES = 3
_KINDS: Mapping[tuple[str, str], Kind] = {(kind.type.api_version, kind.type.kind): kind for kind in ALL_KINDS}
_DEFINITION = "CustomResourceDefinition"
_STATUSES = ("initContainerStatuses", "containerStatuses")
_VOLUMES = {"configMap": (CONFIG_MAPS, "name"), "secret": (SECRETS, "secretName")}

Manifest = dict[str, Any]


def load(snapshot: Snapshot, folder: Path) -> int:
    """Make a data folder, and return how many nodes its cluster needs.

    Args:
        snapshot: The objects.
        folder: The new folder.

    Raises:
        ConfigError: A definition is missing, or the folder cannot be written.
    """
    _check_definitions(snapshot)
    pods = sum(kind.count for kind in snapshot.head.kinds if kind.resource == PODS.type)
    nodes = max(_FEWEST_NODES, min(MAX_NODES, pods // _PODS_PER_NODE))
    folder.mkdir(mode=0o700)
    write_journal(folder / JOURNAL, _rows(snapshot, node_names(nodes)))
    return nodes


def _check_definitions(snapshot: Snapshot) -> None:
    defined = {one["metadata"]["name"] for one in snapshot.objects if one["kind"] == _DEFINITION}
    missing = [
        kind.resource.display
        for kind in snapshot.head.kinds
        if (kind.api_version, kind.kind) not in _KINDS and kind.resource.display not in defined
    ]
    if missing:
        raise ConfigError(
            f"the snapshot has no CustomResourceDefinition {', '.join(missing)}: take it again with kcr snapshot"
        )


def _rows(snapshot: Snapshot, nodes: list[str]) -> Iterator[tuple[str, StoredRow]]:
    kinds = {(kind.api_version, kind.kind): kind for kind in snapshot.head.kinds}
    names = dict(zip(_uids_of_pods(snapshot.objects), cycle(nodes), strict=False))
    known = {one["metadata"]["uid"] for one in snapshot.objects}
    newest = FIRST_REVISION
    for manifest in sorted(snapshot.objects, key=_version):
        kind = _KINDS.get((manifest["apiVersion"], manifest["kind"]))
        if kind is NODES:
            continue
        newest = max(_version(manifest), newest + 1)
        changed = _without_foreign_owners(manifest, kinds, known)
        if kind is PODS:
            changed = _on_node(changed, names[changed["metadata"]["uid"]])
        display = kinds[manifest["apiVersion"], manifest["kind"]].resource.display
        yield display, _row(changed, newest, is_custom=kind is None)
    for stub, kind in _stubs(snapshot):
        newest += 1
        yield kind.type.display, _row(stub, newest, is_custom=False)


def _uids_of_pods(objects: Iterable[Manifest]) -> list[str]:
    return [one["metadata"]["uid"] for one in objects if (one["apiVersion"], one["kind"]) == ("v1", "Pod")]


def _version(manifest: Manifest) -> int:
    version = manifest["metadata"].get("resourceVersion", "")
    return int(version) if version.isdecimal() else 0


def _row(manifest: Manifest, revision: int, *, is_custom: bool) -> StoredRow:
    metadata = in_order({**manifest["metadata"], "resourceVersion": str(revision)})
    rest = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")}
    head = {"apiVersion": manifest["apiVersion"]} if is_custom else {}
    key = key_of(metadata.get("namespace", ""), metadata["name"])
    return StoredRow(revision, key, encode({**head, "metadata": metadata, **rest}))


def _without_foreign_owners(
    manifest: Manifest, kinds: Mapping[tuple[str, str], SnapshotKind], known: set[str]
) -> Manifest:
    """Return an object without owners that the garbage collector would take for deleted: their kind was not read."""
    metadata = manifest["metadata"]
    owners = metadata.get("ownerReferences") or ()
    kept = [one for one in owners if one["uid"] in known or _is_whole(kinds.get((one["apiVersion"], one["kind"])))]
    if len(kept) == len(owners):
        return manifest
    changed = {name: value for name, value in metadata.items() if name != "ownerReferences"}
    return {**manifest, "metadata": {**changed, "ownerReferences": kept} if kept else changed}


def _is_whole(kind: SnapshotKind | None) -> bool:
    return kind is not None and kind.whole


def _on_node(pod: Manifest, node: str) -> Manifest:
    """Return a pod on a simulated node; containers that ran are to be started there, and count as started once."""
    if not pod["spec"].get("nodeName"):
        return pod
    status = dict(pod.get("status") or {})
    for name in _STATUSES:
        if name in status:
            status[name] = [_waiting(one) for one in status[name]]
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _waiting(container: Manifest) -> Manifest:
    if "running" not in (container.get("state") or {}):
        return container
    kept = {name: value for name, value in container.items() if name not in ("lastState", "containerID")}
    return {**kept, "state": {"waiting": {"reason": "ContainerCreating"}}}


def _stubs(snapshot: Snapshot) -> Iterator[tuple[Manifest, Kind]]:
    """Yield empty ConfigMaps and Secrets that pods mount, of kinds that were not read."""
    whole = {kind.kind for kind in snapshot.head.kinds if kind.whole}
    present = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in snapshot.objects}
    found: dict[tuple[str, str, str], tuple[Kind, set[str]]] = {}
    for namespace, volume in _mounted(snapshot.objects):
        for field, (kind, name) in _VOLUMES.items():
            source = volume.get(field) or {}
            key = (kind.type.kind, namespace, str(source.get(name)))
            if source.get(name) and kind.type.kind not in whole and key not in present:
                found.setdefault(key, (kind, set()))[1].update(item["key"] for item in source.get("items") or ())
    for number, ((_, namespace, name), (kind, keys)) in enumerate(sorted(found.items(), key=lambda item: item[0])):
        metadata = {"name": name, "namespace": namespace, "uid": f"00000000-0000-4000-8000-{number:012x}"}
        metadata["creationTimestamp"] = snapshot.head.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        yield {"metadata": metadata, "data": dict.fromkeys(sorted(keys), "")}, kind


def _mounted(objects: Iterable[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield namespace and source of each volume of pods and of templates of pods."""
    for manifest in objects:
        namespace = manifest["metadata"].get("namespace", "")
        for spec in _pod_specs(manifest):
            for volume in spec.get("volumes") or ():
                yield namespace, volume
                for source in (volume.get("projected") or {}).get("sources") or ():
                    secret = source.get("secret")
                    yield (
                        namespace,
                        {**source, **({"secret": {**secret, "secretName": secret["name"]}} if secret else {})},
                    )


def _pod_specs(manifest: Manifest) -> Iterator[Manifest]:
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return
    if manifest["kind"] == "Pod":
        yield spec
    template = (spec.get("jobTemplate") or {}).get("spec", spec) if manifest["kind"] == "CronJob" else spec
    inner = template.get("template") if isinstance(template, dict) else None
    if isinstance(inner, dict) and isinstance(inner.get("spec"), dict):
        yield inner["spec"]
