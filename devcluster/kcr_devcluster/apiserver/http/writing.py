"""The writing methods of HTTP: POST, PUT, PATCH and DELETE on objects and collections.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch,delete}.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.apply.managed_fields import UPDATE, ManagerEntry, manager_name
from kcr_devcluster.apiserver.apply.tracking import Tracking
from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authorization.escalation import Access
from kcr_devcluster.apiserver.authorization.signers import CertificateGuard
from kcr_devcluster.apiserver.http import listing
from kcr_devcluster.apiserver.http.bodies import field_validation, request_body
from kcr_devcluster.apiserver.http.routes import Route
from kcr_devcluster.apiserver.http.serialization import ObjectEncoder
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.patch import decode_operations, json_patch, merge_patch, strategic_patch, unstructured
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE
from kcr_devcluster.apiserver.protocol.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.protocol.gojson import decode_json, encode_json
from kcr_devcluster.apiserver.protocol.gotexts import printed
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.replay import replay
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    StatusError,
    Warned,
    bad_request,
    conflict,
    internal,
    invalid,
    json_response,
    not_found,
    success,
    warning_headers,
)
from kcr_devcluster.apiserver.registry import metadata as meta
from kcr_devcluster.apiserver.registry.deletion import DeleteOptions, delete
from kcr_devcluster.apiserver.registry.registry import Registry, WriteResult, check_version
from kcr_devcluster.apiserver.schema.scalars import SCALARS
from kcr_devcluster.apiserver.schema.shape import Shape
from kcr_devcluster.apiserver.storage.admission import CREATE, AdmissionAttributes, RequestContext, Reviews
from kcr_devcluster.apiserver.storage.records import Record, in_version
from kcr_devcluster.versions import DEFAULT

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_PATCHES = (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH)
# Of custom resources, the server has no Go types to merge by.
_CUSTOM_PATCHES = (_JSON_PATCH, _MERGE_PATCH)
# Where upstream's storage has resources, if not below their names.
_PLACES = {
    "endpoints": "services/endpoints", "ingresses.networking.k8s.io": "ingress", "nodes": "minions",
    "replicationcontrollers": "controllers", "services": "services/specs",
}  # fmt: skip
_EXTENSIONS = ("apiextensions.k8s.io", "apiregistration.k8s.io")
_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


# Returns warnings for the client that wrote an object, given the object before: None on create. Upstream has no such
# warnings, for there every field has an effect.
Adviser = Callable[[Record, Manifest | None], Iterable[str]]


class Write(NamedTuple):
    """One request that writes.

    Attributes:
        user: Who sends it.
        access: Checks the rights of its user to grant and create; None where every user may do everything.
        advisers: Functions that return warnings for its client.
        guard: Checks the object with the rights of its user; None for most kinds.
        reviews: The reviews of webhooks and policies; None where there are none.
        version: The version of Kubernetes that is served.
    """

    route: Route
    query: Query
    headers: Mapping[str, str]
    body: bytes
    encoder: ObjectEncoder
    user: User
    access: Access | None = None
    advisers: Sequence[Adviser] = ()
    guard: CertificateGuard | None = None
    reviews: Reviews | None = None
    version: str = DEFAULT

    def context(self, options: str, *, dry_run: bool) -> RequestContext:
        """Return the request for the registry: it refuses an object that grants more than the user has.

        Args:
            options: The kind of the options, `CreateOptions` where the request creates the object.
            dry_run: Whether nothing is stored.
        """
        guard = None if self.access is None else self.access.check_grant
        if self.guard is not None:
            guard = self.guard.check
        options_sent = {} if self.reviews is None else self.query.write_options(options)
        return RequestContext(self.user, self.route.kind, options_sent, dry_run, guard, self.reviews)

    def attributes(self, operation: str, *, dry_run: bool) -> AdmissionAttributes:
        """Return the attributes of a write of a subresource whose objects are not stored."""
        route = self.route
        context = self.context("CreateOptions" if operation == CREATE else "UpdateOptions", dry_run=dry_run)
        place = (route.name, route.namespace, route.name, route.subresource)
        return AdmissionAttributes(operation, route.kind, route.kind, *place, context)

    def check_create(self) -> None:
        """Refuse an update that would create the object, unless the user may create it.

        Raises:
            StatusError: 403.
        """
        if self.access is not None:
            self.access.check_create()

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self.headers.get("content-type", "")

    def manager(self, now: str) -> ManagerEntry:
        """Return the field manager that writes, without fields.

        Args:
            now: The time, as in metadata.
        """
        name = manager_name(self.query.text("fieldManager"), self.headers.get("user-agent", ""))
        return ManagerEntry(name, UPDATE, self.route.kind.type.api_version, self.route.subresource, now)

    @property
    def shape(self) -> Shape:
        """The fields of the objects in the request."""
        return self.route.kind.shape_in(self.version)

    def check(self, obj: Manifest) -> list[str]:
        """Return the warnings about unknown and duplicate fields in an object to write, and prune those fields.

        Raises:
            UndecodableError: There are some, and the request is strict.
        """
        shape = self.shape
        warnings = field_validation.check(shape, obj, self.body, self.content_type, self.query)
        # What is stored may have the fields of other versions.
        if shape is not self.route.kind.shape and (warnings or self.query.text("fieldValidation") == "Ignore"):
            shape.prune(obj)
        return warnings

    @property
    def kind(self) -> Kind:
        """The kind by whose rules the object is written."""
        return self.route.kind.written

    def stored(self, old: Record) -> Record:
        """Return a stored object as one of that kind."""
        return in_version(old, self.kind)

    def deleted(self, old: Record) -> Record:
        """Return a stored object as a DELETE handles it: where a webhook converts, in the request's version."""
        return old if self.kind.converter is None else self.stored(old)

    def to_storage(self, obj: Manifest) -> Manifest:
        """Return an object of the request's version in the version of its rules, conformed.

        Raises:
            UndecodableError: It is no object of its kind.
        """
        if self.route.kind.conversion is not None and self.route.kind.custom is None:
            self.route.kind.conversion.to_hub(obj)
        return obj

    def current(self, old: Record) -> Manifest:
        """Return a stored object in the request's version."""
        if self.route.kind.converter is not None:
            return in_version(old, self.route.kind).manifest()
        obj = old.manifest()
        if self.route.kind.conversion is not None:
            self.route.kind.conversion.from_hub(obj)
        return obj


