"""Objects in the mutating phase of reviews: without the fields of the server, and with them again.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, create and Update.
"""

from kcr_devcluster.apiserver.kinds.catalogue import NAMESPACES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE
from kcr_devcluster.apiserver.protocol.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.protocol.manifests import Manifest, in_order
from kcr_devcluster.apiserver.protocol.responses import StatusError, invalid
from kcr_devcluster.apiserver.registry import metadata as meta
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, RequestContext, Reviews

HAS_VERSION = "resourceVersion should not be set on objects to be created"
# Metadata that updates need not have.
_OF_SERVER = (
    "uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip


def attributes_of(
    operation: str, kind: Kind, metadata: Manifest, subresource: str, context: RequestContext
) -> AdmissionAttributes:
    """Return the attributes of a write of an object, before a name is generated for it."""
    name = metadata.get("name", "")
    namespace = name if kind is NAMESPACES else metadata.get("namespace", "")
    called = name or metadata.get("generateName", "")
    return AdmissionAttributes(
        operation, kind, context.requested or kind, name, namespace, called, subresource, context
    )


def as_requested(attributes: AdmissionAttributes, obj: Manifest) -> Manifest:
    """Return a new object without the metadata that only the server sets: uid, time and generated name come later."""
    hidden = ("uid", "creationTimestamp", "resourceVersion", "" if attributes.name else "name")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in hidden}
    return {**obj, "metadata": metadata}


def as_sent(new: Manifest, given: Manifest) -> Manifest:
    """Return a new version of an object without the metadata of the server that its request does not have."""
    sent = given.get("metadata") or {}
    metadata = {name: value for name, value in new["metadata"].items() if name in sent or name not in _OF_SERVER}
    return {**new, "metadata": metadata}


def with_initial_fields(attributes: AdmissionAttributes, changed: Manifest, drawn: Manifest) -> Manifest:
    """Return a new object that the mutating phase has changed, with the metadata that the server has set before."""
    namespace = drawn.get("namespace", "")
    if (changed.get("metadata") or {}).get("resourceVersion"):
        raise StatusError(500, "", HAS_VERSION)
    obj, _ = meta.prepared(attributes.kind, changed, namespace)
    metadata = obj["metadata"]
    for name in ("uid", "creationTimestamp", "resourceVersion"):
        metadata[name] = drawn[name]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)
    metadata["name"] = metadata.get("name") or drawn["name"]
    obj["metadata"] = in_order(metadata)
    return obj


def mutate_update(attributes: AdmissionAttributes, reviews: Reviews, new: Manifest, before: Manifest) -> Manifest:
    """Return a new version as the mutating phase leaves it; `new` itself without changes.

    Raises:
        StatusError: 422, it has another name or uid.
    """
    changed = reviews.mutate(attributes, new, before)
    if changed is new:
        return new
    changed = reviews.reinvoke(attributes, changed, before)
    metadata, stored = changed.get("metadata") or {}, before["metadata"]
    name, uid = metadata.get("name") or "", metadata.get("uid") or stored["uid"]
    errors = [] if name == stored["name"] else [invalid_field("metadata.name", name, IMMUTABLE)]
    if uid != stored["uid"]:
        errors.append(invalid_field("metadata.uid", uid, IMMUTABLE))
    if errors:
        raise invalid(attributes.kind.type.kind, attributes.kind.type.group, stored["name"], errors)
    return changed
