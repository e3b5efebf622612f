"""What `kcr snapshot` reads of a live cluster: the objects of controllers, and those without which they cannot be held.

All requests are GET, a page at a time, one after the other and not more than five in a second. Beside what the
controllers watch and write these are the definitions of the kinds, the namespaces and priority classes, the children
that the cluster's own controllers make of the objects, such as the pods of a Deployment, and the owners of objects:
without them the garbage collector of the embedded cluster would delete what they own.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kcr.api.resources import ResourceType
from kcr.client import Client, RateLimit
from kcr.client.discovery import served_kinds
from kcr.client.wire.transport import target
from kcr.controller import Right
from kcr.errors import ApiError, ConfigError, ForbiddenError, GoneError, NotFoundError
from kcr.manager import Manager
from kcr_devcluster.apiserver.kinds.catalogue import (
    ALL_KINDS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
)
from kcr_devcluster.rehearsal.hiding import DataHider
from kcr_devcluster.rehearsal.snapshot_file import SnapshotKind

_PAGE = 250
_PER_SECOND = 5.0
_ATTEMPTS = 3
_DEEPEST = 8
# The children that the cluster's own controllers make, by the kind of their owner.
_CHILDREN = (("cronjobs", "jobs"), ("deployments", "replicasets"), *(
    (owner, "pods") for owner in ("jobs", "replicasets", "replicationcontrollers", "statefulsets", "daemonsets")
))  # fmt: skip
_NOT_READ = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
_READS = frozenset({"list", "watch"})
_BUILT_IN: Mapping[str, ResourceType] = {kind.type.display: kind.type for kind in ALL_KINDS}
_BY_KIND: Mapping[tuple[str, str], ResourceType] = {(one.group, one.kind): one for one in _BUILT_IN.values()}

Objects = list[dict[str, Any]]


class Query(NamedTuple):
    """A part of a kind's objects; everything for a query without a limit."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Wanted(NamedTuple):
    """What controllers need of a cluster.

    Attributes:
        queries: The parts of kinds that they watch or write, by the names of the kinds, such as `jobs.batch`.
        watched: The names of the kinds that they watch; without the others they can run.
        is_namespaced: Whether they work in some namespaces only.
    """

    queries: dict[str, set[Query]]
    watched: frozenset[str]
    is_namespaced: bool


def wanted_by(manager: Manager) -> Wanted:
    """Return what the controllers of a manager watch, and what they have declared rights on.

    Args:
        manager: One that never runs, such as `declared_by` returns.
    """
    queries: dict[str, set[Query]] = {}
    for selection in manager.selections:
        query = Query(selection.namespace, selection.labels, selection.fields)
        queries.setdefault(selection.kind.resource.display, set()).add(query)
    watched = frozenset(queries)
    namespaces = [one.strip() for one in manager.namespace.split(",")]
    for right in sorted(manager.rights):
        name = f"{right.resource}.{right.group}" if right.group else right.resource
        if name in watched or not _is_of_objects(right):
            continue
        fields = f"metadata.name={right.name}" if right.name else ""
        queries.setdefault(name, set()).update(Query(one, "", fields) for one in namespaces)
    kept = {name: parts for name, parts in queries.items() if name not in _NOT_READ}
    return Wanted(kept, watched, manager.namespace != "")


def _is_of_objects(right: Right) -> bool:
    is_plain = "/" not in right.resource and "*" not in (right.resource, right.group, right.verb)
    return is_plain and right.group not in _REVIEWS and right.verb not in _READS | {"impersonate"}


class Taken(NamedTuple):
    """What was read.

    Attributes:
        kinds: The kinds, with the number of objects.
        objects: The objects.
        left_out: What could not be read, in words.
    """

    kinds: tuple[SnapshotKind, ...]
    objects: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]