def create(registry: Registry, write: Write) -> APIResponse:
    """Handle a POST on a collection."""
    route = write.route
    manifest = request_body.decode_object(route.kind, write.body, write.content_type)
    dry_run = write.query.dry_run("CreateOptions")
    warnings = write.check(manifest)
    with Warned(warnings):
        new = write.to_storage(manifest)
        context = write.context("CreateOptions", dry_run=dry_run)
        written = registry.create(write.kind, route.namespace, new, context=context)
    return write_response(write, written, warnings, 201)


def update(registry: Registry, write: Write) -> APIResponse:
    """Handle a PUT on an object or its status."""
    route, dry_run = write.route, write.query.dry_run("UpdateOptions")
    manifest = request_body.decode_object(route.kind, write.body, write.content_type, is_update=True)
    warnings = write.check(manifest)
    with Warned(warnings):
        written, status = _update(registry, write, manifest, dry_run=dry_run)
    return write_response(write, written, warnings, status)


def _update(registry: Registry, write: Write, manifest: Manifest, *, dry_run: bool) -> tuple[WriteResult, int]:
    """Replace an object, or create it where its kind allows that; return the code as well."""
    route = write.route
    metadata = meta.decode_metadata(route.kind, manifest.get("metadata"))
    check_name(route, metadata)
    old = registry.storage.get(route.kind, route.namespace, route.name)
    if old is None and route.kind.allow_create_on_update and not route.subresource:
        if uid := metadata.get("uid"):
            raise storage_conflict(
                route.kind.type, _storage_key(route.kind, route.namespace, route.name), "UID", uid, ""
            )
        forget_version(manifest, metadata)
        write.check_create()
        new = write.to_storage(manifest)
        context = write.context("CreateOptions", dry_run=dry_run)
        return registry.create(write.kind, route.namespace, new, context=context), 201
    if old is None:
        # What cannot be read is refused for that.
        new, _ = meta.prepared(write.kind, write.to_storage(manifest), route.namespace)
        write.kind.strategy.default(new)
        raise not_found(route.kind.type, route.name)
    _check_put(old, metadata)
    if route.kind.custom is not None:
        request_body.check_custom_kind(route.kind, manifest)
    part, tracking, new = route.subresource, Tracking(write.manager), write.to_storage(manifest)
    context = write.context("UpdateOptions", dry_run=dry_run)
    return registry.update(write.stored(old), new, tracking, subresource=part, context=context), 200


