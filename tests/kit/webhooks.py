"""Admission webhooks in the process of the test: configurations on the server, and handlers that record reviews."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tests.kit.api import Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = {
    "Mutating": f"{GROUP}/mutatingwebhookconfigurations",
    "Validating": f"{GROUP}/validatingwebhookconfigurations",
}
# Gets the request of a review; returns the members of the response beside uid and allowed, or the whole answer.
Answer = Callable[[dict[str, Any]], Any]
ALL_PODS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def json_patch(*operations: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a response that patches the object."""
    text = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"patch": text, "patchType": "JSONPatch"}


def denied(message: str = "", **status: Any) -> dict[str, Any]:
    """Return the members of a response that denies the request."""
    return {"allowed": False, "status": {"message": message, **status}}


class Webhooks:
    """Webhooks of a server; `requests` are the requests of the reviews so far, by the name of the webhook."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.caller = api.server.admission.caller
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.paths: list[str] = []

    async def add(
        self, kind: str, name: str, answer: Answer | None = None, *, configuration: str = "", **fields: Any
    ) -> None:
        """Configure a webhook, `Mutating` or `Validating`; without an answer it allows everything."""
        await self.api.post(
            CONFIGURATIONS[kind],
            {"metadata": {"name": configuration or name}, "webhooks": [self.webhook(name, answer, **fields)]},
        )

    def webhook(self, name: str, answer: Answer | None = None, **fields: Any) -> dict[str, Any]:
        """Return a webhook of a configuration, and serve it."""
        self.requests.setdefault(name, [])
        self.caller.handlers[f"https://{name}"] = self.handler(name, answer or (lambda request: {}))
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"https://{name}/review"},
            "rules": [ALL_PODS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }

    def handler(self, name: str, answer: Answer) -> Callable[[str, bytes, float], Awaitable[tuple[int, bytes]]]:
        """Return a handler that answers the reviews of a webhook."""

        async def handle(path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
            self.paths.append(f"{path}?timeout={seconds:g}s")
            review = msgspec.json.decode(body)
            self.requests[name].append(review["request"])
            found = answer(review["request"])
            if isinstance(found, Awaitable):
                found = await found
            if isinstance(found, tuple):
                return found
            response = {"uid": review["request"]["uid"], "allowed": True, **found}
            return 200, msgspec.json.encode({**review, "request": None, "response": response})

        return handle
