"""Typed APIs and models of kubernetes-asyncio and the official client over kcr's transport (ST-32).

Models cost a hundred times kcr's own types: a reconciler that reads many objects reads them from `manager.store`.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from kcr.annotations import shown
from kcr.api import codec
from kcr.api.meta import Resource
from kcr.api.unstructured import Unstructured, unstructured
from kcr.arguments import refuse
from kcr.client.discovery import served_kinds, versions_serving

if TYPE_CHECKING:
    from kcr.client.calls import Calls


M = TypeVar("M")


class Model(Protocol):
    """A model of an object in kubernetes-asyncio or the official client, such as a `V1Job`."""

    @property
    def api_version(self) -> str | None:
        """Group and version, such as `batch/v1`."""
        ...

    @property
    def kind(self) -> str | None:
        """The kind, such as `Job`."""
        ...

    def to_dict(self, serialize: bool = False) -> dict[str, Any]:
        """Return its fields."""
        ...


def api_client(client: "Calls") -> Any:
    """Return an `ApiClient` over a client's transport: `BatchV1Api(api_client(client))`.

    It serves the typed APIs of kubernetes-asyncio, and those of `kubernetes.aio` in `kubernetes` 37. Their requests use
    the client's connections, credentials, timeouts, rate limit, retries, metrics and User-Agent, in tests the embedded
    server's too. A refusal arrives as the library's `ApiException`, and so does a request without an answer, whose
    `status` is 0. Raised out of a reconcile, it counts as the `kcr.ApiError` or `kcr.TransportError` it stands for: a
    conflict requeues without a traceback, and Retry-After is kept to.

    The `watch.Watch` of both works on it, without an informer's handling of silent and expired watches, and so does
    their `DynamicClient`; give that a `cache_file` for each server, as its default is one for all.
    Closing it closes nothing: the connections are the transport's. Commands in pods are `client.exec`, not theirs.

    Args:
        client: Sends the requests. A manager has its own: `manager.api_client`.
    """
    from kcr.client.wire.typed_rest import TypedApiClient  # noqa: PLC0415  # imports the library

    if not hasattr(client, "exchange"):
        refuse(f"api_client: client is {shown(client)}: give it a kcr.Client")
    return TypedApiClient(client.exchange, client.component)


async def object_of(client: "Calls", model: Any) -> Unstructured:
    """Return the object that a model is, of the kind that its server serves.

    Args:
        client: Asks the server for the kinds of the model's group and version.
        model: Such as a `V1Job`, with `api_version` and `kind`.

    Raises:
        TypeError: It is no model of an object.
        ValueError: It states no `api_version` or no `kind`, or the server has no such kind.
    """
    name = type(model).__name__
    if not {"api_version", "kind", "metadata"} <= getattr(model, "openapi_types", {}).keys():
        refuse(f"{name} is not a model of an object")
    if not model.api_version or not model.kind:
        raise ValueError(f"this {name} states no api_version and kind, such as {name}(api_version='…/v1', kind='…')")
    resource = client.served.get(model.api_version, {}).get(model.kind)
    if resource is None:
        client.served[model.api_version] = kinds = await served_kinds(client, model.api_version)
        resource = kinds.get(model.kind)
    if resource is None:
        versions = await versions_serving(client, model.kind)
        remedy = f"it serves {model.kind} in {versions}" if versions else "is the kind installed?"
        raise ValueError(f"{name}: the server serves no {model.kind} in {model.api_version}: {remedy}")
    kind = unstructured(resource.api_version, resource.kind, plural=resource.plural, namespaced=resource.namespaced)
    return kind.of(_wire(model))


def model_of(kind: type[M], obj: Resource) -> M:
    """Return an object as a model.

    Args:
        kind: The class of the model.
        obj: The object.
    """
    body = msgspec.json.decode(codec.encode(obj))
    # The official client's since version 37 are pydantic's.
    from_dict = getattr(kind, "from_dict", None)
    made: M = _made(kind, body) if from_dict is None else from_dict(body)
    return made


def _wire(value: Any) -> Any:
    if isinstance(value, datetime):
        # With six digits, which the server wants of a MicroTime, and takes for any other.
        return value.isoformat(timespec="microseconds")
    if isinstance(value, Mapping):
        return {name: _wire(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_wire(item) for item in value]
    fields = {wire: getattr(value, name) for name, wire in getattr(value, "attribute_map", {}).items()}
    return {name: _wire(item) for name, item in fields.items() if item is not None} if fields else value


def _made(kind: Any, body: Mapping[str, Any]) -> Any:
    """Make a model of kubernetes-asyncio, or of the official client before version 37."""
    home = next(base for base in kind.__mro__ if "openapi_types" in vars(base)).__module__.rpartition(".")[0]
    fields = {name: body.get(wire) for name, wire in kind.attribute_map.items()}
    return kind(**{name: _typed(sys.modules[home], kind.openapi_types[name], fields[name]) for name in fields})


def _typed(models: Any, kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "datetime":
        return datetime.fromisoformat(value)
    if kind.startswith("list["):
        return [_typed(models, kind[5:-1], item) for item in value]
    if kind.startswith("dict("):
        return {name: _typed(models, kind[10:-1], item) for name, item in value.items()}
    model = getattr(models, kind, None)
    return value if model is None else _made(model, value)