async def take(client: Client, wanted: Wanted, hider: DataHider) -> Taken:
    """Read what controllers need of a cluster.

    Args:
        client: Talks to its API server.
        wanted: The result of `wanted_by`.
        hider: Hides the data of Secrets and ConfigMaps.

    Raises:
        ApiError: A kind that the controllers watch cannot be read.
        ConfigError: A kind is neither built in nor defined in the cluster.
    """
    slow = Client(
        client.innermost_transport, limiter=RateLimit(_PER_SECOND, int(_PER_SECOND)), field_manager="snapshot"
    )
    return await _Taking(slow, hider).take(wanted)


class _Found:
    """The objects of a kind."""

    def __init__(self, resource: ResourceType) -> None:
        self.resource = resource
        self.is_whole = False
        self.objects: dict[str, dict[str, Any]] = {}


class _Taking:
    def __init__(self, client: Client, hider: DataHider) -> None:
        self._client, self._hider = client, hider
        self._found: dict[str, _Found] = {}
        self._left_out: list[str] = []

    async def take(self, wanted: Wanted) -> Taken:
        for name, queries in sorted(wanted.queries.items()):
            try:
                await self._read_all(name, queries)
            except (ConfigError, ForbiddenError, NotFoundError) as error:
                if name in wanted.watched:
                    raise
                self._leave_out(str(error))
        for owner, child in _CHILDREN:
            await self._read_children(owner, child)
        for _ in range(_DEEPEST):
            if not await self._read_owners():
                break
        await self._read_surroundings(wanted)
        found = [one for one in self._found.values() if one.objects or one.is_whole]
        kinds = tuple(
            SnapshotKind(
                one.resource.api_version, one.resource.kind, one.resource.plural, one.resource.namespaced,
                one.is_whole, len(one.objects),
            )
            for one in found
        )  # fmt: skip
        return Taken(kinds, tuple(obj for one in found for obj in one.objects.values()), tuple(self._left_out))

    async def _read_all(self, name: str, queries: Iterable[Query]) -> None:
        resource = await self._resource(name)
        for query in sorted(queries):
            await self._read(resource, query)
        self._found[name].is_whole = Query() in queries

    async def _resource(self, name: str) -> ResourceType:
        """Return where a kind is read; its definition is read as well, if it has one."""
        if name in self._found:
            return self._found[name].resource
        resource = _BUILT_IN.get(name) or await self._define(name)
        self._found[name] = _Found(resource)
        return resource

    async def _define(self, name: str) -> ResourceType:
        kind = CUSTOM_RESOURCE_DEFINITIONS.type
        try:
            body = await self._client.request("GET", kind.path(name=name))
        except NotFoundError:
            raise ConfigError(
                f"{name} is neither built in nor defined by a CustomResourceDefinition of the cluster: install it, or "
                "leave the controller out"
            ) from None
        definition: dict[str, Any] = msgspec.json.decode(body)
        self._keep(kind, [definition])
        spec = definition["spec"]
        served = sorted((one for one in spec["versions"] if one["served"]), key=lambda one: not one["storage"])
        if not served:
            raise ConfigError(f"{name}: no version is served: set served: true on one of them")
        names = spec["names"]
        namespaced = spec["scope"] == "Namespaced"
        return ResourceType(spec["group"], served[0]["name"], names["kind"], names["plural"], namespaced)

    async def _read(self, resource: ResourceType, query: Query, uids: frozenset[str] | None = None) -> None:
        """Read objects, all of a query or those with some uids."""
        for attempt in range(_ATTEMPTS):
            try:
                async for page in self._pages(resource, query):
                    self._keep(resource, page if uids is None else [one for one in page if _is_one_of(one, uids)])
                return
            except GoneError:
                # The version of the pages was compacted: the list took too long.
                if attempt == _ATTEMPTS - 1:
                    raise

    async def _pages(self, resource: ResourceType, query: Query) -> Any:
        path, token = resource.path(query.namespace), ""
        while True:
            given = {
                "limit": _PAGE, "continue": token, "labelSelector": query.labels, "fieldSelector": query.fields,
            }  # fmt: skip
            body = await self._client.request("GET", target(path, given))
            page = msgspec.json.decode(body)
            # Items of lists have neither.
            yield [{"apiVersion": resource.api_version, "kind": resource.kind, **one} for one in page["items"] or ()]
            token = page["metadata"].get("continue", "")
            if not token:
                return

    def _keep(self, resource: ResourceType, objects: Iterable[dict[str, Any]]) -> None:
        found = self._found.setdefault(resource.display, _Found(resource))
        for one in objects:
            found.objects[one["metadata"]["uid"]] = self._hider.hidden(one)

    async def _read_children(self, owner: str, child: str) -> None:
        """Read the children of kept objects that the cluster's own controllers have made."""
        parents = [one for one in self._found.values() if one.resource.plural == owner and _is_built_in(one.resource)]
        resource = next(one for one in _BUILT_IN.values() if one.plural == child)
        known = self._found.get(resource.display)
        uids = frozenset(uid for one in parents for uid in one.objects)
        if uids and not (known and known.is_whole):
            await self._read_if_allowed(resource, uids)

    async def _read_if_allowed(self, resource: ResourceType, uids: frozenset[str]) -> None:
        try:
            await self._read(resource, Query(), uids)
        except ForbiddenError:
            self._leave_out(f"{resource.display}: their list in all namespaces is forbidden")

    def _leave_out(self, words: str) -> None:
        if words not in self._left_out:
            self._left_out.append(words)

    async def _read_owners(self) -> bool:
        """Read the owners of kept objects that are missing; return whether there were some."""
        present = {uid for one in self._found.values() for uid in one.objects}
        missing: dict[tuple[str, str], set[str]] = {}
        for one in tuple(self._found.values()):
            for obj in one.objects.values():
                for reference in obj["metadata"].get("ownerReferences") or ():
                    if reference["uid"] not in present:
                        missing.setdefault((reference["apiVersion"], reference["kind"]), set()).add(reference["uid"])
        for (api_version, kind), uids in sorted(missing.items()):
            resource = await self._owner_kind(api_version, kind)
            if resource is not None and not self._found[resource.display].is_whole:
                await self._read_if_allowed(resource, frozenset(uids))
        return not {uid for one in self._found.values() for uid in one.objects} <= present

    async def _owner_kind(self, api_version: str, kind: str) -> ResourceType | None:
        group = api_version.rpartition("/")[0]
        resource = _BY_KIND.get((group, kind))
        if resource == NODES.type:
            return None
        try:
            if resource is None:
                resource = (await served_kinds(self._client, api_version)).get(kind)
            if resource is not None:
                return await self._resource(resource.display)
        except (ForbiddenError, NotFoundError, ConfigError):
            pass
        self._leave_out(f"{kind} of {api_version}, which owns objects: its definition cannot be read")
        return None

    async def _read_surroundings(self, wanted: Wanted) -> None:
        """Read the namespaces, and the classes that pods name."""
        names = {obj["metadata"].get("namespace", "") for one in self._found.values() for obj in one.objects.values()}
        try:
            await self._read(NAMESPACES.type, Query())
        except ForbiddenError:
            if not wanted.is_namespaced:
                raise
            for name in sorted(names - {""}):
                body = await self._client.request("GET", NAMESPACES.type.path(name=name))
                self._keep(NAMESPACES.type, [msgspec.json.decode(body)])
        await self._optional(PRIORITY_CLASSES.type)

    async def _optional(self, resource: ResourceType) -> None:
        try:
            await self._read(resource, Query())
        except ApiError as error:
            self._leave_out(f"{resource.display}: {error.message}")


def _is_built_in(resource: ResourceType) -> bool:
    return _BUILT_IN.get(resource.display) == resource


def _is_one_of(manifest: Mapping[str, Any], uids: frozenset[str]) -> bool:
    metadata = manifest["metadata"]
    owners = {one["uid"] for one in metadata.get("ownerReferences") or ()}
    return metadata["uid"] in uids or not owners.isdisjoint(uids)


def counted(kinds: Iterable[SnapshotKind]) -> Iterator[str]:
    """Yield the numbers of objects in words, such as `12 jobs.batch` and `1 secret`."""
    for one in kinds:
        named = one.resource if one.count != 1 else one.resource._replace(plural=one.kind.lower())
        yield f"{one.count:,} {named.display}"
