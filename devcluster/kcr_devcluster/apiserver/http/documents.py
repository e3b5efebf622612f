"""The paths beside the resources: their list, discovery, OpenAPI, metrics, health and version."""

from collections.abc import Mapping

import msgspec

from kcr_devcluster.apiserver.http import discovery
from kcr_devcluster.apiserver.http.discovery import Discovery
from kcr_devcluster.apiserver.http.metrics import ServerMetrics
from kcr_devcluster.apiserver.http.openapi.documents import OpenAPI
from kcr_devcluster.apiserver.http.routes import Routes
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import (
    JSON,
    APIResponse,
    encoded,
    json_response,
    no_such_resource,
    text_response,
)

# The checks of health, below its paths: the whole, and those that every server has.
_CHECKS: tuple[list[str], ...] = ([], ["ping"], ["log"], ["etcd"])
_PATHS = (
    "/healthz", "/healthz/etcd", "/healthz/log", "/healthz/ping", "/livez", "/livez/etcd", "/livez/log", "/livez/ping",
    "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/readyz/etcd", "/readyz/log", "/readyz/ping", "/version",
)  # fmt: skip


class ServerDocuments:
    """Responds to non-resource paths: discovery, OpenAPI, `/version`, health checks and `/metrics`."""

    def __init__(self, routes: Routes, metrics: ServerMetrics) -> None:
        """Make the documents; they follow the kinds that are served.

        Args:
            routes: The kinds.
            metrics: The metrics of the server.
        """
        self._discovery = Discovery(routes)
        self._openapi = OpenAPI(routes)
        self._metrics, self._version = metrics, routes.version

    def respond(self, method: str, path: str, query: Query, headers: Mapping[str, str]) -> APIResponse:
        """Handle a request to a path that is no resource's.

        Args:
            method: The method; most documents are only read.
            path: The path.
            query: The query.
            headers: Names in lower case.

        Raises:
            StatusError: 404, 405 or 406.
        """
        steps, accept = path.removeprefix("/").split("/"), headers.get("accept", "")
        match steps:
            case ["openapi", *_]:
                return self._openapi.respond(steps, accept)
            case ["metrics"] if method == "GET":
                return self._metrics.respond(accept)
            case [("healthz" | "livez" | "readyz") as name, *check] if check in _CHECKS:
                return text_response(200, _health(name, query))
            case ["" | "index.html"]:
                paths = [*self._discovery.paths(), *_PATHS]
                return json_response(msgspec.json.format(encoded({"paths": paths}).strip(), indent=2))
            case ["version"] | ["version", ""]:
                discovery.check_read(method, accept, (JSON,))
                return discovery.version_info(self._version)
            case ["version", *_]:
                raise no_such_resource()
            case ["api", _, "watch" | "proxy", *_] | ["apis", _, _, "watch" | "proxy", *_]:
                why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {path}\n"
                return text_response(500, f'Internal Server Error: "{path}": {why}')
        if len(steps) > 1 and not steps[-1]:
            steps.pop()
        return self._discovery.respond(method, steps, headers)


def _health(name: str, query: Query) -> str:
    return f"[+]ping ok\n{name} check passed\n" if query.has("verbose") else "ok"
