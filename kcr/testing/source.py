"""A fake server of one kind, for tests of list and watch: the test says which objects exist, and which events are sent.

```python
source = FakeSource(Website)
informer = Informer(Client(source), Website)
source.add(website("shop"))
source.delete(shop, silent=True)     # a lost event: no watch sends it
source.reset()                       # the watch ends, and its version is too old to go on from: a relist
source.fail_lists(ServerError, times=2)
```

It is a `Transport`, so the whole of client, reflector and informer is the real one. It knows lists and watches
of its one kind; WatchList is refused, as by a server that does not know it.

Source: kubernetes/staging/src/k8s.io/client-go/tools/cache/testing/fake_controller_source.go.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kcr.annotations import shown
from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ListMeta, Object, ObjectMeta, Resource
from kcr.arguments import check_fields, checked, refuse
from kcr.client import Request, Response
from kcr.errors import ApiError, BadRequestError, GoneError, TransportError

R = TypeVar("R", bound=Resource)

# Versions as a server's that has been in use for a while.
FIRST_VERSION = 1000
# A watch that lags so many events behind is closed, as by a server.
BEHIND = 100


# The code and the reason with which servers answer.
_SPOKEN: Mapping[str, tuple[int, str]] = {
    "BadRequestError": (400, "BadRequest"), "UnauthorizedError": (401, "Unauthorized"),
    "ForbiddenError": (403, "Forbidden"), "NotFoundError": (404, "NotFound"),
    "AlreadyExistsError": (409, "AlreadyExists"), "ConflictError": (409, "Conflict"), "GoneError": (410, "Expired"),
    "InvalidError": (422, "Invalid"), "TooManyRequestsError": (429, "TooManyRequests"),
    "ServerError": (500, "InternalError"),
}  # fmt: skip


class MadeUp:
    """A response with a given body."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers: dict[str, str] = {name.lower(): value for name, value in (headers or {}).items()}
        self._body = body

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the body line by line."""
        for line in self._body.splitlines():
            yield line


def made(error: type[ApiError] | ApiError, retry_after_seconds: float = 0.0) -> ApiError:
    """Return an error as servers give it; one that is made already stays as it is."""
    if isinstance(error, ApiError):
        return error
    if error.__name__ not in _SPOKEN:
        refuse(f"error is {shown(error)}: give it one of {', '.join(_SPOKEN)}, or an object with a code")
    code, reason = _SPOKEN[error.__name__]
    return error(code, reason, "a fault, as the test asked", retry_after_seconds=retry_after_seconds)


def refusal(error: ApiError) -> MadeUp:
    """Return the response that a client decodes to this error."""
    details: dict[str, Any] = {}
    headers = {"Content-Type": "application/json"}
    if error.causes:
        details["causes"] = [cause._asdict() for cause in error.causes]
    if seconds := round(error.retry_after_seconds):
        details["retryAfterSeconds"] = seconds
        headers["Retry-After"] = str(seconds)
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.message,
        "reason": error.reason, "details": details, "code": error.code,
    }  # fmt: skip
    return MadeUp(error.code, msgspec.json.encode(status), headers)


# The kinds of the core group that have generations.
_CORE_WITH_GENERATIONS = ("Pod", "ReplicationController")


def generation_of(obj: Resource, present: Resource | None) -> int | None:
    """Return the generation with which a server stores an object: it counts changes of the spec.

    Args:
        obj: The object.
        present: The object as it is stored; None for a new one.
    """
    given, kind = obj.metadata.generation, obj.resource
    if not kind.group and kind.kind not in _CORE_WITH_GENERATIONS:
        return given
    known = 0 if present is None else present.metadata.generation or 0
    if present is None or (given or 0) > known:
        return given or 1
    return known + (_desired(obj) != _desired(present))


def _desired(obj: Resource) -> dict[str, object]:
    fields: dict[str, object] = msgspec.json.decode(codec.encode(obj))
    return {name: value for name, value in fields.items() if name not in ("metadata", "status")}


class _Change(NamedTuple):
    version: int
    line: bytes


class FakeSource(Generic[R]):
    """Objects of one kind, their versions, and the changes since the log was last flushed.

    Attributes:
        version: The highest version given out.
        lists: How many lists were requested.
        watches: How many watches were requested.
    """

    @checked
    def __init__(self, kind: type[R], *objects: R) -> None:
        self.version: int = FIRST_VERSION
        self.lists: int = 0
        self.watches: int = 0
        self._kind = kind
        self._objects: dict[Key, R] = {}
        self._log: list[_Change] = []
        # Changes up to this version are compacted: a watch from before it is answered 410.
        self._flushed = FIRST_VERSION
        self._open: set[_Watch] = set()
        self._refusals: list[ApiError] = []
        for obj in objects:
            self.add(obj)

    @property
    def objects(self) -> tuple[R, ...]:
        """The objects, in no particular order."""
        return tuple(self._objects.values())

    @checked
    def add(self, obj: R, *, silent: bool = False) -> R:
        """Add an object; `silent` means that no watch sends the event."""
        return self._change("ADDED", obj, silent)

    @checked
    def modify(self, obj: R, *, silent: bool = False) -> R:
        """Replace an object."""
        return self._change("MODIFIED", obj, silent)

    @checked
    def delete(self, obj: R, *, silent: bool = False) -> None:
        """Delete an object."""
        self._change("DELETED", obj, silent)

    def bookmark(self) -> None:
        """Send a BOOKMARK with the current version to all watches."""
        metadata = ObjectMeta(resource_version=str(self.version))
        self._tell(_Change(self.version, _line("BOOKMARK", self._kind(metadata=metadata))))

    def cut(self) -> None:
        """Cut the connections of all watches; they can be resumed."""
        for watch in self._open:
            watch.put(None)

    def reset(self) -> None:
        """Cut all watches and compact the log: a watch from an old version is answered 410 Gone."""
        self.version += 1
        self._log.clear()
        self._flushed = self.version
        self.cut()

    @checked
    def fail_lists(self, error: type[ApiError] | ApiError, *, times: Annotated[int, Meta(ge=1)] = 1) -> None:
        """Answer the next lists with an error."""
        self._refusals += [made(error)] * times

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Answer one request."""
        # Other tasks run here, as they do during network I/O.
        await asyncio.sleep(0)
        path, _, text = request.target.partition("?")
        query = {name: values[0] for name, values in parse_qs(text).items()}
        if request.method != "GET" or path != self._kind.resource.path():
            yield refusal(ApiError(405, "MethodNotAllowed", f"a fake source does no {request.method} of {path}"))
        elif "watch" in query:
            self.watches += 1
            answer = self._watch(query)
            try:
                yield answer
            finally:
                if isinstance(answer, _Watch):
                    self._open.discard(answer)
        else:
            self.lists += 1
            yield self._list()

    def _change(self, type: str, obj: R, silent: bool) -> R:  # noqa: A002  # the field's name
        check_object("FakeSource", self._kind, obj)
        self.version += 1
        metadata = obj.metadata
        uid = metadata.uid or f"uid-{metadata.name}"
        generation = generation_of(obj, self._objects.get(obj.key))
        kept = replace(metadata, uid=uid, resource_version=str(self.version), generation=generation)
        stored = replace(obj, metadata=kept)
        if type == "DELETED":
            self._objects.pop(obj.key, None)
        else:
            self._objects[obj.key] = stored
        if not silent:
            change = _Change(self.version, _line(type, stored))
            self._log.append(change)
            self._tell(change)
        return stored

    def _tell(self, change: _Change) -> None:
        for watch in self._open:
            watch.put(change.line)

    def _list(self) -> MadeUp:
        if self._refusals:
            return refusal(self._refusals.pop(0))
        page = _List(metadata=ListMeta(resource_version=str(self.version)), items=self.objects)
        return MadeUp(200, codec.encode(page), {"Content-Type": "application/json"})

    def _watch(self, query: Mapping[str, str]) -> "MadeUp | _Watch":
        if "sendInitialEvents" in query:
            return refusal(made(BadRequestError))
        since = int(query.get("resourceVersion") or 0)
        if since < self._flushed:
            return refusal(made(GoneError))
        watch = _Watch([change.line for change in self._log if change.version > since])
        self._open.add(watch)
        return watch


