"""The one seam: requests go in as bytes, answers come out as bytes; and how requests are spelled.

`HttpTransport` speaks HTTP; the embedded server has a `Transport` of its own that calls it without a socket.
Everything above is the same code in production and in tests.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import NamedTuple, Protocol
from urllib.parse import urlencode

from kcr.api.meta import Key, PartialObjectMetadata, Resource


class Request(NamedTuple):
    """One request.

    Attributes:
        method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        target: Path and query, percent-encoded, such as `/api/v1/pods?watch=true`.
        headers: Headers of this request; the transport adds authorization and User-Agent.
        body: The body, empty for none.
        timeout_seconds: How long the whole exchange may take; None for watches and logs that follow.
        idle_seconds: How long the answer may stay silent; None for no limit. Watches set it.
        component: The part of the program that asks, for the User-Agent; empty for the whole.
        resend_count: How often it has been sent before, for metrics and traces.
        fence: Called by the transport once it has a connection, before the first byte is sent; its exception
            prevents the request, and is raised by `send`. None for no call.
    """

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_seconds: float | None = 30.0
    idle_seconds: float | None = None
    component: str = ""
    resend_count: int = 0
    fence: Callable[[], None] | None = None


class Response(Protocol):
    """A response with status and headers, whose body can be read once."""

    @property
    def status(self) -> int:
        """The HTTP status code; errors are not raised here."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case; repeated headers are joined by commas."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the body line by line as it arrives; the end of the body ends the iteration."""
        ...


class UpgradedResponse(Response, Protocol):
    """The answer 101 to a request with the header `upgrade: websocket`: `lines` yields the messages of the server."""

    async def send(self, message: bytes) -> None:
        """Send a message, once the server has taken enough of those before.

        Raises:
            TransportError: The connection is over.
        """
        ...


class Transport(Protocol):
    """Sends a request and gives its answer for as long as the context lives; one that wraps another has it as `inner`.

    Raises:
        TransportError: No answer came, or it broke off; from `send`, `read` and `lines` alike.
    """

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request; one that waits, as for a connection, calls the request's fence after that."""
        ...


PAGE_SIZE = 500
# A server that sends bookmarks does so about once a minute; a watch that is silent for longer than this
# may hang on a broken connection (RF-19).
IDLE_SECONDS = 90.0

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# A server that cannot show the metadata alone sends whole objects, of which the rest is skipped.
# Source: client-go/metadata/metadata.go.
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"


def accept(kind: type[Resource], *, is_list: bool = False) -> str:
    """Return the Accept header of a request for objects of a kind; watches send single objects."""
    return _METADATA.format("List" if is_list else "") if issubclass(kind, PartialObjectMetadata) else JSON


def target(path: str, query: Mapping[str, object]) -> str:
    """Return a path with a query, percent-encoded; parameters whose value is `""` are left out."""
    parameters = tuple((name, str(value)) for name, value in query.items() if value != "")
    return f"{path}?{_encoded(parameters)}" if parameters else path


# Most requests of a program have one of a few queries.
@lru_cache(256)
def _encoded(parameters: tuple[tuple[str, str], ...]) -> str:
    return urlencode(parameters)


def object_path(kind: type[Resource], key: Key, subresource: str = "") -> str:
    """Return the path of an object or its subresource.

    Raises:
        TypeError: The key is none, such as a name.
        ValueError: The name is not a name. An empty one would mean all objects, and a DELETE of it everything.

    Source: kubernetes/staging/src/k8s.io/client-go/rest/request.go, Request.Name.
    """
    try:
        namespace, name = key.namespace, key.name
    except AttributeError:
        raise TypeError(f"{kind.resource.display}: {key!r} is not a kcr.Key: write kcr.Key(namespace, name)") from None
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{kind.resource.display}: {name!r} is not a name of an object")
    return kind.resource.path(namespace, name, subresource)


def watch_query(resource_version: str, timeout_seconds: float, *, initial_events: bool) -> dict[str, object]:
    """Return the query parameters of a watch."""
    query: dict[str, object] = {
        "watch": "true", "allowWatchBookmarks": "true",
        "resourceVersion": resource_version, "timeoutSeconds": int(timeout_seconds),
    }  # fmt: skip
    if initial_events:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    return query


def delete_options(
    *, uid: str, resource_version: str = "", propagation: str = "", grace_period_seconds: int | None, dry_run: bool
) -> dict[str, object]:
    """Return the body of a DELETE; empty and None fields get the server's defaults.

    All options stand here: beside a body the server reads no query.
    """
    options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if uid or resource_version:
        options["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def path_template(target: str) -> str:
    """Return the path of a request with placeholders for namespaces, names, and the parts after them.

    `/apis/batch/v1/namespaces/default/jobs/pi/status?…` is `/apis/batch/v1/namespaces/{namespace}/jobs/{name}/status`.

    Args:
        target: Path and query, percent-encoded.
    """
    path = target.partition("?")[0]
    steps = path.split("/")
    first = 3 if steps[1:2] == ["api"] else 4 if steps[1:2] == ["apis"] else len(steps)
    head, rest = steps[:first], steps[first:]
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        head += ["namespaces", "{namespace}"]
        rest = rest[2:]
    # Plural, name, subresource; beyond that is the path on a proxied server.
    return "/".join((*head, *rest[:1], *["{name}"][: len(rest) - 1], *rest[2:3], *["{path}"][: max(len(rest) - 3, 0)]))
