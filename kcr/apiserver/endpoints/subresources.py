"""Subresources with a behaviour of their own: pods/binding, pods/eviction and namespaces/finalize.

Source: kubernetes/pkg/registry/core/pod/storage/storage.go (assignPod, setPodHostAndAnnotations) and eviction.go,
kubernetes/pkg/registry/core/namespace/{strategy,storage/storage}.go.
"""

from datetime import datetime

from kcr.apiserver.endpoints import request_body as bodies
from kcr.apiserver.endpoints.writing import Write
from kcr.apiserver.kinds.field_errors import not_supported, required
from kcr.apiserver.kinds.strategy import Manifest, receive
from kcr.apiserver.registry.deletion import DeleteOptions, check_preconditions, delete
from kcr.apiserver.registry.metadata import timestamp
from kcr.apiserver.registry.registry import Registry
from kcr.apiserver.responses import Answer, bad_request, conflict, encoded, invalid, json_answer
from kcr.apiserver.schema.builtin import type_shape


def bind(registry: Registry, write: Write) -> Answer:
    """Answer a POST on pods/binding: the pod is given its node, once."""
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    body = bodies.shaped(type_shape("core.v1.Binding"), write.body, write.content_type)
    target = body.get("target") or {}
    kind, node = target.get("kind") or "Node", target.get("name")
    faults = [] if kind == "Node" else [not_supported("target.kind", kind, ("Node", "<empty>"))]
    if not node:
        faults.append(required("target.name"))
    if faults:
        raise invalid("Binding", "", route.name, faults)
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


def _done() -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_answer(encoded(status), 201)


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
    """Make a condition True; it keeps the moment when it already was."""
    status = pod.setdefault("status", {})
    conditions: list[Manifest] = status.get("conditions") or []
    had = next((one for one in conditions if one.get("type") == condition["type"]), {})
    moment = had.get("lastTransitionTime") if had.get("status") == "True" else timestamp(now)
    made = {**condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    status["conditions"] = [*(one for one in conditions if one is not had), made]


def evict(registry: Registry, write: Write) -> Answer:
    """Answer a POST on pods/eviction: the pod is marked as disrupted, then deleted. There are no disruption budgets."""
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    body = bodies.shaped(type_shape("policy.v1.Eviction"), write.body, write.content_type)
    if (body.get("metadata") or {}).get("name") != route.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = bodies.options_of(body.get("deleteOptions") or {})
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
    # The mark has given the pod another version than the one it was to have.
    delete(registry, old if options.dry_run else marked, options._replace(resource_version=""))
    return _done()


def finalize(registry: Registry, write: Write) -> Answer:
    """Answer a PUT on namespaces/finalize: only the finalizers of the spec are taken over."""
    route = write.route
    manifest = bodies.manifest(route.kind, write.body, write.content_type)
    receive(route.kind.shape, manifest)
    old = registry.find(route.kind, "", route.name)
    before, new = old.manifest(), old.manifest()
    new["spec"] = dict(new.get("spec") or {})
    new["spec"]["finalizers"] = (manifest.get("spec") or {}).get("finalizers") or []
    if not new["spec"]["finalizers"]:
        del new["spec"]["finalizers"]
    return json_answer(write.form.one(registry.store(old, new, before)))
