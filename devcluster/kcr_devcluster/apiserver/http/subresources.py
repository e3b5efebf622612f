"""The subresource scale: how many pods an object is to have.

Source: kubernetes/pkg/registry/apps/deployment/storage/storage.go, ScaleREST.
"""

from typing import Any

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.apply.tracking import Tracking
from kcr_devcluster.apiserver.http.bodies import field_validation, request_body
from kcr_devcluster.apiserver.http.sent_objects import decode_sent
from kcr_devcluster.apiserver.http.writing import Write, check_name, check_uid, patched, unusable
from kcr_devcluster.apiserver.kinds.kind import Kind, ScalePaths
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError, conform
from kcr_devcluster.apiserver.protocol.field_errors import non_negative
from kcr_devcluster.apiserver.protocol.gojson import encode_json
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import selector_text
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    StatusError,
    bad_request,
    internal,
    invalid,
    json_response,
    warning_headers,
)
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import Shape
from kcr_devcluster.apiserver.storage.admission import UPDATE, AdmissionAttributes, RequestContext, review_sent
from kcr_devcluster.apiserver.storage.records import Record, in_version

SCALE = "autoscaling.v1.Scale"
_SCALES = Kind(ResourceType("autoscaling", "v1", "Scale", "scales", True))
# The number that a patch of a Scale finds in a custom resource without one.
_UNSET = -(1 << 31)
_OF_SCALE = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(record: Record) -> Record:
    """Return the Scale of an object for a GET.

    Raises:
        StatusError: 500, a custom resource does not say how many it is to have.
    """
    if lacks_replicas(record):
        raise internal(f'the spec replicas field "{_replicas_path(record.kind)}" does not exist')
    return as_scale(record)


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


def check_scalable(kind: Kind) -> None:
    """Refuse to write a Scale in a version whose schema has no field for the number.

    Upstream prunes the number without a word, or answers an apply with 500.

    Raises:
        StatusError: 400, the schema lacks the field that the definition names.
    """
    if kind.custom is not None and _is_pruned(kind.shape, (kind.scale or ScalePaths()).replicas):
        raise bad_request(
            f"the scale of {kind.type.display} writes {_replicas_path(kind)}, which is not in the schema of "
            f"{kind.type.api_version}: add the field to that version of the CustomResourceDefinition"
        )


def _is_pruned(shape: Shape, path: tuple[str, ...]) -> bool:
    for step in path:
        field = shape.fields.get(step)
        if field is None:
            return not shape.preserves_unknown
        if field.type.shape is None:
            return False
        shape = field.type.shape
    return False


def _replicas_path(kind: Kind) -> str:
    return f".{'.'.join((kind.scale or ScalePaths()).replicas)}"


def as_scale(record: Record) -> Record:
    """Return the Scale of an object as a record, which can be shown in every form."""
    scale = scale_of(record)
    body = encode_json({name: value for name, value in scale.items() if name not in ("kind", "apiVersion")})
    return Record(_SCALES, body, record.metadata, record.revision)


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
    """Return the value at a path, None where there is none."""
    found: Any = obj
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def object_of_scale(kind: Kind, scale: Manifest) -> Manifest:
    """Return the fields of a kind's object that a Scale has: metadata, and the number of replicas if there is one."""
    obj: Manifest = {"apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": scale.get("metadata")}
    spec = scale.get("spec") or {}
    if "replicas" in spec:
        set_replicas(kind, obj, spec["replicas"])
    return obj


def set_replicas(kind: Kind, obj: Manifest, replicas: int) -> None:
    """Set the number of pods that an object is to have."""
    *path, last = (kind.scale or ScalePaths()).replicas
    for name in path:
        obj = obj.setdefault(name, {})
    obj[last] = replicas


def reviewed_scale(attributes: AdmissionAttributes, scale: Manifest, old: Record) -> Manifest:
    """Return a Scale after admission: reviews see the Scale, not the object that it scales.

    Raises:
        PendingError: A review is not known yet.
        StatusError: It is refused.
    """
    if attributes.context.reviews is None:
        return scale
    before = scale_of(old)
    sent = {**scale, "kind": "Scale", "apiVersion": "autoscaling/v1"}
    # Validators see the Scale of the changed object.
    changed = review_sent(attributes, sent, before, lambda new: {**before, "spec": new.get("spec") or {}})
    conform(type_shape(SCALE), changed)
    return changed


def update_scale(registry: Registry, write: Write, *, is_patch: bool) -> APIResponse:
    """Handle a PUT or PATCH on scale: of the object, only the number of replicas is written.

    A resourceVersion in the Scale is a precondition, as in any update.
    """
    route = write.route
    check_scalable(route.kind)
    dry_run = write.query.dry_run("PatchOptions" if is_patch else "UpdateOptions")
    sent = None if is_patch else decode_sent(write, SCALE, "autoscaling/v1")
    if sent is not None:
        check_name(route, sent.metadata)
    old = write.stored(registry.find(route.kind, route.namespace, route.name))
    scale, warnings = _patched_scale(write, old) if sent is None else (sent.manifest, sent.warnings)
    scale = reviewed_scale(write.attributes(UPDATE, dry_run=dry_run), scale, old)
    metadata = scale.get("metadata") or {}
    check_name(route, metadata)
    check_uid(old, metadata)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    # Of custom resources, the field that holds the number is refused.
    if route.kind.custom is None and (errors := non_negative("spec.replicas", replicas)):
        raise invalid("Scale", "autoscaling", route.name, errors)
    new = old.manifest()
    new["metadata"]["resourceVersion"] = metadata.get("resourceVersion", "")
    set_replicas(route.kind, new, replicas)
    context = RequestContext(dry_run=dry_run)
    written = registry.update(old, new, Tracking(write.manager), context=context).record
    shown = write.encoder.encode_object(as_scale(in_version(written, route.kind)))
    return json_response(shown, 200, warning_headers(warnings))


def _patched_scale(write: Write, old: Record) -> tuple[Manifest, list[str]]:
    """Return the Scale of an object as a PATCH leaves it, and the warnings about it."""
    before, shape = scale_of(old), type_shape(SCALE)
    if lacks_replicas(old):
        before["spec"]["replicas"] = _UNSET
    scale = patched(write, shape, before)
    if why := request_body.type_error(("autoscaling/v1",), "Scale", scale):
        raise unusable(scale, why)
    warnings = field_validation.check(shape, scale, write.body, write.content_type, write.query)
    try:
        conform(shape, scale)
    except UndecodableError as error:
        raise unusable(patched(write, shape, before), error.text) from None
    if (scale.get("spec") or {}).get("replicas") == _UNSET:
        raise no_replicas(write.route.kind)
    return scale, warnings
