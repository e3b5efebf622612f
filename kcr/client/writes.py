"""Writes: create, patch, apply, update, delete."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kcr.annotations import Count, shown
from kcr.api import codec
from kcr.api.managed_fields import ManagedObject, with_updates_applied
from kcr.api.meta import FullResource, Key, ObjectMeta, PartialObjectMetadata, Resource, ResourceView, controller_of
from kcr.arguments import check_of_call, checked_on_failure, refuse
from kcr.client.calls import Calls
from kcr.client.context import WRITE_CONTEXT, report_deleted, report_failure, report_wrote
from kcr.client.discovery import check_subresource, serves
from kcr.client.typed_apis import Model, model_of, object_of
from kcr.client.wire import decoding
from kcr.client.wire.transport import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, delete_options, object_path
from kcr.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InvalidError,
    KcrError,
    NotFoundError,
    ServerError,
    TransportError,
    error_for,
)
from kcr.tracing import with_traceparent

R = TypeVar("R", bound=Resource)
U = TypeVar("U", bound=FullResource)
# Types of objects that can be created and applied.
W = TypeVar("W", bound=Resource | Model)

# JSON is YAML; the server knows apply by this name only.
APPLY_PATCH = "application/apply-patch+yaml"

# How many generated names are tried before a taken one is an error: two of thousands may be the same.
_NAME_DRAWS = 3

# How often an apply tries to take over fields while other clients write the object.
_TAKE_OVERS = 3
# The operations of a JSON patch, and what each needs.
_OPERATIONS = {"add": "value", "copy": "from", "move": "from", "remove": "op", "replace": "value", "test": "value"}
# Patches without effect that are not sent again.
_REMEMBERED = 4096

# The whole answer to a JSON patch of which an operation fails; neither the operation nor the object is named.
_PATCH_FAILED = "the server rejected our request due to an error in our request"


class Writes(Calls):
    """Creates, changes and deletes objects.

    An existing object is changed in one of these ways, because a type that models a part of an object must
    never overwrite the rest:

    - `patch(old, new)` and, for the status, `patch_status(old, new)`: a merge patch of the fields that differ, for
      fields that only this client writes;
    - `strategic_patch`, `json_patch`: one item of a list that other clients write too;
    - `apply`: server-side apply of the fields that this field manager owns;
    - `update`: a PUT, for whole objects only.

    Types that model a part of their kind on purpose (`kcr.ResourceView`, such as `kcr.api.core.Pod`) are read and
    patched: `create` and `apply` refuse them.
    """

    @checked_on_failure
    async def create(self, obj: W) -> W:
        """Create an object, and return it as the server stored it.

        Args:
            obj: A typed object, or a model of kubernetes-asyncio or of the official client with `api_version` and
                `kind`, such as a `V1Job`; the answer is of the same type.

        Raises:
            AlreadyExistsError: The name is taken.
            InvalidError: The server refuses the object; `causes` name the fields.
            TypeError: The object is of a type that has some of the kind's fields only.
        """
        if not isinstance(obj, Resource):
            return await self._of_models(self.create, obj)
        _refuse_view(obj, "create")
        return await self._create(type(obj), obj.metadata.namespace, codec.encode(with_traceparent(obj)), obj.metadata)

    async def _of_models(self, write: Callable[..., Awaitable[Resource]], *models: W, **options: Any) -> W:
        """Write what models say, and return the answer as one."""
        return model_of(type(models[0]), await write(*[await object_of(self, one) for one in models], **options))

    @checked_on_failure
    async def create_manifest(self, kind: type[R], manifest: Mapping[str, object] | bytes, namespace: str = "") -> R:
        """Create an object from a plain mapping or its JSON, whole: nothing of it is lost to the type.

        Args:
            kind: The type of the returned object.
            manifest: The object; a mapping may leave out apiVersion and kind.
            namespace: The namespace; empty for that of the manifest.

        Raises:
            ValueError: The manifest states another namespace.
        """
        body = manifest if isinstance(manifest, bytes) else _whole(kind, manifest)
        stated = decoding.metadata_in(body)
        if stated.namespace and namespace not in ("", stated.namespace):
            raise ValueError(
                f"create_manifest: {kind.resource.kind} {stated.name}: namespace is {namespace!r}, and its "
                f"metadata.namespace {stated.namespace!r}: leave one out"
            )
        return await self._create(kind, namespace or stated.namespace, body, stated)

    async def _create(self, kind: type[R], namespace: str, body: bytes, metadata: ObjectMeta) -> R:
        """Create an object, in a reconcile under a drawn name: a create without an answer is repeated, not doubled."""
        context = WRITE_CONTEXT.get()
        tracker, owner = context.tracker, context.owner
        if metadata.name or not metadata.generate_name or tracker is None or owner is None:
            return await self._create_once(kind, Key(namespace, metadata.name), body)
        uid = _controller_uid(metadata)
        for draws_left in reversed(range(_NAME_DRAWS)):
            drawn = tracker.generate_name(owner, self, kind, namespace, metadata.generate_name, uid)
            if drawn is None:
                return await self._create_once(kind, Key(namespace, ""), body)
            key = Key(namespace, drawn.name)
            try:
                return await self._create_once(kind, key, decoding.with_name(body, drawn.name))
            except (ServerError, TransportError):
                raise
            except KcrError as error:
                # Refused, or not sent at all.
                is_taken = isinstance(error, AlreadyExistsError)
                if drawn.may_exist:
                    # The earlier create may have been executed, and may have used up the quota itself.
                    tracker.unanswered(owner, self, kind, key)
                    if (found := await self._find_generated(kind, key, uid)) is not None:
                        tracker.wrote(owner, self, kind, key, found)
                        return found
                    if not is_taken:
                        raise
                tracker.refused(owner, self, kind, key)
                if not is_taken or not draws_left:
                    raise
        raise AssertionError("the last draw returns or raises")

    async def _find_generated(self, kind: type[R], key: Key, controller_uid: str) -> R | None:
        """Return the object of an earlier create that had no answer, if the API server has executed it."""
        try:
            found = decoding.read_object(kind, await self.request("GET", object_path(kind, key)), key.name)
        except NotFoundError:
            return None
        is_ours = _controller_uid(found.metadata) == controller_uid
        return found if is_ours and found.metadata.deletion_timestamp is None else None

    async def _create_once(self, kind: type[R], key: Key, body: bytes) -> R:
        namespace, path = key.namespace, kind.resource.path(key.namespace)
        try:
            return (await self._written(kind, key, self._write("POST", path, body), before="0"))[0]
        except ApiError as error:
            if error.code not in (404, 405) or namespace or not kind.resource.namespaced:
                raise
            # Objects of all namespaces are listed there, and none is created.
            named = f"{kind.resource.kind} {key.name}".strip()
            said = f"{named} has no namespace: give it one, as in its metadata.namespace"
            raise error_for(error.code, error.reason, said) from error

    async def _written(
        self, kind: type[R], key: Key, answer: Awaitable[bytes], subresource: str = "", before: str = ""
    ) -> tuple[R, bytes]:
        """Return the object in the answer to a write, and the answer; report it to the running reconcile's tracker.

        Where the version before is known, another version in the answer is this write's.
        """
        try:
            body = await answer
            obj = decoding.read_object(kind, body, key.name)
        except BaseException as error:
            report_failure(self, kind, key, error)
            if subresource:
                await check_subresource(self, kind.resource, key, subresource, error)
            raise
        report_wrote(self, kind, key, obj, is_new=before not in ("", obj.metadata.resource_version))
        return obj, body

    async def update(self, obj: U, *, subresource: str = "") -> U:
        """Replace an object by another version of it, and return it as the server stored it.

        Args:
            obj: The whole object. When it has a resourceVersion, that is the precondition.
            subresource: For example `status`.

        Raises:
            TypeError: The object is of a type that knows a part of the fields: a PUT would delete the others.
            ConflictError: The object has changed since it was read.
        """
        if not isinstance(obj, Resource):
            check_of_call(Writes.update)((self, obj), {})
        if not isinstance(obj, FullResource):
            raise TypeError(
                f"update: {type(obj).__name__} has only the fields that it models, and a PUT would delete all "
                "others; use patch(old, new), or a type with all fields, such as those of kcr.api.full or "
                "kcr.unstructured(…)"
            )
        return await self._update(type(obj), obj.key, codec.encode(obj), subresource)

    @checked_on_failure
    async def update_manifest(self, kind: type[R], manifest: Mapping[str, object], *, subresource: str = "") -> R:
        """Replace an object by a plain mapping, which must be whole; see `update`."""
        return await self._update(kind, _key_of(manifest), _whole(kind, manifest), subresource)

    async def _update(self, kind: type[R], key: Key, body: bytes, subresource: str) -> R:
        path = object_path(kind, key, subresource)
        return (await self._written(kind, key, self._write("PUT", path, body), subresource))[0]

    @checked_on_failure
    async def apply(self, obj: W, *, field_owner: str = "", force: bool = False, subresource: str = "") -> W:
        """Server-side apply: set and own the fields of an object; create it if it does not exist.

        Fields that this owner applied before and that are absent now are removed, so always apply all the fields that
        you own, and build the object again instead of changing one that was read. Fields that the type does not model,
        and those of other owners, stay as they are. A typed object says everything but None and emptiness, also a
        value that equals its default; to say less, use `apply_manifest`.

        Fields that this owner created or updated before it began to apply are taken over by the first apply that has
        one of them, and removed likewise; finalizers are not.

            site = ConfigMap(metadata=ObjectMeta(name="site", namespace="default"), data={"index.html": page})
            site = await client.apply(site, field_owner="website", force=True)

        A controller that is the only one to have an opinion on its fields forces; a person rather reads the conflict.

        Args:
            obj: The fields to own; as with `create` it may be a model. Where it has a uid or
                resourceVersion, the object has to have it as well.
            field_owner: The field manager that owns them; empty for the client's.
            force: Whether to take over fields that others own.
            subresource: For example `status`, whose fields are owned apart from those of the object.

        Returns:
            The object as the server stored it, with the fields of all owners.

        Raises:
            ConflictError: Another owner has set a field to something else; `causes` name owners and fields.
            InvalidError: The server refuses the object; `causes` name the fields.
            TypeError: The object is of a type that has some of the kind's fields only.
        """
        if not isinstance(obj, Resource):
            return await self._of_models(self.apply, obj, field_owner=field_owner, force=force, subresource=subresource)
        _refuse_view(obj, "apply")
        options = (field_owner or self._options.field_manager, force, subresource)
        return await self._apply(type(obj), obj.key, codec.encode(obj), options)

    @checked_on_failure
    async def apply_manifest(
        self,
        kind: type[R],
        manifest: Mapping[str, object],
        *,
        field_owner: str = "",
        force: bool = False,
        subresource: str = "",
    ) -> R:
        """Apply a plain mapping, which says no more than it holds; see `apply`.

        Args:
            kind: The type of the returned object.
            manifest: The fields to own, with metadata.name; apiVersion and kind are added.
            field_owner: The field manager that owns them; empty for the client's.
            force: Whether to take over fields that others own.
            subresource: For example `status`.
        """
        options = (field_owner or self._options.field_manager, force, subresource)
        return await self._apply(kind, _key_of(manifest), _whole(kind, manifest), options)

    async def _apply(self, kind: type[R], key: Key, body: bytes, options: tuple[str, bool, str]) -> R:
        """Apply an object, and take over the fields that its manager updated before it began to apply.

        The first answer shows these fields. Then a JSON patch moves them to what the manager has applied, on condition
        of the answer's resourceVersion, and the second apply removes those that the object does not have. Each step
        may be the last one of a process: the answer to the next apply shows what is left to do.
        """
        manager, force, subresource = options
        if not isinstance(force, bool):
            refuse(f"apply: force is {shown(force)}: give it True or False")
        query = self._options.query(field_manager=manager, force=force)
        path, lost = object_path(kind, key, subresource), None
        for tries_left in reversed(range(_TAKE_OVERS + 1)):
            answer = self._write("PATCH", path, body, APPLY_PATCH, query)
            applied, stored = await self._written(kind, key, answer, subresource)
            operations = [] if subresource or self.is_dry_run else _take_over(stored, manager)
            if not operations:
                return applied
            if tries_left:
                try:
                    taken_over = await self.json_patch(kind, key, operations)
                    body, lost = decoding.with_version(body, taken_over.metadata.resource_version), None
                except (ConflictError, NotFoundError) as error:
                    # Another client was faster: the next answer shows the newer version.
                    lost = error
        if lost is not None:
            raise lost
        return applied

    @checked_on_failure
    async def patch(self, old: W, new: W) -> W:
        """Write the difference between two versions as a merge patch; send nothing when they are equal.

        One that changed nothing, because it lacks defaults, is not sent again. Of a kind with the subresource `status`
        the server leaves the status as it is: that is `patch_status`.

        Args:
            old: The version that `new` was made from, also a model, as with `create`. Its resourceVersion is the
                precondition.
            new: The wanted version. Lists are replaced completely, so they must have no other writers.

        Raises:
            ConflictError: The object has changed since `old` was read.
        """
        _refuse_other("patch", old, new)
        if not isinstance(old, Resource) or not isinstance(new, Resource):
            return await self._of_models(self.patch, old, new)
        return await self._patch_difference(old, codec.difference(old, new), "")

    @checked_on_failure
    async def patch_status(self, old: W, new: W) -> W:
        """Write the difference between two versions of a status; send nothing when they are equal.

        ```python
        status = replace(website.status, ready=3, observed_generation=website.metadata.generation)
        website = await client.patch_status(website, replace(website, status=status))
        ```

        Args:
            old: The version that `new` was made from. Its resourceVersion is the precondition.
            new: The same object with another status. Lists, conditions too, are replaced whole.

        Returns:
            The object as it is then: the version that the next write starts from.

        Raises:
            ValueError: The two differ in something else, which a status write would drop silently.
            ConflictError: The object has changed since `old` was read.
            NotFoundError: The object does not exist any more.
            ApiError: Its kind has no subresource `status`; this is no NotFoundError.
        """
        _refuse_other("patch_status", old, new)
        if not isinstance(old, Resource) or not isinstance(new, Resource):
            return await self._of_models(self.patch_status, old, new)
        return await self._patch_difference(old, codec.difference(old, new), "status")

    async def _patch_difference(self, old: R, difference: dict[str, Any] | None, subresource: str) -> R:
        if not difference:
            return old
        await self._refuse_dropped(f"patch{subresource and '_status'}", old, old.key, difference, subresource)
        metadata = difference.setdefault("metadata", {})
        metadata["resourceVersion"] = old.metadata.resource_version
        key, body = old.key, codec.encode(difference)
        about, wanted = (old.resource, key, subresource, self._options.field_manager), hash(body)
        if self._without_effect.get(about) == wanted:
            return old
        patched = await self._patch(type(old), key, body, subresource, MERGE_PATCH, old.metadata.resource_version)
        if self.is_dry_run or patched.metadata.resource_version != old.metadata.resource_version:
            return patched
        # It lacks defaults of the server, such as those of a pod template, and would be sent in each reconcile.
        if len(self._without_effect) >= _REMEMBERED:
            self._without_effect.clear()
        self._without_effect[about] = wanted
        return old

    @checked_on_failure
    async def merge_patch(self, kind: type[R], key: Key, patch: Mapping[str, object], *, subresource: str = "") -> R:
        """Apply a JSON merge patch, and return the object as it is then; a status needs `subresource="status"`.

        Source: RFC 7396.
        """
        await self._refuse_dropped("merge_patch", kind, key, patch.keys() - {"metadata"}, subresource)
        return await self._patch(kind, key, codec.encode(patch), subresource, MERGE_PATCH)

    @checked_on_failure
    async def strategic_patch(
        self, kind: type[R], key: Key, patch: Mapping[str, object], *, subresource: str = ""
    ) -> R:
        """Apply a strategic merge patch, which merges lists by their keys. Built-in kinds only."""
        await self._refuse_dropped("strategic_patch", kind, key, patch.keys() - {"metadata"}, subresource)
        return await self._patch(kind, key, codec.encode(patch), subresource, STRATEGIC_PATCH)

    @checked_on_failure
    async def json_patch(
        self, kind: type[R], key: Key, operations: Sequence[Mapping[str, object]], *, subresource: str = ""
    ) -> R:
        """Apply the operations of a JSON patch, all or none, and return the object as it is then.

        A `test` operation on `/metadata/uid` or on the item of a list guards against changes in between.

        Raises:
            ConflictError: A `test` failed, or the patch has one and a path does not exist: the object has changed.
            InvalidError: A path does not exist, in a patch without a `test`; or the result is refused.

        Source: RFC 6902.
        """
        fields = _fields_of(operations) - {"metadata"}
        await self._refuse_dropped("json_patch", kind, key, fields, subresource)
        body = codec.encode(operations)
        try:
            return await self._patch(kind, key, body, subresource, JSON_PATCH)
        except InvalidError as error:
            tests = [str(one.get("path")) for one in operations if one.get("op") == "test"]
            if not tests or error.message != _PATCH_FAILED:
                raise
            why = f"it has changed: the patch tests {', '.join(tests)}"
            raise ConflictError(409, "Conflict", f"{kind.resource.display} {key}: {why}") from error

    async def _refuse_dropped(
        self, call: str, kind: type[Resource] | Resource, key: Key, fields: Collection[str], subresource: str
    ) -> None:
        """Raise ValueError for fields that the server would drop silently: a status, or beside a status all others."""
        dropped, remedy = "", "patch(old, new), and the status from what that returns"
        if subresource == "status":
            dropped = " and ".join(sorted({*fields} - {"status", "apiVersion", "kind"}))
        elif "status" in fields and not subresource and await serves(self, kind.resource, "status"):
            dropped, remedy = "status", "patch_status(old, new), or subresource='status'"
        if dropped:
            what = f"{kind.resource.display} {key}: the server would drop {dropped}"
            raise ValueError(f"{call}: {what}: write it with {remedy}")

    async def _patch(
        self, kind: type[R], key: Key, body: bytes, subresource: str, content_type: str, before: str = ""
    ) -> R:
        answer = self._write("PATCH", object_path(kind, key, subresource), body, content_type)
        return (await self._written(kind, key, answer, subresource, before))[0]

    @checked_on_failure
    async def delete(
        self,
        kind: type[Resource] | Resource,
        key: Key | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period_seconds: Count | None = None,
    ) -> None:
        """Delete an object; finalizers and the grace period may keep it for a while.

        `delete(pod)` deletes the object that was read; `delete(Pod, key)` deletes whichever has this name by now.

        Args:
            kind: The object, or its type.
            key: Its namespace and name, where a type is given.
            uid: When given, an object of the same name that was made later is left alone. An object has its own.
            resource_version: When given, an object that has changed since is left alone.
            propagation: `Background`, `Foreground` or `Orphan`; empty for the kind's own default.
            grace_period_seconds: None for the object's own.

        Raises:
            NotFoundError: It does not exist any more.
            ConflictError: The object of this name has another uid or resourceVersion.
        """
        if isinstance(kind, Resource) and key is None:
            key, uid, kind = kind.key, uid or kind.metadata.uid, type(kind)
        if isinstance(kind, Resource) or key is None:
            refuse("Client.delete: give it an object alone, or its type and its key: delete(pod), or delete(Pod, key)")
        options = delete_options(
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period_seconds=grace_period_seconds,
            dry_run=self._options.dry_run,
        )
        path = object_path(kind, key)
        try:
            decoding.check_answer(kind, await self.request("DELETE", path, codec.encode(options)))
        except BaseException as error:
            report_failure(self, kind, key, error)
            raise
        report_deleted(self, kind, key)


def _fields_of(operations: Sequence[Mapping[str, object]]) -> set[str]:
    """Return the fields of an object that the operations of a JSON patch write.

    Raises:
        ValueError: One of them is none; the server's answer would not name it.
    """
    fields = set[str]()
    for number, one in enumerate(operations):
        operation, path = one.get("op"), str(one.get("path"))
        if _OPERATIONS.get(str(operation), "") not in one or path[:1] not in ("", "/"):
            remedy = "give it op, a path that begins with /, and a value or from"
            raise ValueError(f"json_patch: operations[{number}] is {shown(one)}: {remedy}")
        if operation != "test":
            fields.update(path.split("/")[1:2])
    return fields


def _refuse_other(name: str, old: object, new: object) -> None:
    if type(new) is not type(old) or not hasattr(new, "metadata"):
        refuse(f"{name}: old is {shown(old)}, and new {shown(new)}: give it two versions of one object")


def _refuse_view(obj: Resource, verb: str) -> None:
    """Refuse an object that has no place for some fields of its kind: they would be missing."""
    if not isinstance(obj, ResourceView):
        return
    kind, shown = obj.resource, f"{obj.resource.kind} {obj.key}"
    if isinstance(obj, PartialObjectMetadata):
        raise TypeError(f"{verb}: {shown} is metadata only; {verb} the whole object")
    module = f"kcr.api.full.{kind.group.partition('.')[0] or 'core'}_{kind.version}"
    raise TypeError(
        f"{verb}: {type(obj).__module__}.{type(obj).__name__} has some fields of its kind only, and the others of "
        f"{shown} would be missing; use {module}.{kind.kind}, or {verb}_manifest with a mapping"
    )


def _take_over(answer: bytes, manager: str) -> list[dict[str, object]]:
    """Return the JSON patch by which a manager takes over what it updated before it applied; empty for nothing."""
    if b'"Update"' not in answer:
        return []
    try:
        metadata = codec.decode(ManagedObject, answer).metadata
    except msgspec.DecodeError:
        return []
    entries = with_updates_applied(metadata.managed_fields, manager)
    if entries is None:
        return []
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
    ]


def _whole(kind: type[Resource], manifest: Mapping[str, object]) -> bytes:
    return codec.encode({"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **manifest})


def _key_of(manifest: Mapping[str, object]) -> Key:
    """Return the namespace and name that a manifest states.

    Raises:
        ValueError: It states no name.
    """
    metadata = manifest.get("metadata")
    found = metadata if isinstance(metadata, Mapping) else {}
    if not found.get("name"):
        raise ValueError("the manifest has no metadata.name")
    return Key(str(found.get("namespace") or ""), str(found["name"]))


def _controller_uid(metadata: ObjectMeta) -> str:
    controller = controller_of(metadata)
    return "" if controller is None else controller.uid
