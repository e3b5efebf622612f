"""The client: typed reads here, writes and subresources from its bases; writes after a conflict; one that blocks."""

import asyncio
import atexit
import random as randomness
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import wraps
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar, cast

import msgspec
from msgspec import Meta

from kcr.annotations import Count, NotNegative
from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ListMeta, Resource
from kcr.arguments import awaited, checked, checked_on_failure
from kcr.client.auth.config import load_config
from kcr.client.subresources import LogOptions, Subresources
from kcr.client.wire import decoding
from kcr.client.wire.http import HttpTransport
from kcr.client.wire.transport import PAGE_SIZE, accept, object_path, target, watch_query
from kcr.client.writes import Writes
from kcr.errors import ApiError, BadRequestError, ConflictError, KcrError

P = ParamSpec("P")
R = TypeVar("R", bound=Resource)
T = TypeVar("T")


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


class Client(Writes, Subresources):
    """Talks to the API server; for cached reads there is `Manager.store`.

    Every method raises `ApiError` for a refusal of the server, and `TransportError` for a missing or undecodable
    response, after which a write may have happened (`kcr.client.wire.decoding` has the rules). 429 and 5xx
    with a Retry-After are retried, and reads whose connection failed. Warnings of the server are logged, each once.
    """

    @checked_on_failure
    async def get(self, kind: type[R], key: Key) -> R:
        """Return one object, read from the server.

        Args:
            kind: The kind.
            key: Namespace and name; `Key.parse("default/pi")`, or `obj.key`.

        Raises:
            NotFoundError: It does not exist.
        """
        body = await self.request("GET", object_path(kind, key), accept=accept(kind))
        return decoding.read_object(kind, body, key.name)

    @checked_on_failure
    async def list(self, kind: type[R], namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[R, ...]:
        """Return all objects of a kind, read page by page.

        Raises:
            GoneError: The version of the pages was compacted meanwhile; start again.
        """
        found: tuple[R, ...] = ()
        continue_ = ""
        while True:
            metadata, objects = await self.list_page(
                kind, namespace, limit=PAGE_SIZE, continue_=continue_, labels=labels, fields=fields
            )
            found += objects
            continue_ = metadata.continue_
            if not continue_:
                return found

    @checked
    async def list_page(  # noqa: PLR0913  # the parameters of a list request, all by name
        self,
        kind: type[R],
        namespace: str = "",
        *,
        limit: Count = 0,
        continue_: str = "",
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
    ) -> tuple[ListMeta, tuple[R, ...]]:
        """Return one page of a list.

        Args:
            kind: The type of the objects.
            namespace: Empty for all namespaces.
            limit: How many objects at most; 0 for all at once.
            continue_: From the page before; empty for the first.
            resource_version: Empty for the newest state, as pages need it.
            labels: A label selector.
            fields: A field selector.

        Raises:
            TransportError: Also when an object does not fit the type.
        """
        query = {
            "limit": limit or "", "continue": continue_, "resourceVersion": resource_version,
            "labelSelector": labels, "fieldSelector": fields,
        }  # fmt: skip
        path = target(kind.resource.path(namespace), query)
        with _naming(kind, labels, fields):
            body = await self.request("GET", path, accept=accept(kind, is_list=True))
        try:
            return codec.decode_items(kind, body)
        except msgspec.DecodeError as error:
            raise decoding.unreadable(kind, error) from error

    @checked_on_failure
    def watch(  # noqa: PLR0913  # the parameters of a watch request, all by name
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: float,
        labels: str = "",
        fields: str = "",
        initial_events: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[R]]]:
        """Watch a kind, BOOKMARKs included.

        Args:
            kind: The type of the objects.
            namespace: Empty for all namespaces.
            resource_version: The watch starts after this version.
            timeout_seconds: When the server ends the watch; the iteration ends then.
            labels: A label selector.
            fields: A field selector.
            initial_events: Begin with the present state as ADDED events, up to the BOOKMARK that carries the
                annotation `k8s.io/initial-events-end`.

        Raises:
            ApiError: From the context or the iteration: also ERROR events and objects that do not fit.
        """
        query = watch_query(resource_version, timeout_seconds, initial_events=initial_events)
        query |= {"labelSelector": labels, "fieldSelector": fields}
        return self._watch(kind, query, target(kind.resource.path(namespace), query))

    @asynccontextmanager
    async def _watch(
        self, kind: type[R], query: Mapping[str, object], path: str
    ) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        async with AsyncExitStack() as stack:
            with _naming(kind, query["labelSelector"], query["fieldSelector"]):
                lines = await stack.enter_async_context(self.lines(path, accept=accept(kind)))
            yield await stack.enter_async_context(aclosing(_events(kind, lines)))

    async def server_version(self) -> str:
        """Return the server's version, such as `v1.36.2`; `v1.36.0+kcr` for an embedded server."""
        return version_in(await self.request("GET", "/version"))


