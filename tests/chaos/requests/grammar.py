"""A grammar of requests: definitions, objects and reads, valid ones and broken ones, drawn for what the server has."""

from copy import deepcopy
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec
import yaml

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.chaos.requests.schemas import CUSTOM, GROUP, VERSIONS, SchemaDraw
from tests.kit.custom_resources import DEFINITIONS, Json
from tests.kit.drawn_objects import builtin_object
from tests.kit.invalid_requests import ACCEPTS, OBJECTS, STATUSES, RequestMutator

APPLY = "application/apply-patch+yaml"
_JSON_PATCH, _MERGE = "application/json-patch+json", "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
NAMES = ("a", "a", "b", "c")
MANAGERS = ("m1", "m2", "kubectl")
# Kinds without rules of their own: objects drawn from their types are stored as they are.
_DRAWN = {
    "/apis/apps/v1/namespaces/default/controllerrevisions": "apps.v1.ControllerRevision",
    "/apis/apps/v1/namespaces/default/deployments": "apps.v1.Deployment",
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses": "networking.v1.Ingress",
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": "networking.v1.NetworkPolicy",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "rbac.v1.ClusterRole",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": "discovery.v1.EndpointSlice",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": "policy.v1.PodDisruptionBudget",
}
BUILTIN = (*(path for path in OBJECTS if "beta" not in path and "alpha" not in path), *_DRAWN)
_LABELS: tuple[dict[str, str], ...] = ({"app": "x"}, {"app": "y", "z": ""}, {})
_SELECTORS = ("app=x", "app in (x,y),!z", "app!=x", "z", "((", "a>1", "app=x,,")
_FIELDS = ("metadata.name=a", "metadata.name!=a", "spec.color=a", "status.phase=Running", "metadata.namespace=default")
_DOCUMENTS = (
    "/api", "/apis", f"/apis/{GROUP}", *(f"/apis/{GROUP}/{name}" for name in VERSIONS), "/openapi/v2", "/openapi/v3",
    f"/openapi/v3/apis/{GROUP}/v1", "/openapi/v3/api/v1", "/version", "/readyz", "/apis/none/v1", "/api/v1",
)  # fmt: skip
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList,application/json"
_DOCUMENT_ACCEPTS = (
    "application/json", _AGGREGATED.format("v2"), _AGGREGATED.format("v2beta1"), "application/yaml",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf,application/json",
)  # fmt: skip