def forget_version(manifest: Manifest, metadata: Manifest) -> None:
    """Leave the version of a deleted object out of one that an update creates: it is no obstacle.

    Raises:
        StatusError: 500, it is no version.
    """
    if given := metadata.get("resourceVersion"):
        check_version(given)
    manifest["metadata"] = {**metadata, "resourceVersion": ""}


def _check_patched_type(route: Route, new: Manifest) -> None:
    """Refuse a patched object of another type than that of the path; `kind` may be absent in built-in ones.

    Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go, applyPatchToObject;
    apiextensions-apiserver/pkg/apiserver/customresource_handler.go, schemaCoercingConverter and UnstructuredDefaulter.
    """
    kind = route.kind.type
    if (new.get("apiVersion"), new.get("kind")) == (kind.api_version, kind.kind):
        return
    try:
        request_body.check_type_members(new)
    except ValueError as error:
        raise unusable(new, str(error)) from None
    if route.kind.custom is not None:
        _check_custom_type(route, new)
    elif not new.get("apiVersion"):
        raise _nameless(route)
    elif why := request_body.type_error((kind.api_version,), kind.kind, new):
        raise unusable(new, why)


def _check_custom_type(route: Route, new: Manifest) -> None:
    kind, (api_version, name) = route.kind.type, (new.get("apiVersion"), new.get("kind"))
    if not name:
        raise unusable(new, f"Object 'Kind' is missing in '{encode_json(new).decode()}'")
    if not api_version:
        raise internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    errors = []
    if name != kind.kind:
        errors.append(invalid_field("kind", name, f"must be {kind.kind}"))
    if api_version != kind.api_version:
        errors.append(invalid_field("apiVersion", api_version, f"must be {kind.api_version}"))
    raise invalid(name, api_version.rpartition("/")[0], route.name, errors)


