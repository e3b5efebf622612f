"""The line of one process of the operator to the API server, on which the faults of a plan happen."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from random import Random
from typing import Any

from structlog.contextvars import get_contextvars

from kcr.client import Request, Response
from kcr.errors import ServerError, TooManyRequestsError, TransportError
from kcr.testing.fakes import refusal
from kcr_devcluster.calls import Call, call_of
from kcr_devcluster.testing.crash import CrashingTransport
from kcr_devcluster.testing.explore.history import Step
from kcr_devcluster.testing.explore.plans import Plan
from kcr_devcluster.testing.explore.recorder import ACTOR, OPERATOR, OTHER, Recorder
from kcr_devcluster.testing.explore.states import TOUCHED

# The namespace for the objects of scenarios.
NAMESPACE = "explore"
# How late a late reply comes, and a late event. While the deletion of an owner is late, an operator and the garbage
# collector create and delete its children in turn, so an event is not late for long, and each write takes some time.
LATE_SECONDS = 10.0
_LATE_EVENT_SECONDS = 2.0
_WRITE_SECONDS = 0.02
# A proxy may still deliver the request of a connection that is cut, so long after it was sent.
_ARRIVAL_SECONDS, _CUT_SECONDS = 2.0, 0.3
# On a line that is cut, a request fails after so long.
_TIMEOUT_SECONDS = 5.0
# How late events are at most where all of them are.
_JITTER_SECONDS = 1.0
_READS = frozenset({"get", "list", "watch"})
# Writes that no fault happens at: they say nothing about what the operator has achieved.
_SIDE = frozenset({"events", "leases"})
_SPOKEN = {
    "crash-before": "crash before it",
    "crash-after": "crash after it",
    "reply-lost": "done, the reply is lost",
    "reply-late": f"done, the reply comes {LATE_SECONDS:.0f} s late",
    "arrives-late": f"the connection is cut, and it arrives {_ARRIVAL_SECONDS:.0f} s late",
    "changed": "another client changes the object before it",
    "429": "refused: too many requests",
    "500": "refused: internal error",
    "503": "refused: unavailable",
    "hand-over": "the leader loses its connection before it",
    "namespace": "the namespace is deleted before it",
    "deleted": "the object is deleted, and then a crash before it",
    "event-late": f"it comes {_LATE_EVENT_SECONDS:.0f} s late",
    "event-twice": "it comes twice",
    "event-relist": "the watch has expired instead",
    "event-coalesced": f"the watch has expired {_LATE_EVENT_SECONDS:.0f} s later",
}
_REFUSALS = {
    "429": TooManyRequestsError(429, "TooManyRequests", "explore: too many requests", retry_after_seconds=1),
    "500": ServerError(500, "InternalError", "explore: internal error"),
    "503": ServerError(503, "ServiceUnavailable", "explore: unavailable"),
}
_EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"explore: too old resource version","reason":"Expired","code":410}}'
)
_MERGE_PATCH = {"content-type": "application/merge-patch+json", "accept": "application/json"}


def is_write(call: Call) -> bool:
    """Return whether a request is a write that faults may happen at."""
    return call.verb not in _READS and bool(call.resource[2]) and call.resource[2] not in _SIDE


def _is_dry(request: Request) -> bool:
    """Return whether a request is a dry run: by its query, or, of a deletion, by its options."""
    return "dryRun=All" in request.target or b'"dryRun":["All"]' in (request.body or b"")


class Line:
    """The way of one process of the operator to the server."""

    def __init__(
        self, inner: CrashingTransport, plan: Plan, recorder: Recorder, group: asyncio.TaskGroup,
        on_cut: Callable[[], None],
    ) -> None:  # fmt: skip
        """Make a line.

        Args:
            inner: Reaches the server, until the process crashes.
            group: Has the tasks that deliver late.
            plan: What goes wrong.
            recorder: Notes what happens.
            on_cut: Called when the line is cut, while the process lives on.
        """
        self.inner, self._plan, self._recorder, self._on_cut = inner, plan, recorder, on_cut
        self._group = group
        self._is_cut = False
        self._random = Random(plan.jitter)

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request, with the fault that the plan has for it."""
        call = call_of(request.method, request.target)
        if self._is_cut:
            return self._time_out(request)
        if self.inner.crashed.is_set():
            return self.inner.send(request)
        if call.verb == "watch" and call.resource[2] not in _SIDE:
            return self._watch(request)
        return self._write(request, call) if is_write(call) and not _is_dry(request) else self.inner.send(request)

    @asynccontextmanager
    async def _time_out(self, request: Request) -> AsyncIterator[Response]:
        await asyncio.sleep(_TIMEOUT_SECONDS)
        raise TransportError(f"{request.method} {request.target}: explore: the connection is cut")
        yield  # a context manager has one

    @asynccontextmanager
    async def _write(self, request: Request, call: Call) -> AsyncIterator[Response]:
        await asyncio.sleep(_WRITE_SECONDS)
        if self.inner.crashed.is_set():
            await asyncio.get_running_loop().create_future()
        recorder, steps, what = self._recorder, self._recorder.steps, described(request, call)
        context = get_contextvars()
        reconciled = "/".join(filter(None, (context.get("namespace"), context.get("name"))))
        number = recorder.write_for(f"{call.verb} {what}", place_of(request, call), reconciled)
        fault = self._plan.at_write(number)
        who = str(context.get("controller") or OPERATOR)
        if fault in ("changed", "namespace", "deleted"):
            await self._disturb(fault, request, call, number)
        place = len(steps)
        steps.append(Step(now(), who, call.verb, what, 0, _SPOKEN.get(fault, ""), number))
        if (error := _REFUSALS.get(fault)) is not None:
            steps[place] = steps[place]._replace(status=error.code)
            yield refusal(error)
            return

        async def note(response: Response) -> None:
            answer = await response.read() if call.verb == "create" and response.status < 300 else b""
            steps[place] = steps[place]._replace(status=response.status, what=described(request, call, answer))
            recorder.writes[number - 1] = f"{call.verb} {recorder.names.stable(steps[place].what)}"

        if fault == "arrives-late":
            self._group.create_task(self._arrive(request._replace(fence=None), note))
            await asyncio.sleep(_CUT_SECONDS)
            raise TransportError(f"{request.method} {request.target}: explore: the connection was cut")
        await self._end_line(fault, request)
        async with self.inner.send(request) as response:
            await note(response)
            await self._delay_reply(fault, request)
            yield response

    async def _arrive(self, request: Request, note: Callable[[Response], Awaitable[None]]) -> None:
        """Deliver a request late, whether its sender lives or not."""
        await asyncio.sleep(_ARRIVAL_SECONDS)
        async with self.inner.inner.send(request) as response:
            await note(response)

    async def _end_line(self, fault: str, request: Request) -> None:
        """Crash, or cut the line, before a request is sent."""
        if fault in ("crash-before", "deleted"):
            self.inner.crash_after(0)
        if fault == "hand-over":
            self._is_cut = True
            self._on_cut()
            async with self._time_out(request):
                pass

    async def _delay_reply(self, fault: str, request: Request) -> None:
        """Lose or delay the reply to a request that was executed."""
        if fault == "reply-lost":
            raise TransportError(f"{request.method} {request.target}: explore: the reply was lost")
        if fault == "crash-after":
            self.inner.crash_after(0)
            await asyncio.get_running_loop().create_future()
        if fault == "reply-late":
            await asyncio.sleep(LATE_SECONDS)

    async def _disturb(self, fault: str, request: Request, call: Call, number: int) -> None:
        """Change an annotation of the object, or delete it or the namespace, as another client would just before."""
        if fault == "namespace":
            other = Request("DELETE", f"/api/v1/namespaces/{NAMESPACE}", {"accept": "application/json"})
        elif fault == "deleted":
            deletion = self._recorder.deletion_for(number)
            if deletion is None:
                return
            other = _without_preconditions(deletion)
        elif call.name:
            path = request.target.partition("?")[0].removesuffix(f"/{call.subresource}" if call.subresource else "\0")
            body = json.dumps({"metadata": {"annotations": {TOUCHED: str(number)}}}).encode()
            other = Request("PATCH", f"{path}?fieldManager=another", _MERGE_PATCH, body)
        else:
            return
        with acting(OTHER):
            async with self.inner.send(other) as response:
                await response.read()

    @asynccontextmanager
    async def _watch(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.send(request) as response:
            yield _Watch(response, lambda lines: self._events(lines, "sendInitialEvents=true" in request.target))

    async def _events(self, lines: AsyncIterator[bytes], is_first_list: bool) -> AsyncIterator[bytes]:
        """Yield the lines of a watch, with the faults of its events."""
        async for line in lines:
            if self._is_cut:
                raise TransportError("explore: the connection is cut")
            if b'"BOOKMARK"' in line[:24] or is_first_list:
                is_first_list = is_first_list and b'"BOOKMARK"' not in line[:24]
                yield line
                continue
            fault = self._note_event(line)
            if self._plan.jitter:
                await asyncio.sleep(self._random.random() * _JITTER_SECONDS)
            if fault in ("event-late", "event-coalesced"):
                await asyncio.sleep(_LATE_EVENT_SECONDS)
            if fault in ("event-relist", "event-coalesced"):
                yield _EXPIRED
                return
            yield line
            if fault == "event-twice":
                yield line

    def _note_event(self, line: bytes) -> str:
        """Number an event, and return its fault."""
        event = json.loads(line)
        obj = event["object"]
        metadata = obj.get("metadata", {})
        name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        what = f"{event['type'].lower()} {obj.get('kind')} {name}"
        self._recorder.events.append(self._recorder.names.stable(what))
        fault = self._plan.at_event(len(self._recorder.events))
        if fault:
            self._recorder.steps.append(Step(now(), "watch", "", f"event: {what}", 0, _SPOKEN[fault]))
        return fault


class _Watch:
    """A response whose lines pass through a function."""

    def __init__(self, inner: Response, change: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> None:
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self._inner, self._change = inner, change

    async def read(self) -> bytes:
        return await self._inner.read()

    def lines(self) -> AsyncIterator[bytes]:
        return self._change(self._inner.lines()) if self.status == 200 else self._inner.lines()


def _without_preconditions(deletion: Request) -> Request:
    """Return a deletion of the object whose namesake was deleted in another run."""
    options = {name: value for name, value in _decoded(deletion.body).items() if name != "preconditions"}
    return deletion._replace(body=json.dumps(options).encode() if options else b"", fence=None)


def place_of(request: Request, call: Call) -> str:
    """Return namespace and name of the object that a request names, empty where it names none."""
    return "/".join(filter(None, (_namespace_of(request, call), call.name))) if call.name else ""


def _namespace_of(request: Request, call: Call) -> str:
    steps = request.target.partition("?")[0].split("/")
    if "namespaces" in steps[:-2] and call.resource[2] != "namespaces":
        return steps[steps.index("namespaces") + 1]
    return ""


def described(request: Request, call: Call, answer: bytes = b"") -> str:
    """Return the object that a request writes, as `websites.example.dev default/shop/status`.

    Args:
        request: The request.
        call: The same, as verb and resource.
        answer: The body of the answer, which has the name of an object that was created.
    """
    group, _, plural = call.resource
    metadata = _metadata(answer) or ({} if call.name else _metadata(request.body))
    name = call.name or metadata.get("name") or f"{metadata.get('generateName', '')}*"
    place = "/".join(filter(None, (_namespace_of(request, call), name, call.subresource)))
    return f"{plural}.{group} {place}" if group else f"{plural} {place}"


def _metadata(body: bytes) -> Mapping[str, Any]:
    metadata = _decoded(body).get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def acting(actor: str) -> Iterator[None]:
    """Write as somebody else for a while."""
    token = ACTOR.set(actor)
    try:
        yield
    finally:
        ACTOR.reset(token)


def now() -> float:
    """Return the seconds of virtual time."""
    return asyncio.get_running_loop().time()
