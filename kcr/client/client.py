"""Reading and writing objects on the server, typed."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TypeVar

import msgspec

from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ListMeta, Resource
from kcr.client import decoding
from kcr.client.limiter import RateLimit
from kcr.client.requests import (
    IDLE_SECONDS,
    PAGE_SIZE,
    delete_options,
    target,
    watch_query,
)
from kcr.client.retry import CALL_SECONDS, with_retries
from kcr.client.transport import Request, Transport
from kcr.errors import ApiError

R = TypeVar("R", bound=Resource)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


class Client:
    """Talks to the server, always: cached reads are the stores'.

    Every method raises `ApiError` when the server says no, and `TransportError` when no answer came; a
    write may have happened then. Answers 429 and 5xx that name a time to wait are tried again, and reads
    whose connection failed.
    """

    def __init__(self, transport: Transport, *, limiter: RateLimit | None = None, field_manager: str = "kcr") -> None:
        """Make a client.

        Args:
            transport: How requests reach the server.
            limiter: Slows calls down; watches pass. None for no limit.
            field_manager: The name under which the server notes what this client writes.
        """
        self._transport = transport
        self._limiter = limiter
        self._field_manager = field_manager

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """Return one object as it is now.

        Raises:
            NotFoundError: There is none of this name.
        """
        body = await self.request("GET", kind.resource.path(namespace, name))
        return decoding.read_object(kind, body)

    async def list(self, kind: type[R], namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[R, ...]:
        """Return all objects of a kind, read page by page.

        Raises:
            GoneError: The pages took so long that the server forgot the version they show; start again.
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

    async def list_page(  # noqa: PLR0913  # the parameters of a list request, all by name
        self,
        kind: type[R],
        namespace: str = "",
        *,
        limit: int = 0,
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
            resource_version: Empty for the newest state, which is what pages need.
            labels: A label selector.
            fields: A field selector.

        Raises:
            ApiError: Also when an object does not fit the type.
        """
        query = {
            "limit": limit or "", "continue": continue_, "resourceVersion": resource_version,
            "labelSelector": labels, "fieldSelector": fields,
        }  # fmt: skip
        body = await self.request("GET", target(kind.resource.path(namespace), query))
        try:
            return codec.decode_items(kind, body)
        except msgspec.DecodeError as error:
            raise decoding.misfit(kind, error) from error

    async def create(self, obj: R) -> R:
        """Create an object, and return it as the server stored it.

        Raises:
            AlreadyExistsError: The name is taken.
            InvalidError: The server refuses the object; `causes` name the fields.
        """
        return await self._create(type(obj), obj.metadata.namespace, codec.encode(obj))

    async def create_manifest(self, kind: type[R], manifest: Mapping[str, object] | bytes, namespace: str = "") -> R:
        """Create an object from a plain mapping or its JSON, whole: nothing of it is lost to the type."""
        body = manifest if isinstance(manifest, bytes) else codec.encode(manifest)
        return await self._create(kind, namespace, body)

    async def _create(self, kind: type[R], namespace: str, body: bytes) -> R:
        answer = await self.request("POST", self._writing(kind.resource.path(namespace)), body)
        return decoding.read_object(kind, answer)

    async def patch(self, old: R, new: R, *, subresource: str = "") -> R:
        """Write what differs between two versions, as a merge patch; nothing when they are equal.

        Args:
            old: The version that `new` was made from. Its resourceVersion is the precondition.
            new: What it is to be. Lists are replaced whole, so they must be ours alone.
            subresource: For example `status`.

        Raises:
            ConflictError: The object has changed since `old` was read.
        """
        difference = codec.difference(old, new)
        if not difference:
            return old
        metadata = difference.setdefault("metadata", {})
        metadata["resourceVersion"] = old.metadata.resource_version
        return await self.merge_patch(type(old), old.key, difference, subresource=subresource)

    async def merge_patch(self, kind: type[R], key: Key, patch: Mapping[str, object], *, subresource: str = "") -> R:
        """Apply a JSON merge patch, and return the object as it is then. Source: RFC 7396."""
        return await self._patch(kind, key, patch, subresource, MERGE_PATCH)

    async def strategic_patch(
        self, kind: type[R], key: Key, patch: Mapping[str, object], *, subresource: str = ""
    ) -> R:
        """Apply a strategic merge patch, which merges lists by their keys. Built-in kinds only."""
        return await self._patch(kind, key, patch, subresource, STRATEGIC_PATCH)

    async def _patch(
        self, kind: type[R], key: Key, patch: Mapping[str, object], subresource: str, content_type: str
    ) -> R:
        path = self._writing(kind.resource.path(key.namespace, key.name, subresource))
        return decoding.read_object(kind, await self.request("PATCH", path, codec.encode(patch), content_type))

    async def delete(
        self,
        kind: type[Resource],
        key: Key,
        *,
        uid: str = "",
        propagation: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object, or ask for it when finalizers or grace keep it.

        Args:
            kind: The type of the object.
            key: Its namespace and name.
            uid: When given, an object of the same name that was made later is left alone.
            propagation: `Background`, `Foreground` or `Orphan`; empty for the kind's own default.
            grace_period_seconds: None for the object's own.

        Raises:
            NotFoundError: It is gone already.
            ConflictError: The object of this name has another uid.
        """
        options = delete_options(uid, propagation, grace_period_seconds)
        await self.request("DELETE", kind.resource.path(key.namespace, key.name), codec.encode(options))

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
        """Follow the changes of a kind, BOOKMARKs included.

        Args:
            kind: The type of the objects.
            namespace: Empty for all namespaces.
            resource_version: Where to begin: after this version.
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
        return self._watch(kind, target(kind.resource.path(namespace), query))

    @asynccontextmanager
    async def _watch(self, kind: type[R], path: str) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        async with self.lines(path) as lines, aclosing(_events(kind, lines)) as events:
            yield events

    @asynccontextmanager
    async def lines(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET and give its answer line by line, for as long as the context lives.

        The iteration raises TransportError when nothing comes for 90 s.

        Args:
            path: Path and query, percent-encoded.
        """
        headers = {"accept": JSON, "accept-encoding": "identity"}
        request = Request("GET", path, headers, timeout_seconds=None, idle_seconds=IDLE_SECONDS)
        async with self._transport.send(request) as response:
            if response.status >= 300:
                raise decoding.error_from(response.status, response.headers, await response.read())
            lines = response.lines()
            try:
                yield lines
            finally:
                if isinstance(lines, AsyncGenerator):
                    await lines.aclose()

    async def request(self, method: str, target: str, body: bytes = b"", content_type: str = JSON) -> bytes:
        """Send anything else, and return the body of the answer.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            target: Path and query, percent-encoded.
            body: Empty for none.
            content_type: What the body is.
        """
        headers = {"accept": JSON, "content-type": content_type} if body else {"accept": JSON}
        request = Request(method, target, headers, body, CALL_SECONDS)
        return await with_retries(request, self._send)

    async def _send(self, request: Request) -> bytes:
        if self._limiter is not None:
            await self._limiter.wait()
        async with self._transport.send(request) as response:
            body = await response.read()
            if response.status >= 300:
                raise decoding.error_from(response.status, response.headers, body)
            return body

    async def server_version(self) -> str:
        """Return the server's version, such as `v1.32.0`; `+kcr` at its end means the embedded server."""
        body = await self.request("GET", "/version")
        try:
            return msgspec.json.decode(body, type=_VersionInfo).git_version
        except msgspec.DecodeError as error:
            raise ApiError(200, "", f"this is no Kubernetes API server: {body[:256]!r}") from error

    def _writing(self, path: str) -> str:
        return target(path, {"fieldManager": self._field_manager})


async def _events(kind: type[R], lines: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent[R], None]:
    async for line in lines:
        event = decoding.read_event(kind, line)
        if isinstance(event, decoding.Refused):
            raise decoding.misfit(kind, msgspec.ValidationError(f"{event.key}: {event.why}"))
        yield event
