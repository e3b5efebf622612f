"""Adapter for kubernetes-asyncio: its typed APIs and models over kcr's transport (ST-32).

```python
from kubernetes_asyncio.client import BatchV1Api, V1Job

jobs = BatchV1Api(manager.api_client)
job: V1Job = await jobs.read_namespaced_job("pi", "default")
copy = await manager.client.create(V1Job(api_version="batch/v1", kind="Job", metadata=…, spec=job.spec))
```

The library is imported with the first call here; its models cost a hundred times kcr's own types, so a reconciler that
reads many objects reads them from `manager.store`.
"""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from kcr.annotations import shown
from kcr.api import codec
from kcr.api.unstructured import Unstructured, unstructured
from kcr.arguments import refuse
from kcr.client.discovery import served_kinds, versions_serving

if TYPE_CHECKING:
    from kcr.client.calls import Calls


M = TypeVar("M")


class Model(Protocol):
    """A model of an object in kubernetes-asyncio, such as a `V1Job`."""

    @property
    def api_version(self) -> str:
        """Group and version, such as `batch/v1`."""
        ...

    @property
    def kind(self) -> str:
        """The kind, such as `Job`."""
        ...

    def to_dict(self, serialize: bool = False) -> dict[str, Any]:
        """Return its fields."""
        ...


def api_client(client: "Calls") -> Any:
    """Return kubernetes-asyncio's `ApiClient` over a client's transport: `BatchV1Api(api_client(client))`.

    Requests of its APIs use the client's connections, credentials, timeouts, rate limit, retries, metrics and
    User-Agent, in tests the embedded server's too. A refusal arrives as the library's `ApiException`, and so does a
    request without an answer, whose `status` is 0. Raised out of a reconcile, it counts as the `kcr.ApiError` or
    `kcr.TransportError` it stands for: a conflict requeues without a traceback, and Retry-After is kept to.

    `kubernetes_asyncio.watch.Watch` works on it, without an informer's handling of silent and expired watches.
    Closing it closes nothing: the connections are the transport's. For `exec` and `attach`, which need a web socket,
    use the library's own `WsApiClient`.

    Args:
        client: Sends the requests. A manager has its own: `manager.api_client`.
    """
    from kcr.client.wire.typed_rest import TypedApiClient  # noqa: PLC0415  # imports the library

    if not hasattr(client, "exchange"):
        refuse(f"api_client: client is {shown(client)}: give it a kcr.Client")
    return TypedApiClient(client.exchange, client.component)


async def object_of(client: "Calls", model: Any) -> Unstructured:
    """Return the object that a model of kubernetes-asyncio is, of the kind that its server serves.

    Args:
        client: Asks the server for the kinds of the model's group and version.
        model: Such as a `V1Job`, with `api_version` and `kind`.

    Raises:
        TypeError: It is no model of an object.
        ValueError: It states no `api_version` or no `kind`, or the server has no such kind.
    """
    name = type(model).__name__
    if not {"api_version", "kind", "metadata"} <= getattr(model, "openapi_types", {}).keys():
        refuse(
            f"{name} is neither a kcr.Resource nor a model of kubernetes-asyncio; for a mapping there are "
            "create_manifest(kind, mapping) and apply_manifest(kind, mapping)"
        )
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
    return kind.of(api_client(client).sanitize_for_serialization(model))


def model_of(client: "Calls", kind: type[M], obj: Unstructured) -> M:
    """Return an object as a model of kubernetes-asyncio.

    Args:
        client: Of the server that returned the object.
        kind: The class of the model.
        obj: The object.
    """
    body = SimpleNamespace(data=msgspec.json.encode(msgspec.json.decode(codec.encode(obj))))
    return cast("M", api_client(client).deserialize(body, kind.__name__))
