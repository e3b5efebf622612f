"""Fake informers, recorders, a fake manager and a fake server: the test adds, modifies and deletes the objects.

```python
async def test_copy_follows_its_source():
    manager = FakeManager()
    copier = Copier(manager)
    manager.informer(ConfigMap).add(build.config_map("colors", annotations={COPY_TO: "blue"}))
    await copier.reconcile(Key("default", "colors"))
    assert await manager.client.get(ConfigMap, Key("blue", "colors"))
```

Nothing runs in the background: handlers are called before `add` returns, and reconciles when the test asks.
A controller's writes are sent to an API server in the same process. They return to the stores when the test calls
`relist`, or automatically with `FakeManager(follow_writes=True)`.

For tests of list and watch there is a server of one kind. The test says which objects exist, and which events are sent:

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
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kcr.annotations import Text, shown
from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.core import ObjectReference
from kcr.api.meta import Key, ListMeta, Object, ObjectMeta, Resource
from kcr.arguments import check_fields, checked, refuse
from kcr.client import Client, Request, Response, Transport
from kcr.clock import Clock, SystemClock
from kcr.errors import ApiError, BadRequestError, GoneError, NotFoundError, TransportError
from kcr.events import EventRecorder
from kcr.events.recorder import EventType
from kcr.informer import Informer, Selection
from kcr.informer.store import version_of
from kcr.manager import Manager

R = TypeVar("R", bound=Resource)
# A class of the kind, or a file of CustomResourceDefinitions, or a folder of such files.
KindSource = type[Resource] | str | Path

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


class FakeInformer(Informer[R], Generic[R]):
    """An informer without a reflector: `add`, `modify` and `delete` call its handlers before they return (TK-5).

    It is synced from the start; `synced = False` makes it one that is not. Objects without a uid, a version
    or a generation get one, as the server would give it.
    """

    @checked
    def __init__(self, kind: type[R], *objects: R) -> None:
        """Make an informer with some objects in its store."""
        # Never used: `run` neither lists nor watches.
        super().__init__(Client(FakeSource(kind)), kind, random=random.Random(0))
        self.writer.declare_synced()
        # Whether the test lets it count as synced.
        self._released = asyncio.Event()
        self._released.set()
        self._newest = FIRST_VERSION
        self._present: dict[Key, R] = {}
        # The keys of the last list: the test's own objects are not in it.
        self._listed: set[Key] = set()
        for obj in objects:
            self.add(obj)

    @property
    def synced(self) -> bool:
        """Whether the store counts as synced."""
        return self.store.synced

    @synced.setter
    def synced(self, synced: bool) -> None:
        self.store.synced = synced
        (self._released.set if synced else self._released.clear)()

    async def wait_synced(self) -> None:
        """Return once the test has it synced.

        Raises:
            NotSyncedError: The informer was closed.
        """
        await self._released.wait()
        await super().wait_synced()

    def close(self) -> None:
        """Stop permanently; see `Informer.close`."""
        super().close()
        self._released.set()

    async def run(self) -> None:
        """Do nothing until cancelled."""
        await asyncio.get_running_loop().create_future()

    @checked
    def add(self, obj: R) -> R:
        """Add an object, and return it as it is stored."""
        check_object("FakeInformer.add", self.kind, obj)
        return self._happen("ADDED", self._stamped(obj))

    @checked
    def modify(self, obj: R) -> R:
        """Modify an object, and return it as it is stored.

        A resourceVersion newer than the stored one is a server's, and is kept: the result of a client's write is
        stored unchanged. Otherwise the object gets a new version.
        """
        check_object("FakeInformer.modify", self.kind, obj)
        return self._happen("MODIFIED", self._changed(obj))

    @checked
    def delete(self, obj: R) -> None:
        """Delete an object; the argument is its last state."""
        check_object("FakeInformer.delete", self.kind, obj)
        self._happen("DELETED", self._changed(obj))

    @checked
    def relist(self, objects: Sequence[R]) -> None:
        """Replace the store by a server's objects; handlers are called for the differences.

        Objects that the test added itself stay.

        Args:
            objects: All that the server has.
        """
        for obj in objects:
            check_object("FakeInformer.relist", self.kind, obj)
        listed = {obj.key: obj for obj in objects}
        for key in self._listed - listed.keys() & self._present.keys():
            self._happen("DELETED", self._present[key])
        for key, obj in listed.items():
            present = self._present.get(key)
            if present is None or present.metadata.uid != obj.metadata.uid or _version(present) != _version(obj):
                self._happen("ADDED" if present is None else "MODIFIED", obj)
        self._listed = set(listed)

    def _happen(self, type: str, obj: R) -> R:  # noqa: A002  # the field's name
        if type == "DELETED":
            self._present.pop(obj.key, None)
        else:
            self._present[obj.key] = obj
        self.writer.apply(WatchEvent(type=type, object=obj))
        return obj

    def _changed(self, obj: R) -> R:
        present = self._present.get(obj.key)
        known = present.metadata.resource_version if present is not None else ""
        given = obj.metadata.resource_version
        is_newer = given != known and version_of(given) >= version_of(known)
        return self._stamped(obj if is_newer else replace(obj, metadata=replace(obj.metadata, resource_version="")))

    def _stamped(self, obj: R) -> R:
        metadata = obj.metadata
        self._newest = max(self._newest + 1, version_of(metadata.resource_version))
        version = metadata.resource_version or str(self._newest)
        present = self._present.get(obj.key)
        known = present.metadata.uid if present is not None else f"uid-{metadata.name}-{self._newest}"
        kept = replace(
            metadata, uid=metadata.uid or known, resource_version=version, generation=generation_of(obj, present)
        )
        return replace(obj, metadata=kept)


def _version(obj: Resource) -> str:
    return obj.metadata.resource_version


class Recorded(NamedTuple):
    """One event as a controller recorded it."""

    about: Key
    type: str
    reason: str
    message: str

    def __str__(self) -> str:
        """Return type, reason and message, as `kubectl describe` has them."""
        return f"{self.type} {self.reason} {self.message}"


class FakeRecorder(EventRecorder):
    """Keeps the recorded events: none is aggregated, dropped or written.

    Attributes:
        events: All events, in their order.
    """

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self.dropped: Counter[str] = Counter()

    @checked
    def event(  # noqa: PLR0913  # the parts of an event, by name
        self,
        about: Resource | ObjectReference,
        type: EventType,  # noqa: A002  # the field's name
        reason: Text,
        message: str,
        *,
        action: str = "",
        related: Resource | ObjectReference | None = None,
        cause: str = "",
    ) -> None:
        """Keep an event."""
        self.events.append(Recorded(about.key, type, reason, message))

    @checked
    def find(self, reason: str, *, about: Key | None = None) -> list[Recorded]:
        """Return the events of one reason, about one object or all."""
        return [event for event in self.events if event.reason == reason and about in (None, event.about)]

    async def run(self) -> None:
        """Do nothing until cancelled."""
        await asyncio.get_running_loop().create_future()


class FakeManager(Manager):
    """A manager whose informers and recorders are fakes, for unit tests of reconcilers and of their handlers.

    `client` talks to an embedded API server of its own, with the namespace `default` and no controllers. The test fills
    the stores: it adds objects to the informers, calls `relist` to read the server's objects, or sets `follow_writes`
    to do so after every write.
    """

    @checked
    def __init__(
        self,
        *,
        client: Client | None = None,
        clock: Clock | None = None,
        namespace: str = "",
        kinds: Sequence[KindSource] = (),
        follow_writes: bool = False,
    ) -> None:
        """Make a manager.

        Args:
            client: Where writes go; by default an embedded server.
            clock: The source of time.
            namespace: As the manager's.
            kinds: Kinds that its own server has beside the built-in ones: classes, files of CustomResourceDefinitions,
                and folders of such files.
            follow_writes: Whether every write through `client` calls `relist`, so that it is in the stores before it
                returns; for the manager's own server only.

        Raises:
            ValueError: `kinds` or `follow_writes` with another client.
            ImportError: There is no client, and `kcr-devcluster`, which has the embedded server, is not installed.
        """
        if client is not None and follow_writes:
            raise ValueError(
                "FakeManager: follow_writes is for its own server; call relist() after the client's writes"
            )
        if client is not None and kinds:
            raise ValueError("FakeManager: kinds is for its own server; declare them where that of the client is made")
        clock = clock or SystemClock()
        if client is None:
            transport = _own_server(clock, kinds)
            client = Client(_Followed(transport, self._follow) if follow_writes else transport)
        super().__init__(client, clock=clock, random=random.Random(0), namespace=namespace)
        self._events: dict[str, FakeRecorder] = {}

    def informer(self, kind: type[R]) -> FakeInformer[R]:
        """Return the fake informer of a kind; it is made, empty and synced, on first use."""
        return cast("FakeInformer[R]", super().informer(kind))

    def _make_informer(self, selections: tuple[Selection[Any], ...]) -> FakeInformer[Any]:
        return FakeInformer(selections[0].kind)

    @checked
    def recorder(self, component: Text, *, host: str = "") -> FakeRecorder:
        """Return the fake recorder of a component."""
        return self._events.setdefault(component, FakeRecorder())

    @checked
    async def relist(self, *kinds: type[Resource]) -> None:
        """List kinds from the server into their stores; handlers are called for the differences.

        ```python
        await manager.client.create(website)
        await manager.relist()
        await reconciler.reconcile(website.key)
        ```

        Objects that the test has added itself stay.

        Args:
            *kinds: None for all that have been asked for, with `store`, `informer` or a watch of a controller.
        """
        for kind in kinds or self._kinds():
            # A kind that is requested here, too.
            informer = self.informer(kind)
            found = [await self._list(selection) for selection in self.selections if selection.kind is kind]
            informer.relist([obj for objects in found for obj in objects])

    def _kinds(self) -> list[type[Resource]]:
        return list(dict.fromkeys(selection.kind for selection in self.selections))

    async def _follow(self) -> None:
        for kind in self._kinds():
            # A kind that the server does not have: its store holds the test's own objects.
            with suppress(NotFoundError):
                await self.relist(kind)

    async def _list(self, selection: Selection[R]) -> tuple[R, ...]:
        found = await self.client.list(
            selection.kind, selection.namespace, labels=selection.labels, fields=selection.fields
        )
        return found if selection.transform is None else tuple(cast("R", selection.transform(obj)) for obj in found)


def _own_server(clock: Clock, kinds: Sequence[KindSource]) -> Transport:
    """Return the way to a new API server: without nodes, controllers and sockets."""
    if find_spec("kcr_devcluster") is None:
        raise ImportError("FakeManager() without a client needs the extra 'test': pip install 'kcr[test]'")
    from kcr_devcluster.transport import serve_in_process  # noqa: PLC0415  # a test with a client needs none

    return serve_in_process(kinds, clock=clock, random=random.Random(0))


class _Followed:
    """A transport that calls a function after each write that the server has done."""

    def __init__(self, inner: Transport, after_write: Callable[[], Awaitable[None]]) -> None:
        self.inner = inner
        self._after_write = after_write

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        async with self.inner.send(request) as response:
            yield response
        if request.method != "GET" and response.status < 300:
            await self._after_write()
