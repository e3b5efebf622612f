"""Requests of a client: throttling, retries, warnings, missing permissions, and dry runs.

Dry runs are requests that the server checks, admits and answers, and whose outcome it does not keep. The typed writes
set `dryRun=All` themselves. Raw requests of a user's code, and those of kubernetes-asyncio, are changed here, so that
no write of a program in a dry run is real.
"""

import asyncio
import copy
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import unquote

import msgspec

from kcr.annotations import Text
from kcr.api.resources import ResourceType
from kcr.arguments import checked
from kcr.client.context import WRITE_CONTEXT, WritingClient
from kcr.client.wire import decoding
from kcr.client.wire.decoding import name_in
from kcr.client.wire.observed import ObservedTransport, RequestObserver, TracedTransport
from kcr.client.wire.pressure import CALL_SECONDS, Pressure, RateLimit, send_again
from kcr.client.wire.transport import IDLE_SECONDS, JSON, Request, Response, Transport, target
from kcr.errors import ApiError, KcrError, TransportError
from kcr.log import get_logger

FieldValidation = Literal["", "Ignore", "Warn", "Strict"]

_log = get_logger("kcr.client")
# Bounded: a server may put something new into every warning.
_WARNINGS_KEPT = 1000

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# They do something else than storing an object, and know no dry run.
_CONNECTS = re.compile(r"/(?:pods|services|nodes)/[^/]+/(?:exec|attach|portforward|proxy)(?:/|$)")
# Over WebSockets they are a GET.
_STREAMS = re.compile(r"/pods/[^/]+/(?:exec|attach|portforward)(?:/|$)")
# They are questions, though they are sent as a POST.
_REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")


class WriteOptions(NamedTuple):
    """The options of all writes; see `Calls.with_options`."""

    field_manager: str
    field_validation: FieldValidation = ""
    dry_run: bool = False

    def query(self, *, field_manager: str = "", force: bool = False) -> str:
        """Return the query of a write."""
        return target("", {
            "fieldManager": field_manager or self.field_manager, "force": "true" if force else "",
            "fieldValidation": self.field_validation, "dryRun": "All" if self.dry_run else "",
        })  # fmt: skip


