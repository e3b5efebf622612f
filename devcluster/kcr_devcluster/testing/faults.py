"""Fault injection between a client and its server, at the requests that a test chooses.

```python
faults = FaultyTransport(cluster.transport)
faults.on("create", Pod, nth=3).fail(ConflictError)
faults.on("patch", Job, chance=0.1).lose_reply()
faults.on("patch", Pod, nth=1).lose_reply("cut")
faults.on("create", Secret).arrive_late(2, cut_after=0.3)
faults.on("list").fail(TooManyRequestsError, retry_after_seconds=5)
faults.on("watch", Pod, nth=1).freeze(after=2)
manager = Manager(Client(faults), clock=clock)
```

It wraps a transport, as `CrashingTransport` does, and the two can be stacked: this one injects faults of the network
and the server, that one crashes the process.
"""

import asyncio
import random as randomness
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kcr.annotations import Count, NotNegative
from kcr.api.meta import Resource
from kcr.arguments import checked, refuse
from kcr.client import Request, Response, Transport
from kcr.errors import ApiError, TransportError
from kcr.testing.source import MadeUp, made, refusal
from kcr_devcluster.calls import Call, Verb, call_of
from kcr_devcluster.testing.losses import Loss, lost, page


class _Fail(NamedTuple):
    error: ApiError


class _Delay(NamedTuple):
    seconds: float


class _Then(NamedTuple):
    act: Callable[[], Awaitable[object]]


class _LoseRequest(NamedTuple):
    page: int


class _LoseReply(NamedTuple):
    loss: Loss


class _ArriveLate(NamedTuple):
    seconds: Callable[[], float]
    cut_after: float | None
    answered: bool


class _Freeze(NamedTuple):
    after: int


class _Cut(NamedTuple):
    after: int


class _Repeat(NamedTuple):
    pass


class _Lag(NamedTuple):
    seconds: Callable[[], float]


_Disturbance = _Freeze | _Cut | _Repeat | _Lag
_Fault = _Fail | _Delay | _Then | _LoseRequest | _LoseReply | _ArriveLate | _Disturbance


def _drawn(seconds: float | Callable[[], float]) -> Callable[[], float]:
    return seconds if callable(seconds) else lambda: seconds


class Rule:
    """Selects requests; one of the methods sets the fault.

    Attributes:
        met: How many requests it has been applied to.
    """

    def __init__(self, verb: str, kind: type[Resource] | None, nth: int, chance: float, name: str) -> None:
        self.met: int = 0
        self.fault: _Fault | None = None
        self._verb = verb
        self._resource = None if kind is None else (kind.resource.group, kind.resource.version, kind.resource.plural)
        self._nth = nth
        self._chance = chance
        self._name = name
        self._matched = 0

    @checked
    def fail(self, error: type[ApiError] | ApiError, *, retry_after_seconds: NotNegative = 0.0) -> None:
        """Answer with an error; the request does not reach the server."""
        self.fault = _Fail(made(error, retry_after_seconds))

    @checked
    def delay(self, seconds: NotNegative) -> None:
        """Delay the request before it reaches the server."""
        self.fault = _Delay(seconds)

    @checked
    def then(self, act: Callable[[], Awaitable[object]]) -> None:
        """Await a callback first: another client's action just before the request arrives."""
        self.fault = _Then(act)

    @checked
    def lose_request(self, page: Count = 0) -> None:
        """Lose the request before it reaches the server: it is not executed.

        Args:
            page: The code of the page with which a proxy answers; 0 for no answer, which is a TransportError.
        """
        self.fault = _LoseRequest(page)

    @checked
    def lose_reply(self, loss: Loss = "silence") -> None:
        """Lose the response of a request that was executed.

        Args:
            loss: The replacement: nothing, so that the caller gets a TransportError; a body that cannot be read
                (`cut`, `garbage`, `other`); or a proxy's page (`404`, `502`).
        """
        self.fault = _LoseReply(loss)

    @checked
    def arrive_late(
        self, seconds: NotNegative | Callable[[], float], *, cut_after: NotNegative | None = None, answered: bool = True
    ) -> None:
        """Let the request arrive late, whether its sender still waits or has ended: as behind a proxy.

        Args:
            seconds: How late; a function is called for each request.
            cut_after: After how many seconds the sender's connection is cut, which is a TransportError; None for never.
            answered: Whether the sender gets the answer if it waits so long; else it waits for its own timeout.
        """
        if self._verb == "watch":
            raise ValueError('arrive_late: the rule is for requests to watch: take on("create", …)')
        self.fault = _ArriveLate(_drawn(seconds), cut_after, answered)

    @checked
    def freeze(self, *, after: Count = 0) -> None:
        """Silence a watch after so many lines, until its reader closes it."""
        self._refuse_other("freeze")
        self.fault = _Freeze(after)

    @checked
    def cut(self, *, after: Count = 0) -> None:
        """Cut the connection of a watch after so many lines."""
        self._refuse_other("cut")
        self.fault = _Cut(after)

    def repeat(self) -> None:
        """Send each line of a watch twice."""
        self._refuse_other("repeat")
        self.fault = _Repeat()

    @checked
    def lag(self, seconds: NotNegative | Callable[[], float]) -> None:
        """Let each line of a watch arrive late; their order stays.

        Args:
            seconds: How late; a function is called for each line.
        """
        self._refuse_other("lag")
        self.fault = _Lag(_drawn(seconds))

    def _refuse_other(self, action: str) -> None:
        if self._verb not in ("", "list", "watch"):
            raise ValueError(f'{action}: the rule is for requests to {self._verb}: take on("watch", …)')

    @property
    def action(self) -> _Fault:
        """The fault; a rule that meets a request and has none is refused."""
        if self.fault is None:
            shown = ", ".join(
                filter(None, (self._verb, "" if self._resource is None else self._resource[2], self._name))
            )
            refuse(f"FaultyTransport: on({shown}) has no action: call one, such as .fail(kcr.ConflictError)")
        return self.fault

    def takes(self, call: Call, random: randomness.Random) -> bool:
        """Return whether the rule matches this request; called once for each."""
        if self._verb not in ("", call.verb) or self._name not in ("", call.name):
            return False
        if self._resource not in (None, call.resource):
            return False
        self._matched += 1
        taken = self._nth in (0, self._matched) and (self._chance >= 1.0 or random.random() < self._chance)
        self.met += taken
        return taken


