"""The subresource pods/binding, and the resource bindings: both assign a pod to a node, once.

Source: kubernetes/pkg/registry/core/pod/storage/storage.go, assignPod, setPodHostAndAnnotations.
"""

from collections.abc import Sequence
from datetime import datetime

from kcr_devcluster.apiserver.http.sent_objects import decode_sent
from kcr_devcluster.apiserver.http.writing import Write, storage_conflict
from kcr_devcluster.apiserver.kinds.catalogue import PODS
from kcr_devcluster.apiserver.plugins import add_topology_labels
from kcr_devcluster.apiserver.protocol.field_errors import not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    StatusError,
    bad_request,
    conflict,
    encoded,
    json_response,
    warning_headers,
)
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.storage.admission import CREATE


def bind(registry: Registry, write: Write) -> APIResponse:
    """Handle a POST on pods/binding, or on bindings, where the object has the pod's name."""
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    given = decode_sent(write, "core.v1.Binding", "v1")
    name = route.name or given.metadata.get("name")
    if not name:
        raise bad_request("Name parameter required.")
    sent = given.reviewed(write.attributes(CREATE, dry_run=dry_run)._replace(name=name))
    if sent.metadata.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    target = sent.manifest.get("target") or {}
    kind, node = target.get("kind") or "Node", target.get("name")
    errors = [] if kind == "Node" else [not_supported("target.kind", kind, ("Node", "<empty>"))]
    if not node:
        errors.append(required("target.name"))
    if errors:
        # Upstream returns them as they are, which is a 500.
        said = ", ".join(f"{error.field}: {error.message}" for error in errors)
        raise StatusError(500, "", said if len(errors) == 1 else f"[{said}]")
    old = registry.find(PODS, route.namespace, name)
    stored, key = old.metadata, f"/pods/{route.namespace}/{name}"
    for field, what, found in (
        ("uid", "UID", stored.uid),
        ("resourceVersion", "ResourceVersion", stored.resource_version),
    ):
        if sent.metadata.get(field) not in (None, "", found):
            raise storage_conflict(PODS.type, key, what, sent.metadata[field], found)
    before, new = old.manifest(), old.manifest()
    refusal = _why_not_bound(new)
    if refusal:
        raise conflict(PODS.type._replace(plural="pods/binding"), name, refusal)
    new["spec"]["nodeName"] = node
    _take_over(new["metadata"], sent.metadata)
    add_topology_labels(registry.storage, new["metadata"], str(node))
    set_condition(new, registry.clock.now(), type="PodScheduled")
    registry.store(old, new, before, dry_run=dry_run)
    return done(sent.warnings)


def done(warnings: Sequence[str]) -> APIResponse:
    """Return the response of a subresource that has succeeded, with texts for `Warning` headers."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_response(encoded(status), 201, warning_headers(warnings))


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


def set_condition(pod: Manifest, now: datetime, **condition: str) -> None:
    """Set a condition to True; lastTransitionTime is kept where it was True before."""
    status = pod.setdefault("status", {})
    conditions: list[Manifest] = status.get("conditions") or []
    had = next((one for one in conditions if one.get("type") == condition["type"]), {})
    moment = had.get("lastTransitionTime") if had.get("status") == "True" else timestamp(now)
    made = {**condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    status["conditions"] = [*(one for one in conditions if one is not had), made]