class Calls:
    """Sends requests; the base of `Client`."""

    @checked
    def __init__(
        self,
        transport: Transport,
        *,
        limiter: RateLimit | None = None,
        field_manager: Text = "kcr",
        observer: RequestObserver | None = None,
        pressure: Pressure | None = None,
    ) -> None:
        """Make a client.

        Args:
            transport: Sends requests to the server.
            limiter: Client-side rate limit; watches are exempt. None for no limit.
            field_manager: The field manager of this client's writes.
            observer: Called for every request, retry and watch, such as `metrics.requests(host)`; None for the
                metrics of the sending manager.
            pressure: Limits the requests in flight by the server's load; watches are exempt. None for one of
                this client and of those made from it.
        """
        # Outside, so that the observer knows the span.
        self._transport = TracedTransport(ObservedTransport(transport, observer))
        self._limiter = limiter
        # None for a client without limits.
        self._pressure: Pressure | None = pressure or Pressure()
        self._options = WriteOptions(field_manager)
        self._query = self._options.query()
        # Called before every write; it raises when this process may write no more.
        self._fence: Callable[[], None] | None = None
        # Part of the User-Agent; empty for the program as a whole.
        self._component = ""
        # Patches that changed nothing, as hashes with the resourceVersion; one map for all clients made from this one.
        self._without_effect: dict[tuple[object, ...], int] = {}
        # The server's warnings that were logged; one set for all clients made from this one.
        self._warned: set[str] = set()
        # The kinds that the server serves, by group and version, as far as they were asked for; shared likewise.
        self.served: dict[str, dict[str, ResourceType]] = {}
        # Whether it serves a subresource, as far as that was asked for; shared likewise.
        self.served_subresources: dict[tuple[ResourceType, str], bool] = {}
        # Missing permissions that were logged: verb, resource, group; shared likewise.
        self._missing_rights: set[tuple[str, str, str]] = set()

    @checked
    def with_options(
        self,
        *,
        field_manager: Text | None = None,
        field_validation: FieldValidation | None = None,
        dry_run: bool | None = None,
        fence: Callable[[], None] | None = None,
        throttled: bool = True,
    ) -> Self:
        """Return a client on the same connection with other options of writes; None keeps an option.

        Args:
            field_manager: The field manager, such as a controller's name. It is also part of the
                User-Agent, which distinguishes the controllers of a program in the server's logs.
            field_validation: Whether fields that the server does not know are refused (`Strict`), logged as a
                warning (`Warn`, the server's default) or dropped silently (`Ignore`).
            dry_run: Whether writes are checked and answered by the server, and not kept; each is logged.
            fence: Called before every write, and again when a connection is available; an exception prevents the
                write, as with `LeaderElector.check`.
            throttled: False lifts all limits of requests, for the few that a user waits for.
        """
        other, old = copy.copy(self), self._options
        other._options = WriteOptions(
            old.field_manager if field_manager is None else field_manager,
            old.field_validation if field_validation is None else field_validation,
            old.dry_run if dry_run is None else dry_run,
        )
        other._query = other._options.query()
        other._component = self._component if field_manager is None else field_manager
        other._fence = self._fence if fence is None else fence
        other._limiter, other._pressure = (self._limiter, self._pressure) if throttled else (None, None)
        return other

    @property
    def is_dry_run(self) -> bool:
        """Whether writes are dry runs, which the server does not store: by an option, or in a review of a dry run."""
        return self._options.dry_run or bool(WRITE_CONTEXT.get().dry_run)

    def has_same_server(self, other: WritingClient) -> bool:
        """Return whether the two were made from one client, by `with_options`, and so talk to one server."""
        return self.served is other.served

    @property
    def innermost_transport(self) -> Transport:
        """The transport that reaches the server, below those that observe, trace or fail requests."""
        transport: Transport = self._transport
        while (inner := getattr(transport, "inner", None)) is not None:
            transport = inner
        return transport

    @property
    def component(self) -> str:
        """The part of the program that asks, as the User-Agent names it; empty for the whole."""
        return self._component

    async def request(
        self, method: str, target: str, body: bytes = b"", content_type: str = JSON, *, accept: str = JSON
    ) -> bytes:
        """Send any request as it is given, and return the body of the response.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            target: Path and query, percent-encoded.
            body: Empty for none.
            content_type: The media type of the body.
            accept: The media types that the answer may have.
        """
        headers = {"accept": accept, "content-type": content_type} if body else {"accept": accept}
        request = Request(method, target, headers, body, CALL_SECONDS, component=self._component)
        is_dry_run = self.is_dry_run
        sent = as_dry_run(request) if is_dry_run else request
        # The policy is entered when this fails: a call in between would cost each request.
        began = asyncio.get_running_loop().time()
        try:
            answer = await self._send(sent)
        except (ApiError, TransportError) as error:
            answer = await send_again(sent, self._send, error, began, self._pressure)
        if is_dry_run:
            _log_dry_run(request)
        return answer

    @asynccontextmanager
    async def lines(
        self, path: str, *, idle_seconds: float | None = IDLE_SECONDS, accept: str = JSON
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET and yield its response line by line, for as long as the context lives.

        Args:
            path: Path and query, percent-encoded.
            idle_seconds: When nothing comes for so long, the iteration raises TransportError; None for never.
            accept: The media types that the answer may have.
        """
        headers = {"accept": accept, "accept-encoding": "identity"}
        request = Request(
            "GET", path, headers, timeout_seconds=None, idle_seconds=idle_seconds, component=self._component
        )
        async with self._transport.send(request) as response:
            await self._check(request, response)
            lines = response.lines()
            try:
                yield lines
            finally:
                if isinstance(lines, AsyncGenerator):
                    await lines.aclose()

    @asynccontextmanager
    async def exchange(self, request: Request) -> AsyncIterator[Response]:
        """Send a request once, as it is given, and yield its response, even a refusal.

        The client's rate limit holds for all requests that have a timeout, and its metrics count it; warnings and
        missing permissions are logged.
        """
        if request.timeout_seconds is None:
            async with self._answer(request) as (response, _):
                yield response
            return
        if self._limiter is not None:
            await self._limiter.wait(request.method)
        if self._pressure is None:
            async with self._answer(request) as (response, _):
                yield response
            return
        async with self._pressure.here().place(request) as place, self._answer(request) as (response, refusal):
            place.answered(refusal)
            yield response

    @asynccontextmanager
    async def _answer(self, request: Request) -> AsyncIterator[tuple[Response, ApiError | None]]:
        """Send a request once, and yield its response and the error that this stands for."""
        # After the wait: the lease may have been lost in it.
        fenced = self._fenced(request)
        is_dry_run = self.is_dry_run
        sent = as_dry_run(fenced) if is_dry_run else fenced
        async with self._transport.send(sent) as response:
            refusal = None
            try:
                await self._check(sent, response)
            except ApiError as error:
                refusal = error
            if is_dry_run and refusal is None:
                _log_dry_run(request)
            yield response, refusal

    def _write(
        self, method: str, path: str, body: bytes, content_type: str = JSON, query: str = ""
    ) -> Coroutine[Any, Any, bytes]:
        return self.request(method, path + (query or self._query), body, content_type)

    async def _send(self, request: Request) -> bytes:
        """Send a request once, and return the body of its answer; one function, for each call would cost a request."""
        if self._limiter is not None:
            await self._limiter.wait(request.method)
        places, sent_at = None, None
        if self._pressure is not None:
            places = self._pressure.here()
            sent_at = places.enter()
            if sent_at is None:
                sent_at = await places.wait(request)
        try:
            async with self._transport.send(self._fenced(request)) as response:
                headers = response.headers
                if response.status >= 300 or "warning" in headers:
                    await self._check(request, response)
                body = await response.read()
        except BaseException as error:
            if places is not None and sent_at is not None:
                places.leave(sent_at, error)
            raise
        if places is not None and sent_at is not None:
            places.leave(sent_at)
        return body

    def _fenced(self, request: Request) -> Request:
        """Check the fence of a write, and let the transport check it again when it has a connection."""
        is_read = request.method == "GET" and "upgrade" not in request.headers
        if self._fence is None or is_read or WRITE_CONTEXT.get().every_replica:
            return request
        self._fence()
        return request._replace(fence=self._fence)

    async def _check(self, request: Request, response: Response) -> None:
        headers = response.headers
        if "warning" in headers:
            self._log_warnings(headers["warning"])
        if response.status >= 300:
            body = await response.read()
            error = decoding.error_from(response.status, headers, body, request.method, request.target)
            self._log_missing_right(error)
            raise error

    def _log_missing_right(self, error: ApiError) -> None:
        """Log a missing permission at its first refusal: the controller only retries."""
        right = decoding.missing_right(error)
        if right is not None and right not in self._missing_rights:
            self._missing_rights.add(right)
            verb, resource, group = right
            _log.error(
                "permission is missing", verb=verb, resource=resource, group=group, error=error.message,
                remedy="grant it with a Role or ClusterRole, such as `kcr rbac generate` writes",
            )  # fmt: skip

    def _log_warnings(self, header: str) -> None:
        for text in decoding.warnings_in(header):
            if text not in self._warned:
                if len(self._warned) >= _WARNINGS_KEPT:
                    self._warned.clear()
                self._warned.add(text)
                _log.warning("the server warns", warning=text)


def _log_dry_run(request: Request) -> None:
    """Log the effect of an accepted dry-run write; reads are not logged."""
    if write := describe_write(request):
        _log.info("dry run: accepted, not stored", **write)


def as_dry_run(request: Request) -> Request:
    """Return a write as a dry run of it; a read as it is.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go, DeleteResource: the options in
    the body of a DELETE go before those in its query, which is not read then.

    Raises:
        KcrError: The request has no dry run.
    """
    path, _, query = request.target.partition("?")
    if (request.method in _READS and not _STREAMS.search(path)) or path.startswith(_REVIEWS):
        return request
    if _CONNECTS.search(path):
        raise KcrError(f"{request.method} {path}: not sent, for there is no dry run of it")
    if request.method == "DELETE" and request.body:
        try:
            options = {**msgspec.json.decode(request.body, type=dict), "dryRun": ["All"]}
        except ValueError as error:
            raise KcrError(f"DELETE {path}: not sent, for its body is not a JSON object: no dry run of it") from error
        return request._replace(body=msgspec.json.encode(options))
    # An empty `dryRun=` is no dry run, and whichever value came first might count.
    kept = [part for part in query.split("&") if part and unquote(part.partition("=")[0]) != "dryRun"]
    return request._replace(target=f"{path}?{'&'.join((*kept, 'dryRun=All'))}")


def describe_write(request: Request) -> dict[str, str]:
    """Return the verb and the object's path of a write, for a log line; None for a read."""
    path = request.target.partition("?")[0]
    if request.method in _READS or path.startswith(_REVIEWS):
        return {}
    if request.method == "POST":
        path = f"{path}/{name_in(request.body)}".rstrip("/")
    return {"verb": _VERBS.get(request.method, request.method), "object": path}