@contextmanager
def _naming(kind: type[Resource], labels: object, fields: object) -> Iterator[None]:
    try:
        yield
    except BadRequestError as error:
        given = {"labels": labels, "fields": fields}
        shown = " and ".join(f"{name}={text!r}" for name, text in given.items() if text)
        if not shown:
            raise
        said = f"{kind.resource.display}: the server refuses the selector {shown}: {error.message}"
        raise BadRequestError(error.code, error.reason, said) from error


def version_in(body: bytes) -> str:
    """Return the version that a server tells at `/version`.

    Raises:
        ApiError: This is not an API server.
    """
    try:
        return msgspec.json.decode(body, type=_VersionInfo).git_version
    except ValueError as error:
        raise ApiError(200, "", f"this is not a Kubernetes API server: {body[:256]!r}") from error


async def _events(kind: type[R], lines: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent[R], None]:
    async for line in lines:
        event = decoding.read_event(kind, line)
        if isinstance(event, decoding.Undecodable):
            raise decoding.unreadable(kind, f"{event.key}: {event.why}")
        yield event


@checked
class ConflictRetry(NamedTuple):
    """How often a write is tried, and how long the pauses are.

    Attributes:
        tries: The number of attempts.
        seconds: The first pause, in seconds.
        factor: Multiplies the pause after each attempt.
        jitter: The largest random share that is added to a pause.
    """

    tries: Annotated[int, Meta(ge=1)] = 5
    seconds: NotNegative = 0.01
    factor: NotNegative = 1.0
    jitter: NotNegative = 0.1


# Source: kubernetes/staging/src/k8s.io/client-go/util/retry/util.go, DefaultRetry and DefaultBackoff: the first
# for a rare conflict, the second for objects that many write at once.
DEFAULT_RETRY = ConflictRetry()
DEFAULT_BACKOFF = ConflictRetry(tries=4, factor=5.0)


@checked
async def retry_on_conflict(
    client: Client,
    kind: type[R],
    key: Key,
    write: Callable[[R], Awaitable[T]],
    *,
    retry: ConflictRetry = DEFAULT_RETRY,
    random: randomness.Random | None = None,
) -> T:
    """Read an object and write it, and both again when another client wrote it in between (409 Conflict).

    The object is read from the server each time, never from a store: a store that lags behind would lead
    to the same conflict again.

    Args:
        client: Reads the object.
        kind: The type of the object.
        key: Its namespace and name.
        write: Makes one attempt with the object as it is now, and lets ConflictError pass.
        retry: How often, and with which pauses.
        random: The source of the jitter.

    Returns:
        The return value of `write`.

    Raises:
        ConflictError: The last attempt conflicted as well.
        ApiError: Any other refusal, at once.
    """
    # Imported when something is written this way: most processes never need it.
    import tenacity  # noqa: PLC0415  # see above

    chance = random or randomness.Random()

    def pause(state: tenacity.RetryCallState) -> float:
        return retry.seconds * retry.factor ** (state.attempt_number - 1) * (1 + retry.jitter * chance.random())

    async def attempt() -> T:
        return cast("T", await awaited(write(await client.get(kind, key)), "retry_on_conflict: write"))

    policy = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(ConflictError), wait=pause,
        stop=tenacity.stop_after_attempt(retry.tries), sleep=asyncio.sleep, reraise=True,
    )  # fmt: skip
    return await policy(attempt)


