"""What holds of every response, and of what the server has at checkpoints."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from random import Random
from time import process_time
from typing import Any

import msgspec

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.apply import fieldpath, managed_fields
from kcr_devcluster.apiserver.apply.typed import all_paths
from kcr_devcluster.apiserver.kinds.access.reviews import REVIEW_KINDS
from kcr_devcluster.apiserver.kinds.catalogue import CUSTOM_RESOURCE_DEFINITIONS, KINDS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.views.legacy import LEGACY_KINDS
from kcr_devcluster.apiserver.protocol.responses import APIResponse
from kcr_devcluster.apiserver.schema import protobuf
from kcr_devcluster.apiserver.schema.shape import Field
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.testing.loop import VirtualClock
from tests.chaos.requests.grammar import APPLY, BUILTIN
from tests.chaos.requests.refusals import explains
from tests.chaos.requests.replicas import Replica, ViolationError, items_of
from tests.kit.custom_resources import DEFINITIONS, Json
from tests.kit.field_owners import without_maps

# Faults of the server that the real one has as well: code, pattern of the message, and the rule of the specification.
FAULTS: tuple[tuple[int, str, str], ...] = (
    (500, "resourceVersion should not be set on objects to be created", "api-server 8.2"),
    (500, r'(resourceVersion: Invalid value: ".*": )?strconv.ParseUint: parsing ', "api-server 9.3, 18.2"),
    (500, "Internal error occurred: Object 'apiVersion' is missing in", "recorded: a merge patch without it"),
    (500, "map: .* does not contain declared merge key", "api-server 10.5"),
    (500, "unknown patch type: ", "api-server 10.5"),
    (500, "The order in patch list:", "api-server 10.5, strategicpatch/patch.go"),
    (500, "list element types are not identical: ", "api-server 10.5, strategicpatch/patch.go"),
    (500, "expected a .*, but received a ", "recorded: the order of a list as text"),
    (500, "value for key .* is not a map", "recorded: the order of a list of texts"),
    (500, "unable to find api field in struct ", "recorded: the order of an unknown list"),
    (500, "invalid key: ", "recorded: the namespace .."),
    (500, "content is not a list", "recorded: a custom resource as the metadata of a list"),
    (500, "failed to create typed patch object", "api-server 11.1"),
    (500, "failed to convert new object", "recorded: an applied value of the wrong type"),
    (500, "Internal error occurred: the spec replicas field .* does not exist", "api-server 21.5"),
    (500, "etcdserver: request is too large", "etcd: --max-request-bytes"),
    (500, "rpc error: code = ResourceExhausted desc = trying to send message larger", "recorded: B27 of its bodies"),
    (500, "resource name may not be empty", "recorded: a pod whose runtimeClassName is empty"),
    # Several errors are one text in brackets (utilerrors.Aggregate).
    (500, r"\[?target\.(kind|name): ", "recorded: a Binding whose target is no node"),
    (504, "Timeout: ", "api-server 17.2"),
)
_REASONS = {
    400: ("BadRequest",), 403: ("Forbidden",), 404: ("NotFound",), 405: ("MethodNotAllowed",),
    406: ("NotAcceptable",), 409: ("Conflict", "AlreadyExists"), 410: ("Expired",), 413: ("RequestEntityTooLarge",),
    415: ("UnsupportedMediaType",), 422: ("Invalid",), 500: ("", "InternalError"), 504: ("Timeout",),
}  # fmt: skip
# A response takes this long at most, however busy the machine is.
_PATIENCE_SECONDS = 5.0
_PAGE = 2


class Invariants:
    """One server, to which requests are sent, and what was seen of it."""

    def __init__(self, seed: int, kinds: Sequence[Kind] = KINDS, collections: Sequence[str] = BUILTIN) -> None:
        """Start a server.

        Args:
            seed: Of names and uids.
            kinds: The kinds that it serves.
            collections: Of which built-in kinds the objects are checked.
        """
        self._kinds, self._collections = kinds, collections
        self._storage = Storage()
        self.server = APIServer(self._storage, clock=VirtualClock(), random=Random(seed), kinds=kinds)
        self._replicas: dict[str, Replica] = {}
        # Of the definitions that were there at the last checkpoint: their uids, and the uids of their objects.
        self._definitions: dict[str, tuple[str, frozenset[str]]] = {}

    async def send(self, request: HTTPRequest) -> None:
        """Send a request, and check the response and what it leaves.

        Raises:
            ViolationError: An invariant does not hold.
        """
        before = self._storage.revision
        response, body = await self._respond(request)
        self._check_status(response, body)
        unchanged = request.method == "GET" or response.status >= 400 or _is_dry_run(request)
        # A collection is deleted object by object, and an eviction first marks the pod.
        if unchanged and not _is_partial(request):
            _hold(self._storage.revision == before, "what changes nothing stores nothing", response.status)
        _hold(self._storage.revision >= before, "versions grow", before)
        if self._storage.revision > before and request.method != "DELETE":
            await self._check_written(request, response, body)

    async def _respond(self, request: HTTPRequest) -> tuple[APIResponse, bytes]:
        began = process_time()
        try:
            async with asyncio.timeout(7_200):
                response = await self.server.handle(request)
                body = response.body if isinstance(response.body, bytes) else await _read_stream(response)
        except Exception as error:
            raise ViolationError("no exception", repr(error)) from error
        _hold(process_time() - began < _PATIENCE_SECONDS, "responses come at once", process_time() - began)
        return response, body

    def _check_status(self, response: APIResponse, body: bytes) -> None:
        code = response.status
        # Answers to HEAD, and of documents, have no body.
        if code < 400 or not body:
            return
        if response.headers["Content-Type"].startswith("text/plain"):
            _hold(code in (400, 404, 500), "errors are Statuses", (code, body))
            return
        status = _decoded(response, body)
        fine = isinstance(status, dict) and status.get("kind") == "Status" and status.get("apiVersion") == "v1"
        _hold(fine and status["status"] == "Failure" and status["code"] == code, "errors are Statuses", status)
        _hold(bool(status["message"]), "errors say why", status)
        _hold(status.get("reason", "") in _REASONS.get(code, ()), "errors have the reason of their code", status)
        for cause in status.get("details", {}).get("causes", ()):
            _hold(all(isinstance(value, str) for value in cause.values()), "causes are text", status)
        if code >= 500:
            known = any(code == one and re.match(words, status["message"], re.DOTALL) for one, words, _ in FAULTS)
            _hold(known, "no fault of the server but those of the real one", status)
        told = any(words in body for words in (b"Expected `", b" - at `$", b"object has no attribute"))
        _hold(not told, "messages are not those of libraries", status)

    async def _check_written(self, request: HTTPRequest, response: APIResponse, body: bytes) -> None:
        path = request.target.partition("?")[0].removesuffix("/")
        shown = _decoded(response, body)
        if isinstance(shown, dict) and "resourceVersion" in (shown.get("metadata") or {}):
            _hold(
                int(shown["metadata"]["resourceVersion"] or 0) <= self._storage.revision,
                "versions are given out",
                shown,
            )
        if request.method == "POST" and isinstance(shown, dict) and (shown.get("metadata") or {}).get("name"):
            path = f"{path}/{shown['metadata']['name']}"
        stored = await self._get(path.removesuffix("/status").removesuffix("/scale"))
        if stored is None:
            return
        self._check_owners(stored)
        # UTF-16 is YAML as well.
        precondition = (
            b"resourceVersion" in request.body.replace(b"\0", b"") or "deletionTimestamp" in stored["metadata"]
        )
        if request.headers.get("Content-Type") == APPLY and not precondition:
            await self._apply_again(request, stored)

    def _check_owners(self, obj: Json) -> None:
        entries = obj["metadata"].get("managedFields", [])
        try:
            managed = managed_fields.decode(entries)
        except ValueError as error:
            raise ViolationError("managedFields are valid", f"{error}: {entries}") from error
        _hold(len(managed) == len(entries), "managers are distinct", entries)
        kind = self._kind(obj)
        if kind is None:
            return
        there = all_paths(Field(kind.shape.type), obj)
        for entry in managed.values():
            _hold(bool(entry.fields), "managers own something", entries)
            # Who applies also owns what is not stored: zeros, empty maps. Who updates owns maps that others empty.
            if entry.operation == managed_fields.UPDATE and entry.api_version == obj["apiVersion"]:
                absent = without_maps(kind, fieldpath.paths(fieldpath.difference(entry.fields, there)))
                _hold(not absent or self._is_redefined(kind), "managers own what is there", (absent, obj))

    def _is_redefined(self, kind: Kind) -> bool:
        """Return whether a kind's definition was changed: what that prunes is owned for ever, as on a real server."""
        found = self._storage.get(CUSTOM_RESOURCE_DEFINITIONS, "", f"{kind.type.plural}.{kind.type.group}")
        return found is not None and (found.manifest()["metadata"].get("generation") or 0) > 1

    def _kind(self, obj: Json) -> Kind | None:
        kinds = (*self._kinds, *(kind for kinds in self.server.definitions.served for kind in kinds))
        said = obj["apiVersion"], obj["kind"]
        return next((kind for kind in kinds if (kind.type.api_version, kind.type.kind) == said), None)

    def _schema(self, obj: Json) -> Mapping[str, Any]:
        kind = self._kind(obj)
        return (kind and kind.openapi_schema) or {}

    async def _apply_again(self, request: HTTPRequest, stored: Json) -> None:
        if stored["kind"] == "CustomResourceDefinition":
            if "/status" in request.target:
                # Its conditions are those that the server finds each time, as upstream's controllers do.
                return
            # What its status became by the first one, the second one shows.
            await self._respond(request)
        if stored["kind"] == "Node":
            # Admission adds a taint to a new node, which is no part of the list that was applied.
            await self._respond(request)
        before = self._storage.revision
        response, body = await self._respond(request)
        kind = self._kind(stored)
        is_view = kind is not None and kind.conversion is not None
        if is_view and response.status == 422 and explains(self._schema(stored), stored, _causes(body)):
            # It is stored in another version, with that one's defaults and without fields that that one lacks.
            return
        _hold(response.status == 200, "an apply is applied again", (response.status, body))
        _hold(self._storage.revision == before, "an apply repeated changes nothing", (stored, body))

    async def _get(self, path: str) -> Any:
        response, body = await self._respond(HTTPRequest("GET", path))
        return msgspec.json.decode(body) if response.status == 200 else None

    async def check(self) -> None:
        """Check all that the server has.

        Raises:
            ViolationError: An invariant does not hold.
        """
        paths = await self._check_discovery()
        for path in dict.fromkeys((*_cluster_wide(self._collections), DEFINITIONS, *paths)):
            listed = await self._get(path)
            _hold(listed is not None, "what is discovered is listed", path)
            await self._check_list(path, listed)
            for position, query in enumerate(("?", "?labelSelector=app%3Dx&", "?fieldSelector=metadata.name!%3Da&")):
                replica = self._replicas.setdefault(path + query, Replica(path + query, live=position == 0))
                await replica.check(self.server)
            past = self._replicas.setdefault(f"{path} again", Replica(path + "?", live=False))
            await past.check(self.server)
        await self._check_definitions()
        await asyncio.sleep(70)

    async def _check_list(self, path: str, listed: Json) -> None:
        items = items_of(listed)
        _hold([*items] == sorted(items), "lists are sorted", [*items])
        _hold(len(items) == len(listed["items"]), "names are distinct", [*items])
        newest = int(listed["metadata"]["resourceVersion"])
        for one in items.values():
            _hold(int(one["metadata"]["resourceVersion"]) <= newest, "no object is newer than its list", one)
        paged: list[Json] = []
        token = ""
        while True:
            page = await self._get(f"{path}?limit={_PAGE}&continue={token}")
            paged += page["items"]
            if not (token := page["metadata"].get("continue", "")):
                break
        _hold(paged == listed["items"], "pages are the list", path)
        for form in ("Table", "PartialObjectMetadataList"):
            accept = f"application/json;as={form};v=v1;g=meta.k8s.io"
            response, body = await self._respond(HTTPRequest("GET", path, {"Accept": accept}))
            _hold(response.status == 200, "every list has all forms", body)
            shown = msgspec.json.decode(body)
            named = [row["object"] for row in shown["rows"] or ()] if form == "Table" else shown["items"]
            _hold([one["metadata"]["name"] for one in named] == [key[1] for key in items], "forms agree", path)
            for row in shown.get("rows") or ():
                _hold(len(row["cells"]) == len(shown["columnDefinitions"]), "rows have all columns", shown)
        for (namespace, name), item in items.items():
            await self._check_object(_object_path(path, namespace, name), item)

    async def _check_object(self, path: str, item: Json) -> None:
        shown = await self._get(path)
        _hold(shown is not None and item.items() <= shown.items(), "a list shows the objects", (item, shown))
        if "deletionTimestamp" in shown["metadata"] and not shown["metadata"].get("finalizers"):
            return
        if shown["kind"] == "CustomResourceDefinition" and not _has_own_status(shown):
            return
        self._check_owners_exist(shown)
        before = self._storage.revision
        response, body = await self._respond(HTTPRequest("PUT", path, {}, msgspec.json.encode(shown)))
        kind = self._kind(shown)
        if response.status == 422 and explains(self._schema(shown), shown, _causes(body)):
            return
        _hold(response.status == 200, "what was read can be written", (shown, body))
        if kind is not None and kind.conversion is not None and self._storage.revision > before:
            # Of what one version's defaults make, another version may have more defaults.
            shown, before = msgspec.json.decode(body), self._storage.revision
            response, body = await self._respond(HTTPRequest("PUT", path, {}, body))
        _hold(msgspec.json.decode(body) == shown, "what was read is written as it is", (shown, body))
        _hold(self._storage.revision == before, "writing what was read changes nothing", (shown, body))

    def _check_owners_exist(self, obj: Json) -> None:
        """Check that managers are valid; what a definition's change pruned they own until the next write."""
        entries = obj["metadata"].get("managedFields", [])
        _hold(len(managed_fields.decode(entries)) == len(entries), "managers are distinct", entries)

    async def _check_definitions(self) -> None:
        """Check that no object outlives its definition, and remember what there is."""
        found: dict[str, tuple[str, frozenset[str]]] = {}
        for crd in (await self._get(DEFINITIONS))["items"]:
            plural, uid, uids = crd["spec"]["names"]["plural"], crd["metadata"]["uid"], frozenset[str]()
            for version in crd["spec"]["versions"]:
                listed = await self._get(f"/apis/{crd['spec']['group']}/{version['name']}/{plural}")
                uids |= {one["metadata"]["uid"] for one in (listed or {"items": ()})["items"]}
            had, owned = self._definitions.get(plural, ("", frozenset[str]()))
            _hold(had == uid or not owned & uids, "no object outlives its definition", (plural, owned & uids))
            found[plural] = uid, uids
        self._definitions |= found

    async def _check_discovery(self) -> list[str]:
        """Check that discovery says what the definitions say; return the paths of the collections."""
        promised: dict[str, Json] = {}
        for crd in (await self._get(DEFINITIONS))["items"]:
            conditions = {one["type"]: one["status"] for one in crd["status"].get("conditions") or ()}
            for version in crd["spec"]["versions"]:
                path = f"/apis/{crd['spec']['group']}/{version['name']}/{crd['spec']['names']['plural']}"
                if version.get("served") and conditions.get("Established") == "True":
                    promised[path] = version
                else:
                    _hold(await self._get(path) is None, "what is not served is not listed", path)
        legacy = await self._legacy_paths()
        _hold(legacy == set(promised), "discovery is of the definitions", (legacy, set(promised)))
        _hold(await self._aggregated_paths() == legacy, "both forms of discovery agree", legacy)
        for group_version in {path.rpartition("/")[0] for path in promised}:
            document = await self._get(f"/openapi/v3{group_version}")
            described = {path.split("/")[-2] for path in document["paths"]} if document else set()
            served = {path.rpartition("/")[2] for path in promised if path.rpartition("/")[0] == group_version}
            missing = served - described
            _hold(not missing, "openapi has what is served", missing)
        return sorted(promised)

    async def _legacy_paths(self) -> set[str]:
        found = set()
        for group in (await self._get("/apis"))["groups"]:
            if group["name"] not in _BUILTIN_GROUPS:
                for version in group["versions"]:
                    listed = await self._get(f"/apis/{version['groupVersion']}")
                    names = {one["name"] for one in listed["resources"]}
                    found |= {f"/apis/{version['groupVersion']}/{name}" for name in names if "/" not in name}
        return found

    async def _aggregated_paths(self) -> set[str]:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        _, body = await self._respond(HTTPRequest("GET", "/apis", {"Accept": accept}))
        return {
            f"/apis/{group['metadata']['name']}/{version['version']}/{one['resource']}"
            for group in msgspec.json.decode(body)["items"]
            if group["metadata"]["name"] not in _BUILTIN_GROUPS
            for version in group["versions"]
            for one in version["resources"]
        }


