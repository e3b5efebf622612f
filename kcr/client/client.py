"""The client: typed reads here, writes and subresources from its bases; and what writes again after a conflict."""

import asyncio
import random as randomness
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import Annotated, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Meta

from kcr.annotations import Count, NotNegative
from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ListMeta, Resource
from kcr.arguments import awaited, checked, checked_on_failure
from kcr.client.streams import Streams
from kcr.client.subresources import Subresources
from kcr.client.wire import decoding
from kcr.client.wire.transport import PAGE_SIZE, accept, object_path, target, watch_query
from kcr.client.writes import Writes
from kcr.errors import ApiError, BadRequestError, ConflictError

R = TypeVar("R", bound=Resource)
T = TypeVar("T")


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


class Client(Writes, Subresources, Streams):
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