class RequestGrammar(RequestMutator):
    """Draws requests, each for what the server has at that moment."""

    def __init__(self, random: Random, server: APIServer) -> None:
        super().__init__(0)
        self._random = random
        self._server = server
        self._schemas = SchemaDraw(random)

    async def draw(self) -> HTTPRequest:
        """Return the next request."""
        draw = self._random
        match draw.choices(("definition", "object", "read", "odd"), (12, 58, 22, 8))[0]:
            case "definition":
                found = await self._definition_request()
            case "object":
                found = await self._object_request()
            case "read":
                found = await self._read_request()
            case _:
                return self.request()
        if draw.random() < 0.03:
            found = found._replace(body=self._garbled(found.body))
        if draw.random() < 0.03:
            path, mark, query = found.target.partition("?")
            found = found._replace(target=self._odd_path(path) + mark + query)
        if draw.random() < 0.06:
            found = found._replace(target=found.target.partition("?")[0] + self._query())
        return found

    async def _get(self, path: str) -> Any:
        """Return an object of the server, or None."""
        response = await self._server.handle(HTTPRequest("GET", path))
        return msgspec.json.decode(response.body) if response.status == 200 else None  # type: ignore[arg-type]

    # Definitions

    async def _definition_request(self) -> HTTPRequest:
        draw = self._random
        plural = draw.choice(tuple(CUSTOM))
        path = f"{DEFINITIONS}/{plural}.{GROUP}"
        current = await self._get(path)
        if current is None or draw.random() < 0.1:
            made = self._schemas.definition(plural)
            for _ in range(draw.choice((0, 0, 1, 2))):
                made = self._spoil(made)
            return self._create_or_apply(DEFINITIONS, path, made)
        match draw.choice(("change", "change", "change", "status", "delete", "finalizers", "apply")):
            case "change":
                return self._write(path, "PUT", self._changed_definition(plural, current))
            case "status":
                return self._write(f"{path}/status", "PUT", self._spoil(current))
            case "delete":
                return self._delete(path, current)
            case "finalizers":
                keep = draw.choice(([], ["a.b/c"], None))
                return self._write(path, "PATCH", {"metadata": {"finalizers": keep}}, _MERGE)
        return self._apply(path, self._schemas.definition(plural))

    def _changed_definition(self, plural: str, current: Json) -> Json:
        draw, spec = self._random, current["spec"]
        one = draw.choice(spec["versions"])
        match draw.choice(("schema", "field", "served", "storage", "drop", "add", "new", "spoil", "columns")):
            case "schema":
                one["schema"] = self._schemas.version("x", storage=True)["schema"]
            case "field":
                schema = (one.get("schema") or {}).get("openAPIV3Schema") or {}
                known = (schema.get("properties") or {}).get("spec", {}).setdefault("properties", {})
                name = draw.choice("abcd")
                known.pop(name, None)
                known[name] = self._schemas.schema(1)
            case "served":
                one["served"] = not one.get("served")
            case "storage":
                for other in spec["versions"]:
                    other["storage"] = other is one
            case "drop":
                spec["versions"].remove(one)
            case "add":
                spec["versions"].append(self._schemas.version(draw.choice(VERSIONS), storage=False))
            case "new":
                spec["versions"] = self._schemas.definition(plural)["spec"]["versions"]
            case "columns":
                one |= {name: v for name, v in self._schemas.version("x", storage=True).items() if name in (
                    "additionalPrinterColumns", "subresources", "selectableFields")}  # fmt: skip
            case _:
                current = self._spoil(current)
        return current

    # Objects

    async def _collection(self) -> tuple[str, Any]:
        """Return the path of a collection, and an object for it."""
        draw = self._random
        if draw.random() < 0.4:
            path = draw.choice(BUILTIN)
            if path in _DRAWN:
                drawn = builtin_object(_DRAWN[path], draw, depth=1)
                return path, {name: value for name, value in drawn.items() if name not in ("apiVersion", "kind")}
            return path, {**deepcopy(OBJECTS[path]), "status": deepcopy(STATUSES.get(path, {}))}
        defined = {name: await self._get(f"{DEFINITIONS}/{name}.{GROUP}") for name in CUSTOM}
        there = [name for name in CUSTOM if defined[name] is not None]
        plural = draw.choice(there if there and draw.random() < 0.95 else tuple(CUSTOM))
        kind, scope = CUSTOM[plural]
        definition = defined[plural] or self._schemas.definition(plural)
        versions = definition["spec"]["versions"] or self._schemas.definition(plural)["spec"]["versions"]
        version = draw.choice([one for one in versions if one.get("served")] or versions)
        place = (
            f"namespaces/{draw.choice(('default', 'default', 'default', 'kube-public'))}/"
            if scope == "Namespaced"
            else ""
        )
        drawn = self._schemas.value((version.get("schema") or {}).get("openAPIV3Schema") or {})
        drawn = drawn if isinstance(drawn, dict) else {}
        head = {"apiVersion": f"{GROUP}/{version['name']}", "kind": kind}
        return f"/apis/{GROUP}/{version['name']}/{place}{plural}", {**drawn, **head}

    async def _object_request(self) -> HTTPRequest:
        draw = self._random
        collection, made = await self._collection()
        name = draw.choice(NAMES)
        path = f"{collection}/{name}"
        made["metadata"] = self._metadata(name)
        if draw.random() < 0.15:
            made = self._spoil(made)
        if draw.random() < 0.03:
            return self._with_query(self._delete(collection, None), self._list_query())
        current = await self._get(path)
        if current is None:
            return self._create_or_apply(collection, path, made)
        path += draw.choice(("", "", "", "/status", "/scale"))
        match draw.choice(("put", "patch", "patch", "apply", "apply", "apply", "delete", "scale")):
            case "put":
                return self._write(path, "PUT", self._edited(current, made))
            case "patch":
                return self._patch(path, current, made)
            case "scale":
                return self._scale(f"{collection}/{name}/scale", current)
            case "delete":
                return self._delete(f"{collection}/{name}", current)
        return self._apply(path, self._with_type(path, current, made))

    def _metadata(self, name: str) -> Json:
        draw = self._random
        found: Json = {"name": name}
        if draw.random() < 0.6:
            found["labels"] = dict(draw.choice(_LABELS))
        if draw.random() < 0.15:
            found["finalizers"] = [draw.choice(("a.b/c", "d.e/f"))]
        if draw.random() < 0.15:
            found["annotations"] = {"n": draw.choice(("", "é", "1"))}
        if draw.random() < 0.05:
            found = {"generateName": "g-"}
        return found

    def _with_type(self, path: str, current: Json, made: Any) -> Any:
        if path.endswith("/scale"):
            replicas = self._random.choice((0, 1, 3))
            name = current["metadata"]["name"]
            return {
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name},
                "spec": {"replicas": replicas},
            }  # fmt: skip
        if isinstance(made, dict) and "apiVersion" in current:
            return {"apiVersion": current["apiVersion"], "kind": current["kind"]} | made
        return made

    def _edited(self, current: Json, made: Any) -> Any:
        """Return an object for a PUT: the current one with changes, or another of its metadata."""
        draw = self._random
        if draw.random() < 0.3:
            return self._spoil(current)
        if isinstance(made, dict) and isinstance(made.get("metadata"), dict):
            kept = ("resourceVersion", "uid", *(("managedFields",) if draw.random() < 0.8 else ()))
            given = {name: value for name, value in current["metadata"].items() if name in kept}
            if draw.random() < 0.2:
                given["resourceVersion"] = draw.choice(("1", "0", "", "x", "99999999"))
            made["metadata"] |= given
        return made

    def _patch(self, path: str, current: Json, made: Any) -> HTTPRequest:
        draw = self._random
        media = draw.choice((_JSON_PATCH, _MERGE, _MERGE, _STRATEGIC))
        if media == _JSON_PATCH:
            return self._write(path, "PATCH", self._operations(made), media)
        if isinstance(made, dict):
            wanted = [name for name in made if name not in ("apiVersion", "kind")]
            made = {name: made[name] for name in draw.sample(wanted, draw.randint(0, len(wanted)))}
            if isinstance(made.get("metadata"), dict) and draw.random() < 0.2:
                made["metadata"]["managedFields"] = draw.choice(([], [{}], current["metadata"].get("managedFields")))
            if draw.random() < 0.1:
                made |= {draw.choice(("spec", "status", "metadata", "data", "extra")): None}
        return self._write(path, "PATCH", made, media)

    def _scale(self, path: str, current: Json) -> HTTPRequest:
        draw, scale = self._random, self._with_type("/scale", current, None)
        if draw.random() < 0.2:
            scale = self._spoil(scale)
        match draw.choice(("PUT", "PATCH", "GET", "apply")):
            case "PATCH":
                return self._write(path, "PATCH", {"spec": {"replicas": draw.choice((0, 2, -1, None))}}, _MERGE)
            case "apply":
                return self._apply(path, scale)
            case method:
                return self._write(path, method, scale)

    # Writes

    def _create_or_apply(self, collection: str, path: str, made: Any) -> HTTPRequest:
        if self._random.random() < 0.25:
            return self._apply(path, made)
        return self._write(collection, "POST", made)

    def _apply(self, path: str, made: Any) -> HTTPRequest:
        draw = self._random
        if isinstance(made, dict) and "apiVersion" not in made:
            made = {**_TYPES.get(path.rpartition("/")[0], {}), **made}
        query = {"fieldManager": draw.choice(MANAGERS), "force": draw.choice(("true", "true", "false"))}
        return self._with_query(self._write(path, "PATCH", made, APPLY), query)

    def _write(self, path: str, method: str, made: Any, media: str = "application/json") -> HTTPRequest:
        draw = self._random
        data = _encode(made)
        if media in (APPLY, "application/json") and draw.random() < 0.2:
            data, media = _as_yaml(made), media if media == APPLY else "application/yaml"
        headers = {"Content-Type": media, "User-Agent": draw.choice(("kubectl/1", "curl"))}
        if draw.random() < 0.04:
            headers["Accept"] = draw.choice(ACCEPTS)
        query = {}
        if draw.random() < 0.1:
            query["dryRun"] = "All"
        if draw.random() < 0.2:
            query["fieldValidation"] = draw.choice(("Strict", "Warn", "Ignore"))
        if draw.random() < 0.2:
            query["fieldManager"] = draw.choice(MANAGERS)
        return self._with_query(HTTPRequest(method, path, headers, data), query)

    def _with_query(self, request: HTTPRequest, query: Json) -> HTTPRequest:
        path, _, had = request.target.partition("?")
        pairs = [*filter(None, had.split("&")), *(f"{name}={quote(str(value))}" for name, value in query.items())]
        return request._replace(target=path + ("?" + "&".join(pairs) if pairs else ""))

    def _delete(self, path: str, current: Json | None) -> HTTPRequest:
        draw, options = self._random, Json()
        if draw.random() < 0.4:
            options["propagationPolicy"] = draw.choice(("Background", "Foreground", "Orphan"))
        if draw.random() < 0.3:
            options["gracePeriodSeconds"] = draw.choice((0, 1, 30))
        if draw.random() < 0.1:
            options["dryRun"] = ["All"]
        if current is not None and draw.random() < 0.3:
            stale = draw.random() < 0.5
            options["preconditions"] = {
                "uid": "x" if stale else current["metadata"]["uid"],
                "resourceVersion": current["metadata"]["resourceVersion"],
            }
        if draw.random() < 0.1:
            options = self._spoil(options)
        return HTTPRequest("DELETE", path, {"Content-Type": "application/json"}, _encode(options) if options else b"")

    # Reads

    async def _read_request(self) -> HTTPRequest:
        draw = self._random
        if draw.random() < 0.25:
            return HTTPRequest("GET", draw.choice(_DOCUMENTS), {"Accept": draw.choice(_DOCUMENT_ACCEPTS)})
        collection, _ = await self._collection()
        headers = {"Accept": draw.choice(ACCEPTS) if draw.random() < 0.5 else "application/json"}
        match draw.choice(("get", "list", "list", "watch", "watch")):
            case "get":
                path = f"{collection}/{draw.choice(NAMES)}{draw.choice(('', '', '/status', '/scale'))}"
                return HTTPRequest("GET", path, headers)
            case "list":
                return self._with_query(HTTPRequest("GET", collection, headers), self._list_query())
        query = {"watch": "true", "timeoutSeconds": draw.choice((1, 5, 100)), **self._list_query()}
        if draw.random() < 0.4:
            query |= {"sendInitialEvents": draw.choice(("true", "false")), "resourceVersionMatch": "NotOlderThan"}
        if draw.random() < 0.5:
            query["allowWatchBookmarks"] = "true"
        return self._with_query(HTTPRequest("GET", collection, headers), query)

    def _list_query(self) -> Json:
        draw, query = self._random, Json()
        if draw.random() < 0.3:
            query["labelSelector"] = draw.choice(_SELECTORS)
        if draw.random() < 0.3:
            query["fieldSelector"] = draw.choice(_FIELDS)
        if draw.random() < 0.3:
            query["limit"] = draw.choice((1, 2, 500, -1))
        if draw.random() < 0.4:
            query["resourceVersion"] = draw.choice(("0", "1", "20", str(draw.randint(1, 400)), "x"))
        if draw.random() < 0.2:
            query["resourceVersionMatch"] = draw.choice(("Exact", "NotOlderThan"))
        return query


def _type_meta(path: str) -> Json:
    """Return what an object at a path says it is."""
    steps = path.split("/")
    version = "/".join(steps[2:4]) if steps[1] == "apis" else steps[2]
    kind = next(one.type.kind for one in KINDS if (one.type.api_version, one.type.plural) == (version, steps[-1]))
    return {"apiVersion": version, "kind": kind}


_TYPES = {path: _type_meta(path) for path in BUILTIN}


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return b"[" * 1_001 + b"]" * 1_001


def _as_yaml(value: Any) -> bytes:
    try:
        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace")
    except RecursionError:
        return _encode(value)
