"""As much OpenAPI as kubectl needs before it applies or creates a file.

It looks for a `patch` operation of the kind with the parameter `fieldValidation`; finding it, it leaves
validation to the server.

Source: kubernetes/staging/src/k8s.io/kubectl/pkg/util/openapi, k8s.io/client-go/openapi3.
"""

from typing import Any

from kcr.apiserver.endpoints.discovery import VERSION
from kcr.apiserver.endpoints.routes import Routes
from kcr.apiserver.kinds.catalogue import Kind
from kcr.apiserver.responses import Answer, encoded, json_answer, text_answer


class OpenApi:
    """Answers `/openapi/v3` and the documents it names; there is no `/openapi/v2`."""

    def __init__(self, routes: Routes) -> None:
        self._documents = {name: _document(name, kinds) for name, kinds in _by_group_version(routes).items()}

    def answer(self, steps: list[str]) -> Answer:
        """Return the document of a path, given as its steps."""
        if steps == ["openapi", "v3"]:
            # The content depends on the version alone, so that serves as the hash.
            index = {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={VERSION[1:]}"} for name in self._documents}
            return json_answer(encoded({"paths": index}))
        document = self._documents.get("/".join(steps[2:])) if steps[:2] == ["openapi", "v3"] else None
        if document is None:
            return text_answer(404, "404 page not found\n")
        return json_answer(encoded(document), headers={"Cache-Control": "public, immutable"})


def _by_group_version(routes: Routes) -> dict[str, list[Kind]]:
    found: dict[str, list[Kind]] = {}
    for kind in routes.kinds:
        root = f"apis/{kind.type.group}/{kind.type.version}" if kind.type.group else f"api/{kind.type.version}"
        found.setdefault(root, []).append(kind)
    return found


def _document(name: str, kinds: list[Kind]) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": {"title": "kcr", "version": VERSION},
        "components": {"schemas": {}},
        "paths": {_path(name, kind): {"patch": _patch(kind)} for kind in kinds},
    }


def _path(root: str, kind: Kind) -> str:
    room = "namespaces/{namespace}/" if kind.type.namespaced else ""
    return f"/{root}/{room}{kind.type.plural}/{{name}}"


def _patch(kind: Kind) -> dict[str, Any]:
    return {
        "operationId": f"patch{kind.type.kind}",
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": {
            "group": kind.type.group, "version": kind.type.version, "kind": kind.type.kind,
        },
    }  # fmt: skip
