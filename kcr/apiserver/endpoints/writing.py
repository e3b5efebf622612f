"""The writing methods of HTTP: POST, PUT, PATCH and DELETE on objects and collections.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch,delete}.go.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kcr.apiserver.endpoints import field_validation as strictness
from kcr.apiserver.endpoints import listing
from kcr.apiserver.endpoints import request_body as bodies
from kcr.apiserver.endpoints.routes import Query, Route
from kcr.apiserver.endpoints.serialization import Form, Plain, of_version
from kcr.apiserver.gojson import decode_json
from kcr.apiserver.kinds.catalogue import Kind
from kcr.apiserver.kinds.field_errors import IMMUTABLE, required
from kcr.apiserver.kinds.field_errors import invalid as invalid_field
from kcr.apiserver.kinds.strategy import Manifest, UndecodableError
from kcr.apiserver.patch import json_patch, merge_patch, strategic_patch
from kcr.apiserver.registry import metadata as meta
from kcr.apiserver.registry.deletion import DeleteOptions, delete
from kcr.apiserver.registry.registry import Registry, Written
from kcr.apiserver.responses import (
    STALE,
    Answer,
    RefusedError,
    bad_request,
    conflict,
    invalid,
    json_answer,
    success,
    warning_headers,
)
from kcr.apiserver.schema.shape import Shape
from kcr.apiserver.storage.storage import Record

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_OTHER_UID = "Precondition failed: UID in precondition: {}, UID in object meta: {}"
_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


class Write(NamedTuple):
    """One writing request, taken apart."""

    route: Route
    query: Query
    headers: Mapping[str, str]
    body: bytes
    form: Form

    @property
    def content_type(self) -> str:
        """The form of the body."""
        return self.headers.get("content-type", "")

    def check(self, obj: Manifest) -> list[str]:
        """Return the texts that warn of stray members in what is to be written.

        Raises:
            UndecodableError: There are some, and the client wants none.
        """
        return strictness.check(self.route.kind, obj, self.body, self.content_type, self.query)

    def take(self, obj: Manifest) -> Manifest:
        """Return an object of the version that the client speaks, checked, in the version that is stored.

        Raises:
            UndecodableError: It is no object of its kind.
        """
        if self.route.kind.view is not None:
            self.route.kind.view.take(obj)
        return obj

    def target(self, old: Record) -> Manifest:
        """Return a stored object in the version that the client speaks."""
        obj = old.manifest()
        if self.route.kind.view is not None:
            self.route.kind.view.show(obj)
        return obj


def create(registry: Registry, write: Write) -> Answer:
    """Answer a POST on a collection."""
    route = write.route
    manifest = bodies.manifest(route.kind, write.body, write.content_type)
    dry_run = write.query.dry_run("CreateOptions")
    strays = write.check(manifest)
    written = registry.create(route.kind.stored, route.namespace, write.take(manifest), dry_run=dry_run)
    return _answer(write, written, strays, 201)


def update(registry: Registry, write: Write) -> Answer:
    """Answer a PUT on an object or its status."""
    route, dry_run = write.route, write.query.dry_run("UpdateOptions")
    manifest = bodies.manifest(route.kind, write.body, write.content_type)
    strays = write.check(manifest)
    metadata = meta.cleaned(route.kind, manifest.get("metadata"))
    check_name(route, metadata)
    old = registry.storage.get(route.kind, route.namespace, route.name)
    if old is None and route.kind.put_creates and not route.subresource:
        if uid := metadata.get("uid"):
            raise conflict(route.kind.type, route.name, _OTHER_UID.format(uid, ""))
        # The version of an object that is gone is no obstacle here.
        manifest["metadata"] = {**metadata, "resourceVersion": ""}
        return _answer(write, registry.create(route.kind, route.namespace, manifest, dry_run=dry_run), strays, 201)
    old = registry.find(route.kind, route.namespace, route.name)
    _check_put(old, metadata)
    written = registry.update(old, write.take(manifest), status=route.subresource == "status", dry_run=dry_run)
    return _answer(write, written, strays)


def check_name(route: Route, metadata: Mapping[str, Any]) -> None:
    """Refuse an object whose name is not that of the path.

    Raises:
        RefusedError: 400.
    """
    name = metadata.get("name")
    if not name:
        words = f"the name of the object ({route.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(words)
    if name != route.name:
        words = f"the name of the object ({name}) does not match the name on the URL ({route.name})"
        raise bad_request(words)


def _check_put(old: Record, metadata: Mapping[str, Any]) -> None:
    kind, uid = old.kind, metadata.get("uid")
    if uid and uid != old.metadata.uid:
        raise conflict(kind.type, old.metadata.name, _OTHER_UID.format(uid, old.metadata.uid))
    if kind.needs_version and metadata.get("resourceVersion") in (None, "", "0"):
        fault = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
        # Here upstream names the resource where the Kind would stand.
        raise invalid(kind.type.plural, kind.type.group, old.metadata.name, [fault])


def patch(registry: Registry, write: Write) -> Answer:
    """Answer a PATCH on an object or its status. Read, patch and store happen in one step: no patch is lost."""
    route, dry_run = write.route, write.query.dry_run("PatchOptions")
    bodies.check_size(write.body)
    old = registry.find(route.kind, route.namespace, route.name)
    new = patched(write, route.kind.shape, write.target(old))
    kind = route.kind.type
    if (new.get("apiVersion"), new.get("kind")) != (kind.api_version, kind.kind):
        raise _unusable(new, f'no kind "{new.get("kind")}" is registered for version "{new.get("apiVersion")}"')
    if new.get("metadata") is None:
        raise _unusable(new, "metadata is no object")
    try:
        strays = write.check(new)
        _check_patch(route.kind, old, meta.cleaned(route.kind, new.get("metadata")))
        written = registry.update(old, write.take(new), status=route.subresource == "status", dry_run=dry_run)
    except UndecodableError as error:
        # Decoding changes what it is given: the message shows the object as the patch left it.
        raise _unusable(patched(write, route.kind.shape, write.target(old)), error.text) from None
    return _answer(write, written, strays)


def patched(write: Write, shape: Shape, target: Manifest) -> Manifest:
    """Return an object of a shape as the body of a PATCH leaves it.

    Raises:
        RefusedError: 400, 415 or 422, it is no patch, or does not apply.
    """
    media = bodies.media_type(write.content_type)
    if media not in (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH):
        raise bodies.unsupported_media_type(", ".join((_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH)))
    try:
        change = decode_json(write.body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if media == _STRATEGIC_PATCH:
        new: Any = strategic_patch(shape, target, change)
    else:
        new = json_patch(target, change) if media == _JSON_PATCH else merge_patch(target, change)
    if not isinstance(new, dict):
        raise _unusable(new, "it is no object")
    return new


def _check_patch(kind: Kind, old: Record, metadata: Manifest) -> None:
    stored = old.metadata
    if metadata.get("resourceVersion") not in (None, "", stored.resource_version):
        raise conflict(kind.type, stored.name, STALE)
    immutable = {"name": stored.name, "namespace": stored.namespace, "uid": stored.uid}
    faults = [
        invalid_field(f"metadata.{member}", metadata[member], IMMUTABLE)
        for member, value in immutable.items()
        if metadata.get(member) not in (None, "", value)
    ]
    if "name" not in metadata:
        faults.append(required("metadata.name", "name or generateName is required"))
    if faults:
        raise invalid(kind.type.kind, kind.type.group, stored.name, faults)


def _unusable(value: object, why: str) -> RefusedError:
    fault = invalid_field("patch", msgspec.json.encode(value).decode(), why)
    return invalid("", "", "", [fault])


def remove(registry: Registry, write: Write) -> Answer:
    """Answer a DELETE on an object."""
    route = write.route
    options = bodies.delete_options(write.body, write.content_type, write.query)
    result = delete(registry, registry.find(route.kind, route.namespace, route.name), options)
    headers = warning_headers(_warnings(route, options))
    if result.gone and not route.kind.delete_answers_object:
        metadata = result.record.metadata
        return json_answer(success(route.kind.type, metadata.name, metadata.uid), headers=headers)
    return json_answer(write.form.one(result.record), headers=headers)


def _warnings(route: Route, options: DeleteOptions) -> list[str]:
    return [_ORPHANS] if route.kind.strategy.default_propagation == "Orphan" and not options.policy else []


async def remove_collection(registry: Registry, write: Write) -> Answer:
    """Answer a DELETE on a collection: what a list would show is deleted, and shown as it was."""
    route = write.route
    options = bodies.delete_options(write.body, write.content_type, write.query)
    page = await listing.page(registry.storage, route, write.query)
    for record in page.records:
        newest = registry.storage.get(route.kind, record.metadata.namespace, record.metadata.name)
        if newest is not None:
            delete(registry, newest, options)
    headers = warning_headers(_warnings(route, options))
    return json_answer(of_version(route.kind, Plain()).many(route.kind, page.metadata, page.records), headers=headers)


def _answer(write: Write, written: Written, strays: list[str], status: int = 200) -> Answer:
    return json_answer(write.form.one(written.record), status, warning_headers([*strays, *written.warnings]))