def check_namespace(route: Route, metadata: Mapping[str, Any]) -> None:
    """Refuse an object of another namespace than that of the path.

    Raises:
        StatusError: 400.
    """
    if metadata.get("namespace", "") not in ("", route.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _nameless(route: Route) -> StatusError:
    words = f"the name of the object ({route.name} based on URL) was undeterminable: name must be provided"
    return bad_request(words)


def check_name(route: Route, metadata: Mapping[str, Any]) -> None:
    """Refuse an object whose namespace or name is not that of the path.

    Raises:
        StatusError: 400.
    """
    if route.kind.type.namespaced:
        check_namespace(route, metadata)
    name = metadata.get("name")
    if not name:
        raise _nameless(route)
    if name != route.name:
        words = f"the name of the object ({name}) does not match the name on the URL ({route.name})"
        raise bad_request(words)


def check_uid(old: Record, metadata: Mapping[str, Any]) -> None:
    """Refuse the update of an object by one with another uid.

    Raises:
        StatusError: 409.
    """
    uid, found = metadata.get("uid"), old.metadata
    if uid and uid != found.uid:
        key = _storage_key(old.kind, found.namespace, found.name)
        raise storage_conflict(old.kind.type, key, "UID", uid, found.uid)


def _storage_key(kind: Kind, namespace: str, name: str) -> str:
    resource = kind.type
    place = _PLACES.get(resource.display, resource.plural)
    if kind.custom is not None or resource.group in _EXTENSIONS:
        place = f"{resource.group}/{place}"
    return "/".join(filter(None, ("/registry", place, namespace, name)))


def storage_conflict(resource: ResourceType, key: str, what: str, given: str, found: str) -> StatusError:
    """409: an object is another one than the request says, in the words of upstream's storage.

    Args:
        resource: The resource.
        key: Where upstream's storage has the object.
        what: What differs.
        given: The value in the request.
        found: The value in the object.
    """
    why = f"Precondition failed: {what} in precondition: {given}, {what} in object meta: {found}"
    words = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(resource, key.rpartition("/")[2], words)


def _check_put(old: Record, metadata: Mapping[str, Any]) -> None:
    check_uid(old, metadata)
    _check_version_is_given(old.kind, old, metadata)


def _check_version_is_given(kind: Kind, old: Record, metadata: Mapping[str, Any]) -> None:
    if kind.requires_resource_version and metadata.get("resourceVersion") in (None, "", "0"):
        error = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
        # Here upstream names the resource where the Kind would stand.
        raise invalid(kind.type.plural, kind.type.group, old.metadata.name, [error])


def patch(registry: Registry, write: Write) -> APIResponse:
    """Handle a PATCH on an object or its status. Read, patch and store happen in one step: no patch is lost."""
    route, dry_run = write.route, write.query.dry_run("PatchOptions")
    request_body.check_size(write.body)
    old = registry.find(route.kind, route.namespace, route.name)
    new = patched(write, write.shape, write.current(old))
    _check_patched_type(route, new)
    try:
        warnings = write.check(new)
        with Warned(warnings):
            metadata = meta.decode_metadata(route.kind, new.get("metadata"))
            check_name(route, metadata)
            check_patch(route, old, metadata)
            part, tracking, stored = route.subresource, Tracking(write.manager), write.stored(old)
            new = write.to_storage(new)
            context = write.context("UpdateOptions", dry_run=dry_run)
            written = registry.update(stored, new, tracking, subresource=part, context=context)
    except UndecodableError as error:
        # Decoding changes its argument: the message shows the object as the patch left it.
        left = patched(write, write.shape, write.current(old))
        if request_body.media_type(write.content_type) == _MERGE_PATCH:
            left = _in_order(left, decode_json(write.body))
        raise unusable(left, error.text) from None
    return write_response(write, written, warnings)


def _in_order(value: Any, change: Any) -> Any:
    """Return a value with the fields of what a merge patch changed in order, as Go prints maps, the rest as stored."""
    if not isinstance(value, dict) or not isinstance(change, dict):
        return value
    return {name: _in_order(one, change.get(name)) for name, one in sorted(value.items())}


def check_patch_type(content_type: str) -> None:
    """Refuse a patch of a type that the routes of built-in kinds do not consume.

    Raises:
        StatusError: 415.

    Source: go-restful, route.go, matchesContentType.
    """
    given = {one.partition(";")[0].strip() for one in content_type.split(",")}
    if given.isdisjoint((*_PATCHES, APPLY_PATCH)):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def patched(write: Write, shape: Shape, target: Manifest) -> Manifest:
    """Return an object of a shape as the body of a PATCH leaves it.

    Raises:
        StatusError: 400, 415 or 422, it is no patch, or does not apply.
    """
    media = request_body.media_type(write.content_type)
    accepted = _PATCHES if write.route.kind.custom is None else _CUSTOM_PATCHES
    if media not in accepted:
        raise request_body.unsupported_media_type(", ".join((*accepted, APPLY_PATCH)))
    if media == _JSON_PATCH:
        return _patched_by_operations(write.body, target)
    if media == _STRATEGIC_PATCH:
        return _patched_strategically(write.body, shape, target)
    try:
        change = decode_json(write.body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    merged: Manifest = merge_patch(target, change)
    return merged


def _patched_strategically(patch: bytes, shape: Shape, target: Manifest) -> Manifest:
    try:
        change = decode_json(patch)
    except ValueError as error:
        raise bad_request(str(error)) from None
    new = strategic_patch(shape, target, change)
    try:
        for member in ("apiVersion", "kind"):
            unstructured.read(new.get(member), SCALARS["string"])
            if new:
                # Whatever the patch says of its type.
                new[member] = target[member]
        read: Manifest = unstructured.read(new, shape.type)
        return read
    except ValueError as error:
        raise unusable(printed(change), str(error)) from None


def _patched_by_operations(patch: bytes, target: Manifest) -> Manifest:
    new = json_patch(target, decode_operations(patch))
    if not isinstance(new, dict):
        raise unusable(new, f"{request_body.NO_KIND}: {request_body.not_an_object(new)}")
    return new


def check_patch(route: Route, old: Record, metadata: Manifest) -> None:
    """Refuse a patched object that is another one, or without the version that its kind requires.

    The registry refuses one that was made from a version that is not the newest.

    Raises:
        StatusError: 422.
    """
    kind = route.kind
    _check_version_is_given(kind, old, metadata)
    uid, given = old.metadata.uid, metadata.get("uid")
    if given not in (None, "", uid) and metadata.get("resourceVersion") in (None, "", old.metadata.resource_version):
        errors = [invalid_field("metadata.uid", given, IMMUTABLE)] * meta.checks_of_update(kind, route.subresource)[0]
        raise invalid(kind.type.kind, kind.type.group, old.metadata.name, errors)


def unusable(value: object, why: str) -> StatusError:
    """422: what a patch leaves cannot be read.

    Args:
        value: What it leaves, or the text that stands for it.
        why: The reason.
    """
    error = invalid_field("patch", value if isinstance(value, str) else encode_json(value).decode(), why)
    return invalid("", "", "", [error])


def remove(registry: Registry, write: Write) -> APIResponse:
    """Handle a DELETE on an object."""
    route = write.route
    options = request_body.delete_options(write.body, write.content_type, write.query)
    context = _delete_context(write, options)
    old = write.deleted(registry.find(route.kind, route.namespace, route.name))
    result = delete(registry, old, options, context)
    headers = warning_headers(_warnings(route, options))
    if result.gone and not route.kind.returns_deleted_object:
        metadata = result.record.metadata
        return json_response(success(route.kind.type, metadata.name, metadata.uid), headers=headers)
    return json_response(write.encoder.encode_object(result.record), headers=headers)


def _delete_context(write: Write, options: DeleteOptions) -> RequestContext:
    return RequestContext(write.user, write.route.kind, options.manifest(), options.dry_run, None, write.reviews)


def _warnings(route: Route, options: DeleteOptions) -> list[str]:
    return [_ORPHANS] if route.kind.type.kind == "Job" and not options.policy else []


async def remove_collection(registry: Registry, write: Write) -> APIResponse:
    """Handle a DELETE on a collection: delete the objects of a list, and return them as they were."""
    route = write.route
    options = request_body.delete_options(write.body, write.content_type, write.query)
    # Source: AdmissionToValidateObjectDeleteFunc, whose reviews have the name in the request: here none.
    context = _delete_context(write, options)._replace(is_collection=True)

    async def listed() -> tuple[tuple[Record, ...], bytes]:
        page = await listing.list_page(registry.storage, route, write.query)
        return page.records, write.encoder.encode_list(route.kind, page.metadata, page.records)

    async def remove_one(namespace: str, name: str) -> None:
        newest = registry.storage.get(route.kind, namespace, name)
        if newest is not None:
            delete(registry, write.deleted(newest), options, context)

    is_replayed = write.reviews is not None or route.kind.converter is not None
    records, body = await (replay(listed) if is_replayed else listed())
    for record in records:
        # Each object is reviewed and converted by itself: those before it are deleted, whatever the answer.
        attempt = partial(remove_one, record.metadata.namespace, record.metadata.name)
        await (replay(attempt) if is_replayed else attempt())
    return json_response(body, headers=warning_headers(_warnings(route, options)))


def write_response(write: Write, written: WriteResult, warnings: list[str], status: int = 200) -> APIResponse:
    """Return the response with the object that was written."""
    texts = [*warnings, *written.warnings]
    if not write.route.subresource:
        texts += [text for adviser in write.advisers for text in adviser(written.record, written.before)]
    return json_response(write.encoder.encode_object(written.record), status, warning_headers(texts))
