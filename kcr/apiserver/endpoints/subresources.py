"""Subresources with a behaviour of their own: pods/binding, pods/eviction, namespaces/finalize and scale.

Source: kubernetes/pkg/registry/core/pod/storage/storage.go (assignPod, setPodHostAndAnnotations) and eviction.go,
kubernetes/pkg/registry/core/namespace/{strategy,storage/storage}.go, pkg/registry/apps/deployment/storage/storage.go,
ScaleREST.
"""

from datetime import datetime
from typing import Any

from kcr.apiserver.apply.tracking import Tracking
from kcr.apiserver.endpoints import request_body
from kcr.apiserver.endpoints.writing import Write, check_name, patched
from kcr.apiserver.kinds.catalogue import Kind
from kcr.apiserver.kinds.field_errors import non_negative, not_supported, required
from kcr.apiserver.kinds.names import selector_text
from kcr.apiserver.kinds.strategy import Manifest, conform
from kcr.apiserver.kinds.versions import ScalePaths
from kcr.apiserver.registry.deletion import DeleteOptions, check_preconditions, delete
from kcr.apiserver.registry.metadata import timestamp
from kcr.apiserver.registry.registry import Registry
from kcr.apiserver.responses import (
    APIResponse,
    StatusError,
    bad_request,
    conflict,
    encoded,
    internal,
    invalid,
    json_response,
)
from kcr.apiserver.schema.builtin import type_shape
from kcr.apiserver.storage.records import Record, in_version

SCALE = "autoscaling.v1.Scale"
# What a patch of a Scale finds where a custom resource says no number.
_UNSET = -(1 << 31)
_OF_SCALE = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def bind(registry: Registry, write: Write) -> APIResponse:
    """Handle a POST on pods/binding: the pod is assigned to a node, once."""
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    body = request_body.decode_as(type_shape("core.v1.Binding"), write.body, write.content_type)
    named = (body.get("metadata") or {}).get("name")
    if named and named != route.name:
        raise bad_request("name in URL does not match name in Binding object")
    target = body.get("target") or {}
    kind, node = target.get("kind") or "Node", target.get("name")
    errors = [] if kind == "Node" else [not_supported("target.kind", kind, ("Node", "<empty>"))]
    if not node:
        errors.append(required("target.name"))
    if errors:
        raise invalid("Binding", "", route.name, errors)
    old = registry.find(route.kind, route.namespace, route.name)
    check_preconditions(old, DeleteOptions(uid=(body.get("metadata") or {}).get("uid") or ""))
    before, new = old.manifest(), old.manifest()
    refusal = _why_not_bound(new)
    if refusal:
        named = route.kind.type._replace(plural="pods/binding")
        raise conflict(named, route.name, refusal)
    new["spec"]["nodeName"] = node
    _take_over(new["metadata"], body.get("metadata") or {})
    _set_condition(new, registry.clock.now(), type="PodScheduled")
    registry.store(old, new, before, dry_run=dry_run)
    return _done()


def _done() -> APIResponse:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_response(encoded(status), 201)


def _why_not_bound(pod: Manifest) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if spec.get("schedulingGates") else ""


def _take_over(metadata: Manifest, given: Manifest) -> None:
    for member in ("labels", "annotations"):
        if given.get(member):
            metadata[member] = {**metadata.get(member, {}), **given[member]}


