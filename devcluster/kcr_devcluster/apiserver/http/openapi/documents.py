"""The OpenAPI documents: `/openapi/v3`, one document per group and version, and `/openapi/v2`, one for everything.

Before kubectl applies or creates a file, it searches for a `patch` operation of the kind with the parameter
`fieldValidation`; finding it, it leaves validation to the server. That operation names no body: so kubectl makes
strategic merge patches of built-in kinds with the merge keys that are compiled into it. The operations of collections
have the parameter `shardSelector`, as upstream whether or not the feature is on.

Source: k8s.io/kubectl/pkg/util/openapi, k8s.io/client-go/openapi3; k8s.io/kube-openapi/pkg/handler3.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from kcr_devcluster.apiserver.http.discovery import git_version
from kcr_devcluster.apiserver.http.openapi.definitions import Definition, definitions_of
from kcr_devcluster.apiserver.http.routes import Routes
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.responses import APIResponse, encoded, json_response, text_response
from kcr_devcluster.versions import KubernetesVersion

# A document with its first field, `swagger: "2.0"`. Its type is spelled otherwise than in the Accept header of clients,
# which has an `@` and cannot be parsed. Source: kube-openapi/pkg/handler/handler.go.
_EMPTY_V2, _V2_PROTOBUF = b"\x0a\x032.0", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Documents are named by their hash, so a client may cache them without expiry.
_IMMUTABLE = {"Cache-Control": "public, immutable"}
_V3_REFERENCE, _V2_REFERENCE = "#/components/schemas/", "#/definitions/"
# Keywords that the older form lacks, and leaves out.
_NOT_IN_V2 = ("oneOf", "anyOf", "not", "nullable")
# Keywords that hold values, and no schemas.
_VALUES = ("default", "enum", "example", "properties")
# The operations of collections: their methods and verbs.
_COLLECTION_VERBS = (("get", "list"), ("delete", "deletecollection"))


class OpenAPI:
    """Answers `/openapi/v2`, `/openapi/v3` and the documents that the latter names."""

    def __init__(self, routes: Routes) -> None:
        self._routes, self._version = routes, routes.version

    def respond(self, steps: list[str], accept: str) -> APIResponse:
        """Return the document of a path.

        Args:
            steps: The path's steps, such as `["openapi", "v3"]`.
            accept: The Accept header. As protobuf the second version describes nothing: kubectl reads it for a kind
                that the third does not have, and reports that the kind does not exist.
        """
        match steps:
            case ["openapi", "v3"]:
                paths = {
                    root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={_hash(kinds, self._version)}"}
                    for root, kinds in self._by_group_version().items()
                }
                return json_response(encoded({"paths": paths}))
            case ["openapi", "v3", *rest] if kinds := self._by_group_version().get("/".join(rest)):
                return json_response(encoded(_v3("/".join(rest), kinds, self._version)), headers=_IMMUTABLE)
            case ["openapi", "v3", *_]:
                return APIResponse(404, {}, b"")
            case ["openapi", "v2"] if "protobuf" in accept:
                return APIResponse(200, {"Content-Type": _V2_PROTOBUF}, _EMPTY_V2)
            case ["openapi", "v2"]:
                if accept and "json" not in accept and "*" not in accept:
                    return APIResponse(406, {}, b"")
                return json_response(encoded(self._v2()))
        return text_response(404, "404 page not found\n")

    def _documented_kinds(self) -> tuple[Kind, ...]:
        """Return the kinds that have documents: those whose objects clients write."""
        return tuple(kind for kind in self._routes.kinds if not kind.is_computed)

    def _by_group_version(self) -> dict[str, list[Kind]]:
        found: dict[str, list[Kind]] = {}
        for kind in self._documented_kinds():
            root = f"apis/{kind.type.group}/{kind.type.version}" if kind.type.group else f"api/{kind.type.version}"
            found.setdefault(root, []).append(kind)
        return found

    def _v2(self) -> Definition:
        paths = {
            path: operations
            for root, kinds in self._by_group_version().items()
            for path, operations in _paths(root, kinds, {"type": "string"}).items()
        }
        definitions = definitions_of(self._documented_kinds(), self._version, in_v2=True)
        return {
            "swagger": "2.0",
            "info": {"title": "kcr", "version": git_version(self._version)},
            "paths": paths,
            "definitions": {name: _in_v2(one) for name, one in definitions.items()},
        }


def _hash(kinds: list[Kind], version: KubernetesVersion) -> str:
    """Return a hash that changes with a document; the version alone determines the schemas of built-in kinds."""
    content = encoded([git_version(version), *([kind.type.plural, kind.schema_hash] for kind in kinds)])
    return hashlib.sha256(content).hexdigest()[:32].upper()


def _v3(root: str, kinds: list[Kind], version: KubernetesVersion) -> Definition:
    return {
        "openapi": "3.0.0",
        "info": {"title": "kcr", "version": git_version(version)},
        "components": {"schemas": definitions_of(kinds, version)},
        "paths": _paths(root, kinds, {"schema": {"type": "string"}}),
    }


def _paths(root: str, kinds: list[Kind], text: Mapping[str, Any]) -> dict[str, Definition]:
    """Return the documented operations of each kind; `text` is how a parameter says that it is text."""
    found: dict[str, Definition] = {}
    for kind in kinds:
        collection = _collection(root, kind)
        found[f"{collection}/{{name}}"] = {"patch": _operation("patch", kind, {"name": "fieldValidation", **text})}
        shards = {"name": "shardSelector", **text}
        verbs = (one for one in _COLLECTION_VERBS if one[1] in kind.verbs)
        found[collection] = {method: _operation(verb, kind, shards) for method, verb in verbs}
    return found


def _collection(root: str, kind: Kind) -> str:
    scope = "namespaces/{namespace}/" if kind.type.namespaced else ""
    return f"/{root}/{scope}{kind.type.plural}"


def _operation(verb: str, kind: Kind, parameter: Mapping[str, Any]) -> Definition:
    return {
        "operationId": f"{verb}{kind.type.kind}",
        "parameters": [{"in": "query", **parameter}],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": {
            "group": kind.type.group, "version": kind.type.version, "kind": kind.type.kind,
        },
    }  # fmt: skip


def _in_v2(schema: Any) -> Any:
    """Return a schema with the references of the second version, and without the keywords that it lacks."""
    if isinstance(schema, list | tuple):
        return [_in_v2(one) for one in schema]
    if not isinstance(schema, dict):
        return schema.replace(_V3_REFERENCE, _V2_REFERENCE) if isinstance(schema, str) else schema
    if "allOf" in schema:
        # Of a reference and what is said beside it.
        schema = {name: one for name, one in schema.items() if name != "allOf"} | schema["allOf"][0]
    if "oneOf" in schema and "type" not in schema:
        schema = {**schema, "type": "string"}
    found = {name: one if name in _VALUES else _in_v2(one) for name, one in schema.items() if name not in _NOT_IN_V2}
    if "properties" in schema:
        # The names of properties are no words of the schema.
        found["properties"] = {name: _in_v2(one) for name, one in schema["properties"].items()}
    return found
