"""Fault injection between a client and its server, at the requests and watch events that a test chooses.

```python
faults = FaultyTransport(cluster.transport)
faults.on("create", Pod, nth=3).fail(ConflictError)
faults.on("patch", Job, chance=0.1).lose_reply()
faults.on("patch", Pod, nth=1).lose_reply("cut")
faults.on("create", Secret).arrive_late(2, cut_after=0.3)
faults.on("list").fail(TooManyRequestsError, retry_after_seconds=5)
faults.on("create", Pod).change(lambda pod: pod["metadata"]["labels"].clear())
faults.on("watch", Pod, nth=1).freeze(after=2)
faults.on("event", Pod, nth=3).drop()
faults.on("event", Job).then(released.wait)
manager = Manager(Client(faults), clock=clock)
```

Faults by chance are drawn from `random`, so that a seed repeats them. Everything goes wrong now and then, until `heal`:

```python
faults = FaultyTransport(cluster.transport, random=Random(seed))
faults.on("write", chance=0.1).draw()
faults.on("event", chance=0.1).draw("delay", "repeat", "cut")
faults.on("write").during(20, 28).draw("lose_request", "500", "page 502")
```

It wraps a transport, as `CrashingTransport` does, and the two can be stacked: this one injects faults of the network
and the server, that one crashes the process.
"""

import asyncio
import json
import random as randomness
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated

from msgspec import Meta

from kcr.annotations import Count
from kcr.api.meta import Resource
from kcr.arguments import checked
from kcr.client import Request, Response, Transport
from kcr.errors import TransportError
from kcr.testing.fakes import MadeUp, refusal
from kcr_devcluster.calls import Call, call_of
from kcr_devcluster.testing.losses import lost, page
from kcr_devcluster.testing.rules import (
    ArriveLate,
    Cut,
    Delay,
    Disturbance,
    Drop,
    Edit,
    Fail,
    Fault,
    Freeze,
    Lag,
    LoseReply,
    LoseRequest,
    Repeat,
    Rule,
    Selector,
    Subject,
    Then,
)

_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED"})
_WITH_OBJECT = frozenset({"create", "update", "patch"})


class FaultyTransport:
    """Forwards requests, and injects the faults of its rules.

    Attributes:
        calls: Every request, in order, with or without a fault.
        under_way: The requests of `arrive_late` that have not arrived.
        seen: How often each fault happened, by its name: `lose_reply cut`, `409`, `drop`.
    """

    @checked
    def __init__(self, inner: Transport, *, random: randomness.Random | None = None) -> None:
        """Make a transport.

        Args:
            inner: The way to the server.
            random: The source of randomness for rules with a chance, and for drawn faults.
        """
        self.calls: list[Call] = []
        self.under_way: list[Request] = []
        self.seen: Counter[str] = Counter()
        self.inner = inner
        self._deliveries: set[asyncio.Task[MadeUp]] = set()
        self._random = random or randomness.Random(0)
        self._selectors: list[Selector] = []

    @checked
    def on(
        self,
        verb: Subject = "",
        kind: type[Resource] | None = None,
        *,
        nth: Count = 0,
        chance: Annotated[float, Meta(ge=0, le=1)] = 1.0,
        name: str = "",
        most: Count = 0,
    ) -> Rule:
        """Return a new rule for requests of a verb, a kind and a name; each that is omitted matches all.

        Rules for events apply at once, also to watches that have begun; bookmarks are no events.

        Args:
            verb: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`; `write` for the last four; `event`
                for each event of a watch.
            kind: The type of the objects.
            nth: Matches only the n-th such request or event from now on; 0 for every one.
            chance: The probability of a match.
            name: The object's name. Creations have none before they are answered.
            most: Matches so often at most; 0 for no limit.
        """
        selector = Selector(verb, kind, nth, chance, name, most)
        self._selectors.append(selector)
        return Rule(selector)

    def heal(self) -> None:
        """Remove all rules. Watches that are silent stay so until their reader closes them."""
        for selector in self._selectors:
            selector.is_over = True
        self._selectors.clear()

    async def arrived(self) -> None:
        """Wait until all requests that are under way have arrived."""
        while self._deliveries:
            await asyncio.wait(self._deliveries)

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        return self._send(request)

    def _faults(self, verb: str, resource: tuple[str, str, str], name: str) -> list[tuple[Selector, Fault]]:
        """Return the faults of a request or event, each with the selector that took it."""
        taken = [one for one in self._selectors if one.takes(verb, resource, name, self._random)]
        faults = [(one, one.fault_of(verb, self._random)) for one in taken]
        self.seen.update(str(fault) for _, fault in faults)
        return faults

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        call = call_of(request.method, request.target)
        self.calls.append(call)
        faults = self._faults(*call[:3])
        for _, fault in faults:
            if isinstance(fault, Edit) and call.verb in _WITH_OBJECT:
                request = request._replace(body=_changed(request.body, fault))
        answer = await self._before(request, (fault for _, fault in faults))
        if answer is not None:
            yield answer
            return
        async with self.inner.send(request) as response:
            is_watch = call.verb == "watch"
            reply: Response = _Events(response, request, call, self._faults_of_event) if is_watch else response
            for selector, fault in faults:
                match fault:
                    case LoseReply(loss):
                        reply = await lost(request, reply, loss)
                    case Freeze() | Cut() | Repeat() | Lag():
                        reply = _Disturbed(reply, request, selector, fault)
            yield reply

    def _faults_of_event(self, call: Call, line: bytes) -> list[Fault]:
        if not any(one.verb == "event" for one in self._selectors):
            return []
        try:
            event = json.loads(line)
        except ValueError:
            return []
        if not isinstance(event, dict) or event.get("type") not in _EVENTS:
            return []
        name = event.get("object", {}).get("metadata", {}).get("name", "")
        return [fault for _, fault in self._faults("event", call.resource, name)]

    async def _before(self, request: Request, faults: Iterable[Fault]) -> MadeUp | None:
        """Let the faults before a request happen; return the answer that comes in place of the server's."""
        for fault in faults:
            match fault:
                case Delay(seconds):
                    await asyncio.sleep(seconds())
                case Then(act):
                    await act()
                case LoseRequest(page=code):
                    if not code:
                        raise TransportError(f"{request.method} {request.target}: the request was lost")
                    return page(code)
                case Fail(error):
                    return refusal(error)
                case ArriveLate() if "watch=" not in request.target:
                    return await self._arrive_late(request, fault)
        return None

    async def _arrive_late(self, request: Request, fault: ArriveLate) -> MadeUp:
        # The fence is the sender's, which has sent it already.
        sent = request._replace(fence=None)
        delivery = asyncio.create_task(  # noqa: TID251  # a sender that is cancelled takes nothing back
            self._deliver(sent, fault.seconds())
        )
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)
        cut_after = fault.cut_after if fault.answered else request.timeout_seconds
        try:
            async with asyncio.timeout(cut_after):
                answer = await asyncio.shield(delivery)
                if not fault.answered:
                    await asyncio.get_running_loop().create_future()
        except TimeoutError:
            raise TransportError(f"{request.method} {request.target}: the connection was cut") from None
        return answer

    async def _deliver(self, request: Request, seconds: float) -> MadeUp:
        self.under_way.append(request)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.under_way.remove(request)
        async with self.inner.send(request) as response:
            return MadeUp(response.status, await response.read(), response.headers)


