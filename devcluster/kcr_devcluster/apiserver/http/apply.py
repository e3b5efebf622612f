"""Server-side apply: PATCH with `application/apply-patch+yaml`, of an object, its status or its scale.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{patch,rest}.go, applyPatcher and
addStrictDecodingWarnings; kubernetes/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versioncheck.go.
"""

import asyncio
from collections.abc import Generator, Iterator
from typing import Any

from kcr_devcluster.apiserver.apply import field_manager, managed_fields
from kcr_devcluster.apiserver.apply.field_manager import ApplyResult, Configuration
from kcr_devcluster.apiserver.apply.managed_fields import APPLY, Managed
from kcr_devcluster.apiserver.apply.tracking import Tracking
from kcr_devcluster.apiserver.apply.typed import nulls
from kcr_devcluster.apiserver.apply.versions import MANAGED_FIELDS, FieldVersions
from kcr_devcluster.apiserver.http.bodies import field_validation, request_body
from kcr_devcluster.apiserver.http.subresources import (
    SCALE,
    as_scale,
    check_scalable,
    lacks_replicas,
    no_replicas,
    object_of_scale,
    reviewed_scale,
    scale_of,
    set_replicas,
)
from kcr_devcluster.apiserver.http.writing import Write, check_name, check_patch, forget_version, write_response
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.gojson import decode_json, kind_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    bad_request,
    conflict,
    invalid,
    json_response,
    not_found,
)
from kcr_devcluster.apiserver.registry import metadata as meta
from kcr_devcluster.apiserver.registry.registry import Registry, WriteResult
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import Field, Type
from kcr_devcluster.apiserver.storage.admission import UPDATE
from kcr_devcluster.apiserver.storage.records import Record, in_version
from kcr_devcluster.apiserver.structural.checks import wrong_type
from kcr_devcluster.go_numbers import stored_numbers
from kcr_devcluster.yaml_json import key_errors, load_yaml

# Bytes of body and object from which on an apply is computed in slices, and how often that is tried.
_LARGE, _TRIES = 64 * 1024, 3
_YAML_ERRORS = "error converting YAML to JSON: yaml: unmarshal errors:"


async def apply(registry: Registry, write: Write) -> APIResponse:
    """Handle an apply of an object, which it creates when there is none, or of its status.

    A large one is computed in slices, between which other requests are served; when one of them has changed the
    object, it is computed again, at last in one piece.
    """
    route, dry_run = write.route, write.query.dry_run("PatchOptions", is_apply=True)
    config = _decode(write)
    _check_type(config, route.kind.type.api_version, route.kind.type.kind)
    warnings = _check_repeated(write)
    old = registry.storage.get(route.kind, route.namespace, route.name)
    steps = _merge(registry, write, old, config)
    if old is None and route.subresource:
        if route.kind.allow_create_on_update:
            # Upstream creates a Service so, without addresses.
            await _finished(steps, in_slices=False)
        raise not_found(route.kind.type, route.name)
    for _ in range(_TRIES if _is_large(write, old) else 0):
        merged = await _finished(steps, in_slices=True)
        newest = registry.storage.get(route.kind, route.namespace, route.name)
        if newest is old:
            break
        old = newest
        if old is None and route.subresource:
            raise not_found(route.kind.type, route.name)
        steps = _merge(registry, write, old, config)
    else:
        merged = await _finished(steps, in_slices=False)
    _check_nulls(write, config, merged.manifest)
    try:
        written = _write(registry, write, old, config, merged, dry_run=dry_run)
    except UndecodableError as error:
        raise field_manager.unconvertible(config, error.converted) from None
    return write_response(write, written, warnings, 201 if old is None else 200)


async def apply_scale(registry: Registry, write: Write) -> APIResponse:
    """Handle an apply of the scale of an object: the manager owns the number of replicas."""
    route, dry_run = write.route, write.query.dry_run("PatchOptions", is_apply=True)
    check_scalable(route.kind)
    config, shape = _decode(write), type_shape(SCALE)
    _check_type(config, "autoscaling/v1", "Scale")
    field_manager.check(shape, config)
    old = registry.find(route.kind, route.namespace, route.name)
    _check_repeated(write)
    if (config.get("spec") or {}).get("replicas") is None and lacks_replicas(write.stored(old)):
        raise no_replicas(route.kind)
    config = object_of_scale(route.kind, config)
    merged = await _finished(_merge(registry, write, old, config), in_slices=False)
    if write.reviews is not None:
        new = registry.storage.build_record(write.kind, {**merged.manifest, "metadata": old.manifest()["metadata"]}, 0)
        attributes = write.attributes(UPDATE, dry_run=dry_run)
        scale = reviewed_scale(attributes, scale_of(new), write.stored(old))
        set_replicas(route.kind, merged.manifest, (scale.get("spec") or {}).get("replicas", 0))
        # The object itself is not reviewed.
        write = write._replace(reviews=None)
    written = _write(registry, write, old, config, merged, dry_run=dry_run)
    return json_response(write.encoder.encode_object(as_scale(in_version(written.record, route.kind))))


def _decode(write: Write) -> Manifest:
    """Return the configuration that a request applies.

    Raises:
        StatusError: 400 or 413, it is none.
    """
    request_body.check_size(write.body)
    try:
        config = decode_json(write.body) if _is_json(write.body) else load_yaml(write.body)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if config is not None and not isinstance(config, dict):
        words = f"json: cannot unmarshal {kind_of(config)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {words}")
    return stored_numbers(config or {})


