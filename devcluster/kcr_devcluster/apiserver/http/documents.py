"""The paths beside the resources: discovery, OpenAPI, metrics, health, version; all of them are read only."""

from collections.abc import Mapping

from kcr_devcluster.apiserver.http import discovery
from kcr_devcluster.apiserver.http.discovery import Discovery
from kcr_devcluster.apiserver.http.metrics import ServerMetrics
from kcr_devcluster.apiserver.http.openapi.documents import OpenAPI
from kcr_devcluster.apiserver.http.routes import Routes
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse, text_response

_HEALTH_PATHS = ("healthz", "livez", "readyz")


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
        self._metrics = metrics

    def respond(self, method: str, steps: list[str], query: Query, headers: Mapping[str, str]) -> APIResponse:
        """Handle a request to a path that is no resource's.

        Args:
            method: The method; a document that exists is only read.
            steps: The path, by its slashes.
            query: The query.
            headers: Names in lower case.
        """
        match steps[0]:
            case "openapi":
                return self._openapi.respond(steps, headers.get("accept", ""))
            case "metrics" if len(steps) == 1 and method == "GET":
                return self._metrics.respond(headers.get("accept", ""))
            case name if name in _HEALTH_PATHS:
                return text_response(200, _health(name, query))
        response = discovery.version() if steps == ["version"] else self._discovery.respond(steps, headers)
        return response if method == "GET" or response.status == 404 else discovery.method_not_allowed()


def _health(name: str, query: Query) -> str:
    return f"[+]ping ok\n{name} check passed\n" if query.has("verbose") else "ok"
