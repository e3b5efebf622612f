"""Subresources with a behaviour of their own: pods/binding and namespaces/finalize.

Source: kubernetes/pkg/registry/core/pod/storage/storage.go (assignPod, setPodHostAndAnnotations),
kubernetes/pkg/registry/core/namespace/{strategy,storage/storage}.go.
"""

from datetime import datetime

from kcr.embedded import bodies
from kcr.embedded.answers import Answer, conflict, encoded, invalid, json_answer
from kcr.embedded.fields import required
from kcr.embedded.metadata import timestamp
from kcr.embedded.registry import Registry
from kcr.embedded.strategy import Manifest
from kcr.embedded.writing import Write


def bind(registry: Registry, write: Write) -> Answer:
    """Answer a POST on pods/binding: the pod is given its node, once."""
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    body = bodies.mapping("Binding", write.body, write.content_type)
    node = (body.get("target") or {}).get("name")
    if not node:
        raise invalid("Binding", "", route.name, [required("target.name")])
    old = registry.find(route.kind, route.namespace, route.name)
    before, new = old.manifest(), old.manifest()
    refusal = _why_not_bound(new)
    if refusal:
        named = route.kind.type._replace(plural="pods/binding")
        raise conflict(named, route.name, refusal)
    new["spec"]["nodeName"] = node
    _take_over(new["metadata"], body.get("metadata") or {})
    _set_scheduled(new, registry.clock.now())
    registry.store(old, new, before, dry_run=dry_run)
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


def _set_scheduled(pod: Manifest, now: datetime) -> None:
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    status = pod.setdefault("status", {})
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    status["conditions"] = [*others, condition]


def finalize(registry: Registry, write: Write) -> Answer:
    """Answer a PUT on namespaces/finalize: only the finalizers of the spec are taken over."""
    route = write.route
    manifest = bodies.manifest(route.kind, write.body, write.content_type)
    old = registry.find(route.kind, "", route.name)
    before, new = old.manifest(), old.manifest()
    new["spec"] = dict(new.get("spec") or {})
    new["spec"]["finalizers"] = (manifest.get("spec") or {}).get("finalizers") or []
    if not new["spec"]["finalizers"]:
        del new["spec"]["finalizers"]
    return json_answer(write.form.one(registry.store(old, new, before)))