_BUILTIN_GROUPS = {kind.type.group for kind in (*KINDS, *LEGACY_KINDS, *REVIEW_KINDS)}


def _hold(fine: bool, rule: str, what: object) -> None:
    if not fine:
        raise ViolationError(rule, str(what))


def _cluster_wide(paths: Sequence[str]) -> list[str]:
    return [path.replace("/namespaces/default/", "/") for path in paths]


def _object_path(collection: str, namespace: str, name: str) -> str:
    if not namespace:
        return f"{collection}/{name}"
    head, _, plural = collection.rpartition("/")
    return f"{head}/namespaces/{namespace}/{plural}/{name}"


def _has_own_status(crd: Json) -> bool:
    """Return whether a definition says of stored versions what the server does; clients may write otherwise."""
    stored, versions = crd["status"].get("storedVersions") or (), crd["spec"]["versions"]
    needed = {one["name"] for one in versions if one.get("storage")}
    return needed <= set(stored) <= {one["name"] for one in versions}


def _causes(refusal: bytes) -> list[Json] | None:
    causes: list[Json] | None = msgspec.json.decode(refusal).get("details", {}).get("causes")
    return causes


def _is_dry_run(request: HTTPRequest) -> bool:
    return "dryRun=All" in request.target


def _is_partial(request: HTTPRequest) -> bool:
    return request.method == "DELETE" or "/eviction" in request.target


def _decoded(response: APIResponse, body: bytes) -> Any:
    match response.headers["Content-Type"].partition(";")[0]:
        case "application/json":
            return msgspec.json.decode(body)
        case "application/yaml":
            return msgspec.yaml.decode(body)
        case "application/vnd.kubernetes.protobuf":
            return protobuf.decode(body)
    return None


async def _read_stream(response: APIResponse) -> bytes:
    """Return what a stream has at once."""
    found, stream = list[bytes](), response.body
    assert not isinstance(stream, bytes)
    try:
        async with asyncio.timeout(0.01):
            async for part in stream:
                found.append(part)
    except TimeoutError:
        pass
    await stream.aclose()
    lines = b"".join(found).splitlines() if response.headers["Content-Type"] == "application/json" else ()
    for line in lines:
        event: Mapping[str, Any] = msgspec.json.decode(line) if line.startswith(b"{") else {}
        _hold(event.get("type") != "ERROR" or event["object"]["kind"] == "Status", "errors are Statuses", line)
    return b"".join(found)