def _is_json(body: bytes) -> bool:
    """Return whether a body is meant as JSON: other clients than people write it so, and it is read much faster."""
    return body.lstrip()[:2] in (b'{"', b"{}")


def _check_nulls(write: Write, config: Manifest, merged: Manifest) -> None:
    """Refuse nulls in a custom resource: unlike those that other writes send, they are not dropped.

    Raises:
        StatusError: 422.
    """
    kind, unwritten = write.route.kind, ("metadata", *_resets(write))
    if kind.custom is None or not any(_nulls(kind, config, unwritten)):
        return
    # A null over an object or a list leaves it as it is.
    if not (errors := [wrong_type(path, of.name, "null") for path, of in _nulls(kind, merged, unwritten)]):
        return
    raise invalid(kind.type.kind, kind.type.group, _metadata(merged).get("name", ""), errors)


def _nulls(kind: Kind, manifest: Manifest, unwritten: tuple[str, ...]) -> Iterator[tuple[str, Type]]:
    written = {name: value for name, value in manifest.items() if name not in unwritten}
    return nulls(Field(kind.shape.type), written)


def _check_type(config: Manifest, api_version: str, kind: str) -> None:
    """Refuse a configuration of another type than the path's, and one that has managedFields.

    Raises:
        StatusError: 400.
    """
    said = tuple(value if isinstance(value := config.get(name), str) else "" for name in ("apiVersion", "kind"))
    if said != (api_version, kind):
        group, _, version = said[0].rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={said[1]}")
    if _metadata(config).get(MANAGED_FIELDS) is not None:
        raise bad_request("metadata.managedFields must be nil")


def _metadata(config: Manifest) -> Manifest:
    metadata = config.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _check_repeated(write: Write) -> list[str]:
    """Return the warnings about names that the body has twice.

    Raises:
        StatusError: 400, there are some, and the request is strict.
    """
    validation = write.query.text("fieldValidation")
    if validation == "Ignore" or (_is_json(write.body) and not field_validation.repeated(write.body)):
        return []
    found = key_errors(write.body)
    if found and validation == "Strict":
        raise bad_request("\n  ".join((f"error strict decoding YAML: {_YAML_ERRORS}", *found)))
    return found


def _is_large(write: Write, old: Record | None) -> bool:
    return len(write.body) + (0 if old is None else len(old.body)) > _LARGE


def _merge(
    registry: Registry, write: Write, old: Record | None, config: Manifest
) -> Generator[None, None, ApplyResult]:
    """Compute an object with a configuration applied, and return it; pauses between the steps."""
    versions, live = FieldVersions(write.route.kind, write.shape), {} if old is None else write.current(old)
    by = write.manager(timestamp(registry.now()))._replace(operation=APPLY)
    managed = _managed(write, live, by)
    yield
    given = Configuration(config, by, write.query.flag("force"), _resets(write))
    return (yield from field_manager.apply(versions, live, given, managed))


async def _finished(steps: Generator[None, None, ApplyResult], *, in_slices: bool) -> ApplyResult:
    """Return the result of the steps, after other tasks ran between them or at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ApplyResult = end.value
            return result
        if in_slices:
            await asyncio.sleep(0)


def _write(
    registry: Registry, write: Write, old: Record | None, config: Manifest, merged: ApplyResult, *, dry_run: bool
) -> WriteResult:
    """Store an object with a configuration applied to it, or create it."""
    route, manifest = write.route, merged.manifest
    tracking = Tracking(write.manager, merged.managed)
    if old is None:
        metadata = _metadata(config)
        if uid := metadata.get("uid"):
            words = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(route.kind.type, route.name, words)
        check_name(route, metadata)
        forget_version(manifest, _metadata(manifest))
        new = write.to_storage(manifest)
        write.check_create()
        context = write.context("CreateOptions", dry_run=dry_run)
        return registry.create(write.kind, route.namespace, new, tracking=tracking, context=context)
    # A configuration may lack the name: the live object has it.
    check_name(route, _metadata(manifest))
    check_patch(route, old, meta.decode_metadata(route.kind, manifest.get("metadata")))
    # A Scale is applied to the object itself.
    part, new = "" if route.subresource == "scale" else route.subresource, write.to_storage(manifest)
    context = write.context("UpdateOptions", dry_run=dry_run)
    return registry.update(write.stored(old), new, tracking, subresource=part, context=context)


def _resets(write: Write) -> tuple[str, ...]:
    """Return the fields that a path does not write: the status is written through its subresource only."""
    route = write.route
    if "status" not in route.kind.subresources:
        return ()
    return write.kind.strategy.resets("" if route.subresource == "scale" else route.subresource)


def _managed(write: Write, live: Manifest, by: managed_fields.ManagerEntry) -> Managed:
    """Return the field managers of the live object before this apply."""
    if not live:
        return {}
    given: Any = live["metadata"].get(MANAGED_FIELDS)
    kind = write.route.kind
    if not given:
        return field_manager.before_first_apply(FieldVersions(kind), live, by, has_status="status" in kind.subresources)
    return managed_fields.decode(given)
