"""A definition in two versions whose objects a webhook converts, and the webhook, in process.

`ex.io/v1` has `spec.host` and `spec.port`, `ex.io/v2` has `spec.address`: `host:port`. Version 1 has `spec.replicas`,
version 2 `spec.size`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from kcr_devcluster.apiserver.admission.caller import Handler
from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

V1, V2 = WIDGETS, WIDGETS.replace("/v1/", "/v2/")
CLIENT = {"service": {"namespace": "default", "name": "converter", "path": "/convert", "port": 443}}
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_STATUS = {"type": "object", "properties": {"ready": _NUMBER, "selector": _TEXT}}


def _schema(**fields: Json) -> Json:
    schema = spec_schema(fields)
    schema["properties"]["status"] = _STATUS
    return schema


def _subresources(replicas: str) -> Json:
    paths = {"specReplicasPath": f".spec.{replicas}", "statusReplicasPath": ".status.ready"}
    return {"status": {}, "scale": paths}


def converted_definition(stored: str = "v1", **more: Any) -> Json:
    """Return the definition.

    Args:
        stored: The storage version.
        more: Members of its versions by their name, such as `v1={"served": False}`.
    """
    old = version("v1", _schema(host=_TEXT, port=_NUMBER, replicas=_NUMBER), subresources=_subresources("replicas"))
    new = version("v2", _schema(address=_TEXT, size=_NUMBER), subresources=_subresources("size"))
    for one in (old, new):
        one["storage"] = one["name"] == stored
        one.update(more.get(one["name"], {}))
    found = definition(old, new)
    found["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1"]},
    }
    return found


def to_v2(obj: Json) -> Json:
    """Return an object of version 1 as one of version 2."""
    spec = dict(obj.get("spec") or {})
    new: Json = {}
    if "host" in spec or "port" in spec:
        new["address"] = f"{spec.get('host', '')}:{spec.get('port', 0)}"
    if "replicas" in spec:
        new["size"] = spec["replicas"]
    return {**obj, "apiVersion": "ex.io/v2", "spec": new} if "spec" in obj else {**obj, "apiVersion": "ex.io/v2"}


def to_v1(obj: Json) -> Json:
    """Return an object of version 2 as one of version 1."""
    spec = dict(obj.get("spec") or {})
    new: Json = {}
    if "address" in spec:
        host, _, port = spec["address"].rpartition(":")
        new |= {"host": host, "port": int(port)}
    if "size" in spec:
        new["replicas"] = spec["size"]
    return {**obj, "apiVersion": "ex.io/v1", "spec": new} if "spec" in obj else {**obj, "apiVersion": "ex.io/v1"}


class Converter:
    """The webhook.

    Attributes:
        reviews: The requests of the reviews it has answered.
        status: The HTTP status code of its answers.
        change: Changes an answer before it is sent.
    """

    def __init__(self) -> None:
        self.reviews: list[Json] = []
        self.status = 200
        self.change: Callable[[Json], Any] = lambda review: review

    async def __call__(self, target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Answer a review."""
        review = msgspec.json.decode(body)
        request = review["request"]
        self.reviews.append({**request, "target": f"{target}?timeout={seconds:g}s"})
        convert = to_v2 if request["desiredAPIVersion"] == "ex.io/v2" else to_v1
        response = {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [convert(one) for one in request["objects"]],
        }
        answer = self.change({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        return self.status, answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


def serve(api: Api) -> Converter:
    """Serve the webhook."""
    converter = Converter()
    api.server.admission.caller.handlers["default/converter"] = converter
    return converter


async def install(api: Api, stored: str = "v1", **more: Any) -> Converter:
    """Serve the definition and its webhook."""
    converter = serve(api)
    await api.post(DEFINITIONS, converted_definition(stored, **more))
    return converter


def replace_webhook(api: Api, handler: Handler | None) -> None:
    """Have another function answer the reviews; None for no answers."""
    handlers = api.server.admission.caller.handlers
    handlers.clear()
    if handler is not None:
        handlers["default/converter"] = handler


async def redefine(api: Api, stored: str, **more: Any) -> None:
    """Change the definition."""
    path = f"{DEFINITIONS}/widgets.ex.io"
    new = converted_definition(stored, **more)
    new["metadata"]["resourceVersion"] = (await api.get(path))["metadata"]["resourceVersion"]
    await api.put(path, new)


def v1(name: str, spec: Json | None = None, **more: Any) -> Json:
    """Return an object of version 1."""
    return widget(name, {"host": "a", "port": 1} if spec is None else spec, **more)


def v2(name: str, spec: Json | None = None, **more: Any) -> Json:
    """Return an object of version 2."""
    return {**widget(name, {"address": "a:1"} if spec is None else spec, **more), "apiVersion": "ex.io/v2"}