def _changed(body: bytes, fault: Edit, *, of_event: bool = False) -> bytes:
    """Return an object, or the event with it, as a fault changes it."""
    found = json.loads(body)
    fault.change(found["object"] if of_event else found)
    return json.dumps(found).encode()


def _cut_off(request: Request) -> TransportError:
    return TransportError(f"{request.method} {request.target}: the connection was cut")


async def _silence(request: Request) -> None:
    """Wait as long as a reader does: over HTTP one with an idle timeout gets an error after so long."""
    idle = request.idle_seconds
    await (asyncio.get_running_loop().create_future() if idle is None else asyncio.sleep(idle))


class _Stream:
    """A response whose lines are disturbed."""

    def __init__(self, inner: Response, request: Request) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._request = request

    async def read(self) -> bytes:
        return await self._inner.read()


class _Events(_Stream):
    """A watch with faults at single events."""

    def __init__(
        self, inner: Response, request: Request, call: Call, faults: Callable[[Call, bytes], list[Fault]]
    ) -> None:
        super().__init__(inner, request)
        self._call, self._faults = call, faults

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._inner.lines():
            arriving = [line]
            for fault in self._faults(self._call, line):
                match fault:
                    case Cut(how="end"):
                        return
                    case Cut(how=how):
                        if how == "half":
                            yield line[: len(line) // 2]
                        raise _cut_off(self._request)
                    case _:
                        arriving = await self._disturb(arriving, fault)
            for one in arriving:
                yield one

    async def _disturb(self, arriving: list[bytes], fault: Fault) -> list[bytes]:
        """Let a fault happen; return the lines that arrive in place of those before."""
        match fault:
            case Delay(seconds):
                await asyncio.sleep(seconds())
            case Then(act):
                await act()
            case Freeze():
                await _silence(self._request)
                raise _cut_off(self._request)
            case Drop():
                return []
            case Repeat():
                return 2 * arriving
            case Edit():
                return [_changed(line, fault, of_event=True) for line in arriving]
        return arriving


class _Disturbed(_Stream):
    """A response with faults in its lines."""

    def __init__(self, inner: Response, request: Request, selector: Selector, fault: Disturbance) -> None:
        super().__init__(inner, request)
        self._selector, self._fault = selector, fault

    async def lines(self) -> AsyncIterator[bytes]:
        match self._fault:
            case Lag(seconds):
                lines = self._late_lines(seconds)
            case Repeat():
                lines = self._repeated_lines()
            case Freeze(after) | Cut(after=after):
                lines = self._ended_lines(after())
        async for line in lines:
            yield line

    async def _repeated_lines(self) -> AsyncIterator[bytes]:
        async for line in self._inner.lines():
            yield line
            if not self._selector.is_over:
                yield line

    async def _ended_lines(self, left: int) -> AsyncIterator[bytes]:
        how = self._fault.how if isinstance(self._fault, Cut) else "error"
        lines = self._inner.lines()
        while left > 0 or self._selector.is_over:
            if (line := await anext(lines, None)) is None:
                return
            yield line
            left -= 1
        if how == "end":
            return
        if how == "half" and (line := await anext(lines, b"")):
            yield line[: len(line) // 2]
        if isinstance(self._fault, Freeze):
            await _silence(self._request)
        raise _cut_off(self._request)

    async def _late_lines(self, seconds: Callable[[], float]) -> AsyncIterator[bytes]:
        """Take lines as they come, and hold them back, so that one delay does not add to the next."""
        loop, held = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes | Exception | None]]()

        async def take() -> None:
            end: Exception | None = None
            try:
                async for line in self._inner.lines():
                    held.put_nowait((loop.time() + (0.0 if self._selector.is_over else seconds()), line))
            except Exception as error:  # the reader gets it
                end = error
            held.put_nowait((loop.time(), end))

        taking = asyncio.create_task(take())  # noqa: TID251  # a reader may stop at any line, which ends no group
        try:
            while True:
                due, line = await held.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if isinstance(line, bytes):
                    yield line
                elif line is not None:
                    raise line
                else:
                    return
        finally:
            taking.cancel()