# When the server ends a watch, and the next one begins.
_WATCH_SECONDS = 300
_WHOLE_LOG = LogOptions()


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[[object], Callable[Concatenate["SyncClient", P], T]]:
    @wraps(method)
    def call(self: "SyncClient", /, *arguments: P.args, **given: P.kwargs) -> T:
        return self._run(method(self._client, *arguments, **given))

    return lambda _: call


class SyncClient:
    """A client whose methods block; `kcr.connect` makes it.

    `get`, `list`, `create`, `create_manifest`, `update`, `apply`, `apply_manifest`, `patch`, `patch_status`,
    `merge_patch`, `delete`, `log`, `exec` and `server_version` have the arguments, objects and errors of `kcr.Client`.
    Several threads may use it. Ctrl-C ends a call, and cancels its request.

    Attributes:
        namespace: That of the kubeconfig's context, or the one that `kcr.connect` was given.
    """

    @_blocking(Client.get)
    def get(self) -> None: ...

    @_blocking(Client.list)
    def list(self) -> None: ...

    @_blocking(Client.create)
    def create(self) -> None: ...

    @_blocking(Client.create_manifest)
    def create_manifest(self) -> None: ...

    @_blocking(Client.update)
    def update(self) -> None: ...

    @_blocking(Client.apply)
    def apply(self) -> None: ...

    @_blocking(Client.apply_manifest)
    def apply_manifest(self) -> None: ...

    @_blocking(Client.patch)
    def patch(self) -> None: ...

    @_blocking(Client.patch_status)
    def patch_status(self) -> None: ...

    @_blocking(Client.merge_patch)
    def merge_patch(self) -> None: ...

    @_blocking(Client.delete)
    def delete(self) -> None: ...

    @_blocking(Client.log)
    def log(self) -> None: ...

    @_blocking(Client.exec)
    def exec(self) -> None: ...

    @_blocking(Client.server_version)
    def server_version(self) -> None: ...

    @checked
    def __init__(self, transport: HttpTransport, namespace: str) -> None:
        """Start the thread; the transport is closed with this client."""
        self.namespace: str = namespace
        self._client = Client(transport)
        self._transport = transport
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kcr.connect", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread; without this the end of the process does so."""
        if self._loop.is_closed():
            return
        atexit.unregister(self.close)
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @checked
    def watch(
        self, kind: type[R], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Iterator[WatchEvent[R]]:
        """Yield the present objects as ADDED, then their changes for ever; leave it by `break`.

        Args:
            kind: The kind.
            namespace: Empty for all namespaces.
            labels: A label selector.
            fields: A field selector.

        Raises:
            GoneError: The version to go on from is compacted; begin again.
        """
        for event in self._items(_changes(self._client, kind, namespace, labels, fields)):
            if event is not None:
                yield event

    @checked
    def wait(
        self,
        kind: type[R],
        key: Key,
        condition: str | Callable[[R | None], object],
        *,
        timeout: NotNegative | None = None,
    ) -> R | None:
        """Wait until an object is as wanted, and return it.

        ```python
        cluster.wait(Job, key, "Complete", timeout=60)
        cluster.wait(Deployment, key, kcr.is_ready)
        ```

        Args:
            kind: The kind.
            key: Its namespace and name. It may not exist yet.
            condition: The type of a condition that is to be `True`; `delete` for its absence; or a function of the
                object, which is None while there is none.
            timeout: How many seconds to wait at most; None for any time.

        Raises:
            TimeoutError: The time is over.
        """
        changes = _changes(self._client, kind, key.namespace, "", f"metadata.name={key.name}")
        for event in self._items(changes, f"{kind.resource.display} {key}: not {condition}", timeout):
            obj = event.object if event is not None and event.type != "DELETED" else None
            if condition(obj) if callable(condition) else _holds(obj, condition):
                break
        return obj

    @checked
    def follow_log(self, key: Key, options: LogOptions = _WHOLE_LOG) -> Iterator[bytes]:
        """Follow the log of a container line by line until it ends."""
        return self._items(_lines(self._client, key, options))

    def _items(self, items: AsyncGenerator[T, None], about: str = "", seconds: float | None = None) -> Iterator[T]:
        end, steps = None if seconds is None else self._loop.time() + seconds, set[Any]()
        try:
            while found := self._run(_next(items, steps), None if end is None else end - self._loop.time()):
                yield found[0]
        except TimeoutError:
            raise TimeoutError(f"{about} within {seconds:g} s") from None
        finally:
            with suppress(KcrError):  # it is closed
                self._run(_close(items, steps))

    def _run(self, call: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        if self._loop.is_closed():
            call.close()
            raise KcrError("this client is closed: call kcr.connect() again")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(seconds)
        except BaseException:
            # Ctrl-C, or the end of the time; else it has ended.
            future.cancel()
            raise

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        await self._transport.aclose()
        await self._loop.shutdown_asyncgens()


async def _next(items: AsyncGenerator[T, None], steps: set[Any]) -> tuple[T] | None:
    steps.add(step := asyncio.current_task())
    async for item in items:
        steps.remove(step)
        return (item,)
    return None


async def _close(items: AsyncGenerator[Any, None], steps: set[Any]) -> None:
    for step in steps:  # Ctrl-C may come before its future is known
        step.cancel()
    if steps:
        await asyncio.wait(steps)
    await items.aclose()


async def _changes(
    client: Client, kind: type[R], namespace: str, labels: str, fields: str
) -> AsyncGenerator[WatchEvent[R] | None, None]:
    """Yield the present objects as ADDED, None when there are none, and then their changes."""
    metadata, objects = await client.list_page(kind, namespace, labels=labels, fields=fields)
    for obj in objects:
        yield WatchEvent(type="ADDED", object=obj)
    if not objects:
        yield None
    version = metadata.resource_version
    while True:
        async with client.watch(
            kind, namespace, resource_version=version, timeout_seconds=_WATCH_SECONDS, labels=labels, fields=fields
        ) as events:
            async for event in events:
                version = event.object.metadata.resource_version
                if event.type != "BOOKMARK":
                    yield event


async def _lines(client: Client, key: Key, options: LogOptions) -> AsyncGenerator[bytes, None]:
    async with client.follow_log(key, options) as lines:
        async for line in lines:
            yield line


def _holds(obj: Resource | None, condition: str) -> bool:
    if condition == "delete" or obj is None:
        return obj is None and condition == "delete"
    status = msgspec.json.decode(codec.encode(obj)).get("status") or {}
    return any(one["type"] == condition and one["status"] == "True" for one in status.get("conditions") or ())


@checked
def connect(kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None) -> SyncClient:
    """Connect to a cluster, for scripts and notebooks: a client whose methods block.

    ```python
    with kcr.connect() as cluster:
        for pod in cluster.list(Pod, cluster.namespace):
            print(pod.metadata.name, pod.status.phase)
    ```

    Args:
        kubeconfig: A path; None for `$KUBECONFIG`, the pod's account or `~/.kube/config`.
        context: The context in the kubeconfig; None for its current one.
        namespace: The attribute `namespace`; None for that of the context.

    Raises:
        ConfigError: There is no configuration, or it is not usable.
    """
    config = load_config(kubeconfig, context)
    return SyncClient(HttpTransport(config), config.namespace if namespace is None else namespace)