def _set_condition(pod: Manifest, now: datetime, **condition: str) -> None:
    """Set a condition to True; lastTransitionTime is kept where it was True before."""
    status = pod.setdefault("status", {})
    conditions: list[Manifest] = status.get("conditions") or []
    had = next((one for one in conditions if one.get("type") == condition["type"]), {})
    moment = had.get("lastTransitionTime") if had.get("status") == "True" else timestamp(now)
    made = {**condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    status["conditions"] = [*(one for one in conditions if one is not had), made]


def evict(registry: Registry, write: Write) -> APIResponse:
    """Handle a POST on pods/eviction: the pod is marked as disrupted, then deleted. There are no disruption budgets."""
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    body = request_body.decode_as(type_shape("policy.v1.Eviction"), write.body, write.content_type)
    if (body.get("metadata") or {}).get("name") != route.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = request_body.parse_delete_options(body.get("deleteOptions") or {})
    if dry_run:
        options = options._replace(dry_run=True)
    old = registry.find(route.kind, route.namespace, route.name)
    check_preconditions(old, options)
    before, new = old.manifest(), old.manifest()
    _set_condition(
        new,
        registry.clock.now(),
        type="DisruptionTarget",
        reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )
    marked = registry.store(old, new, before, dry_run=options.dry_run)
    # The condition has changed the resourceVersion; the precondition was checked before.
    delete(registry, old if options.dry_run else marked, options._replace(resource_version=""))
    return _done()


def finalize(registry: Registry, write: Write) -> APIResponse:
    """Handle a PUT on namespaces/finalize: only the finalizers of the spec are written.

    Source: kubernetes/pkg/registry/core/namespace/{storage/storage.go,strategy.go}, FinalizeREST.
    """
    route, dry_run = write.route, write.query.dry_run("UpdateOptions")
    manifest = request_body.decode_object(route.kind, write.body, write.content_type)
    conform(route.kind.shape, manifest)
    old = registry.find(route.kind, "", route.name)
    before, new = old.manifest(), old.manifest()
    new["spec"] = dict(new.get("spec") or {})
    new["spec"]["finalizers"] = (manifest.get("spec") or {}).get("finalizers") or []
    if not new["spec"]["finalizers"]:
        del new["spec"]["finalizers"]
    return json_response(write.encoder.encode_object(registry.store(old, new, before, dry_run=dry_run)))


def read_scale(record: Record) -> Manifest:
    """Return the Scale of an object for a GET.

    Raises:
        StatusError: 500, a custom resource does not say how many it is to have.
    """
    if lacks_replicas(record):
        raise internal(f'the spec replicas field "{_replicas_path(record.kind)}" does not exist')
    return scale_of(record)


def lacks_replicas(record: Record) -> bool:
    """Return whether an object is a custom resource that does not say how many pods it is to have."""
    replicas = (record.kind.scale or ScalePaths()).replicas
    return record.kind.custom is not None and type(_at(record.manifest(), replicas)) is not int


def no_replicas(kind: Kind) -> StatusError:
    """400: neither the Scale nor the custom resource has a number of replicas.

    Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go,
    scaleUpdatedObjectInfo.
    """
    return bad_request(f'the spec replicas field "{_replicas_path(kind)}" cannot be empty')


def _replicas_path(kind: Kind) -> str:
    return f".{'.'.join((kind.scale or ScalePaths()).replicas)}"


def scale_of(record: Record) -> Manifest:
    """Return the Scale of an object: how many pods it is to have, how many it has, and which they are."""
    obj, paths, shape = record.manifest(), record.kind.scale or ScalePaths(), type_shape(SCALE)
    scale: Manifest = shape.conform({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: value for name, value in obj["metadata"].items() if name in _OF_SCALE},
        "spec": {"replicas": _at(obj, paths.replicas) or 0},
        "status": {
            "replicas": _at(obj, paths.status_replicas) or 0,
            "selector": _selector(_at(obj, paths.selector) if paths.selector else ""),
        },
    })  # fmt: skip
    return scale


def _selector(found: Any) -> str:
    # Custom resources have the text itself, replication controllers labels where the others have a selector.
    if not isinstance(found, dict):
        return found if isinstance(found, str) else ""
    labels_alone = found.keys().isdisjoint(type_shape("meta.v1.LabelSelector").fields)
    return selector_text({"matchLabels": found} if labels_alone else found) or ""


def _at(obj: Manifest, path: tuple[str, ...]) -> Any:
    """Return what is at a path, None where there is nothing."""
    found: Any = obj
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def object_of_scale(kind: Kind, scale: Manifest) -> Manifest:
    """Return what a Scale says of the object of a kind: its metadata, and the number of replicas if there is one."""
    obj: Manifest = {"apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": scale.get("metadata")}
    spec = scale.get("spec") or {}
    if "replicas" in spec:
        inner = obj
        *path, last = (kind.scale or ScalePaths()).replicas
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = spec["replicas"]
    return obj


def update_scale(registry: Registry, write: Write, *, is_patch: bool) -> APIResponse:
    """Handle a PUT or PATCH on scale: of the object, only the number of replicas is written.

    A resourceVersion in the Scale is a precondition, as in any update.
    """
    route, shape = write.route, type_shape(SCALE)
    dry_run = write.query.dry_run("PatchOptions" if is_patch else "UpdateOptions")
    old = write.stored(registry.find(route.kind, route.namespace, route.name))
    if is_patch:
        before = scale_of(old)
        if lacks_replicas(old):
            before["spec"]["replicas"] = _UNSET
        scale = patched(write, shape, before)
        conform(shape, scale)
        if (scale.get("spec") or {}).get("replicas") == _UNSET:
            raise no_replicas(route.kind)
    else:
        scale = request_body.decode_as(shape, write.body, write.content_type)
    metadata = scale.get("metadata") or {}
    check_name(route, metadata)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if errors := non_negative("spec.replicas", replicas):
        raise invalid("Scale", "autoscaling", route.name, errors)
    new = old.manifest()
    new["metadata"]["resourceVersion"] = metadata.get("resourceVersion", "")
    *path, last = (route.kind.scale or ScalePaths()).replicas
    parent = new
    for step in path:
        parent = parent.setdefault(step, {})
    parent[last] = replicas
    written = registry.update(old, new, Tracking(write.manager), dry_run=dry_run).record
    return json_response(encoded(scale_of(in_version(written, route.kind))))