def check_object(about: str, kind: type[Resource], obj: object) -> None:
    """Refuse an object of another kind, and one that no server has.

    Args:
        about: What gets it.
        kind: The kind.
        obj: The object.

    Raises:
        TypeError: It is of another kind.
        ValueError: It has no name.
    """
    if not isinstance(obj, kind):
        refuse(f"{about}: obj is {shown(obj)}: give it an object of its kind, {kind.__name__}(…)")
    check_fields(f"{about}: {kind.__name__}", obj, ("metadata",))
    if not obj.metadata.name:
        raise ValueError(f"{about}: obj has no name: give it metadata=kcr.ObjectMeta(name=…, namespace=…)")


class _List(Object):
    metadata: ListMeta
    # Without a default, so that an empty list is written.
    items: tuple[Resource, ...]


class _Watch:
    """The response to a watch."""

    def __init__(self, lines: list[bytes]) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        for line in lines:
            self._lines.put_nowait(line)

    def put(self, line: bytes | None) -> None:
        """Add a line; None breaks the connection."""
        self._lines.put_nowait(line if self._lines.qsize() < BEHIND else None)

    async def read(self) -> bytes:
        return b"\n".join([line async for line in self.lines()])

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line
        raise TransportError("watch: the connection was cut")


def _line(type: str, obj: Resource) -> bytes:  # noqa: A002  # the field's name
    return codec.encode(WatchEvent(type=type, object=obj))