class FaultyTransport:
    """Forwards requests, and injects the faults of its rules.

    Attributes:
        calls: Every request, in order, with or without a fault.
        under_way: The requests of `arrive_late` that have not arrived.
    """

    @checked
    def __init__(self, inner: Transport, *, random: randomness.Random | None = None) -> None:
        """Make a transport.

        Args:
            inner: The way to the server.
            random: The source of randomness for rules with a chance.
        """
        self.calls: list[Call] = []
        self.under_way: list[Request] = []
        self.inner = inner
        self._deliveries: set[asyncio.Task[MadeUp]] = set()
        self._random = random or randomness.Random(0)
        self._rules: list[Rule] = []

    @checked
    def on(
        self,
        verb: Verb | Literal[""] = "",
        kind: type[Resource] | None = None,
        *,
        nth: Count = 0,
        chance: Annotated[float, Meta(ge=0, le=1)] = 1.0,
        name: str = "",
    ) -> Rule:
        """Return a new rule for requests of a verb, a kind and a name; each that is omitted matches all.

        Args:
            verb: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
            kind: The type of the objects.
            nth: Matches only the n-th such request from now on; 0 for every one.
            chance: The probability of a match.
            name: The object's name. Creations have none before they are answered.
        """
        rule = Rule(verb, kind, nth, chance, name)
        self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """Remove all rules. Watches that are silent stay so until their reader closes them."""
        self._rules.clear()

    async def arrived(self) -> None:
        """Wait until all requests that are under way have arrived."""
        while self._deliveries:
            await asyncio.wait(self._deliveries)

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        return self._send(request)

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        call = call_of(request.method, request.target)
        self.calls.append(call)
        faults = [rule.action for rule in self._rules if rule.takes(call, self._random)]
        answer = await self._before(request, faults)
        if answer is not None:
            yield answer
            return
        async with self.inner.send(request) as response:
            reply = response
            for fault in faults:
                match fault:
                    case _LoseReply(loss):
                        reply = await lost(request, reply, loss)
                    case _Freeze() | _Cut() | _Repeat() | _Lag():
                        reply = _Disturbed(reply, request, fault)
            yield reply

    async def _before(self, request: Request, faults: Iterable[_Fault]) -> MadeUp | None:
        """Let the faults before a request happen; return the answer that comes in place of the server's."""
        for fault in faults:
            match fault:
                case _Delay(seconds):
                    await asyncio.sleep(seconds)
                case _Then(act):
                    await act()
                case _LoseRequest(page=code):
                    if not code:
                        raise TransportError(f"{request.method} {request.target}: the request was lost")
                    return page(code)
                case _Fail(error):
                    return refusal(error)
                case _ArriveLate() if "watch=" not in request.target:
                    return await self._arrive_late(request, fault)
        return None

    async def _arrive_late(self, request: Request, fault: _ArriveLate) -> MadeUp:
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


class _Disturbed:
    """A response with faults in its lines."""

    def __init__(self, inner: Response, request: Request, fault: _Disturbance) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._request = request
        self._fault = fault

    async def read(self) -> bytes:
        return await self._inner.read()

    async def lines(self) -> AsyncIterator[bytes]:
        if isinstance(self._fault, _Lag):
            async for line in self._late_lines(self._fault.seconds):
                yield line
            return
        left = self._fault.after if isinstance(self._fault, _Freeze | _Cut) else -1
        if left == 0:
            await self._end()
        async for line in self._inner.lines():
            yield line
            if isinstance(self._fault, _Repeat):
                yield line
            left -= 1
            if left == 0:
                await self._end()

    async def _late_lines(self, seconds: Callable[[], float]) -> AsyncIterator[bytes]:
        """Take lines as they come, and hold them back, so that one delay does not add to the next."""
        loop, held = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes | Exception | None]]()

        async def take() -> None:
            end: Exception | None = None
            try:
                async for line in self._inner.lines():
                    held.put_nowait((loop.time() + seconds(), line))
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

    async def _end(self) -> None:
        if isinstance(self._fault, _Freeze):
            # As over HTTP: a reader with an idle timeout gets an error when the silence has lasted so long.
            idle = self._request.idle_seconds
            await (asyncio.get_running_loop().create_future() if idle is None else asyncio.sleep(idle))
        raise TransportError(f"{self._request.method} {self._request.target}: the connection was cut")
