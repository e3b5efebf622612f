"""Webhooks of managers in the process of the API server, called without sockets.

While a manager runs, its webhooks are configured on the server, and called through its Service's name. Replicas of a
program have the same webhooks: these are configured once, and any live replica is called.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from kcr.client.context import WRITE_CONTEXT, writing
from kcr.errors import AlreadyExistsError, error_for
from kcr.serving.webhooks import Webhooks
from kcr.serving.webhooks.conversion import PATH as CONVERT
from kcr.serving.webhooks.conversion import WebhookService
from kcr_devcluster.apiserver.admission.caller import Handler
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.webhook_manifests import webhook_configurations

_PATH = "/apis/admissionregistration.k8s.io/v1"
_SERVICE = WebhookService()


class _Replicas:
    """The managers that run with the same webhooks, and the Service that stands for them."""

    def __init__(self, same: bytes, service: WebhookService) -> None:
        # What they have in common, as JSON.
        self.same = same
        self.service = service
        self.live: list[HostedWebhooks] = []
        # Those with synced caches.
        self.reviewing: list[HostedWebhooks] = []
        self.key = f"{service.namespace}/{service.name}"
        # Users see no Service for it, so the configurations have a URL.
        self.url = f"https://{service.name}.{service.namespace}.svc"

    async def __call__(self, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        replicas = self.live if path == CONVERT else self.reviewing
        return await replicas[0].handle(path, body, seconds)


class HostedWebhooks:
    """The webhooks of a manager, while it runs."""

    def __init__(self, server: APIServer, webhooks: Webhooks) -> None:
        """Prepare to host webhooks.

        Args:
            server: The server, in this process.
            webhooks: The webhooks of a manager.
        """
        self._server, self._webhooks = server, webhooks
        self._replicas: _Replicas
        self._manager: Any = None

    async def handle(self, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Answer a review in the manager's name: the running task is that of the client, maybe another controller."""
        bound = get_contextvars()
        clear_contextvars()
        try:
            with writing(manager=self._manager):
                return await self._webhooks.handle(path, seconds, body, "application/json")
        finally:
            bind_contextvars(**bound)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Let the server call them for as long as the context lives: for conversions at first."""
        self._manager = WRITE_CONTEXT.get().manager
        server, webhooks, handlers = self._server, self._webhooks, self._server.admission.caller.handlers
        same = msgspec.json.encode((webhook_configurations(webhooks.rules, _SERVICE), webhooks.paths))
        replicas = self._replicas = _replicas(handlers, same)
        replicas.live.append(self)
        keys = {replicas.key, replicas.url}
        handlers.update(dict.fromkeys(keys, replicas))
        try:
            keys |= await _conversion_services(server, webhooks)
            handlers.update(dict.fromkeys(keys, replicas))
            yield
        finally:
            replicas.live.remove(self)
            if not replicas.live:
                for key in keys:
                    handlers.pop(key, None)

    @asynccontextmanager
    async def reviewing(self) -> AsyncIterator[None]:
        """Configure them for as long as the context lives.

        Raises:
            ApiError: The server refuses the configurations, for a wrong CEL expression for example.
        """
        replicas = self._replicas
        manifests = webhook_configurations(self._webhooks.rules, replicas.service, url=replicas.url)
        replicas.reviewing.append(self)
        try:
            for manifest in manifests if len(replicas.reviewing) == 1 else ():
                await _configure(self._server, manifest | {"metadata": {"name": _name_of(replicas)}})
            yield
        finally:
            replicas.reviewing.remove(self)
            for manifest in manifests if not replicas.reviewing else ():
                await _call(self._server, "DELETE", f"{_path_of(manifest)}/{_name_of(replicas)}")


def _replicas(handlers: Mapping[str, Handler], same: bytes) -> _Replicas:
    """Return the replicas with the same webhooks among the handlers of a server, or new ones with another name."""
    hosted = [one for one in handlers.values() if isinstance(one, _Replicas)]
    taken = {one.service.name for one in hosted}
    names = (_SERVICE.name, *(f"{_SERVICE.name}-{number}" for number in range(2, len(taken) + 2)))
    made = _Replicas(same, _SERVICE._replace(name=next(name for name in names if name not in taken)))
    return next((one for one in hosted if one.same == same), made)


def _name_of(replicas: _Replicas) -> str:
    """Return the name of the configurations, which generated manifests that a user applies do not have."""
    return f"{replicas.service.name}-in-process"


async def _configure(server: APIServer, manifest: dict[str, Any]) -> None:
    path, body = _path_of(manifest), msgspec.json.encode(manifest)
    try:
        await _call(server, "POST", path, body)
    except AlreadyExistsError:
        # Left by a process that was killed, in a data folder.
        await _call(server, "DELETE", f"{path}/{manifest['metadata']['name']}")
        await _call(server, "POST", path, body)


def _path_of(manifest: dict[str, Any]) -> str:
    return f"{_PATH}/{manifest['kind'].lower()}s"


async def _conversion_services(server: APIServer, webhooks: Webhooks) -> set[str]:
    """Return the Services, as `namespace/name`, that the definitions of the converted kinds name."""
    found = set()
    for one in webhooks.conversions:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{one.versions[0].resource.display}"
        definition = await _call(server, "GET", path)
        webhook = (definition.get("spec", {}).get("conversion") or {}).get("webhook") or {}
        if service := (webhook.get("clientConfig") or {}).get("service"):
            found.add(f"{service['namespace']}/{service['name']}")
    return found


async def _call(server: APIServer, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    """Send a request of the admin, and return the answer; one for something that does not exist is empty.

    Raises:
        ApiError: The server refuses it.
    """
    answer = await server.handle(HTTPRequest(method, path, {"content-type": "application/json"}, body))
    found: dict[str, Any] = msgspec.json.decode(answer.body) if isinstance(answer.body, bytes) else {}
    if answer.status < 300:
        return found
    if answer.status == 404 and method != "POST":
        return {}
    raise error_for(answer.status, found.get("reason", ""), found.get("message", ""))
