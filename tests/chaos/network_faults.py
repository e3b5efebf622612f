"""A network whose faults are drawn from a seed. What passes it is signed, so that a history can say who wrote what."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from random import Random
from typing import NamedTuple, cast

from kcr.client import Request, Response, Transport
from kcr.errors import ApiError, ConflictError, ServerError, TooManyRequestsError, TransportError
from kcr.testing.source import made, refusal
from kcr_devcluster.calls import call_of
from kcr_devcluster.testing.losses import LOSSES, Loss, lost, page
from tests.chaos.tally import FAULTS, met
from tests.kit.transports import ChangedResponse

# The author of the change that the storage just records. A late write has no author any more.
AUTHOR: ContextVar[str] = ContextVar("author", default="")
CONTROLLER, LATE, USER = "controller", "late", "user"

_WRITES = ("POST", "PATCH", "DELETE")
# A write that is not executed, one whose reply is lost, one that is executed when no client waits for it any more,
# one that takes long; refusals; and a proxy that answers for the server, when the write is executed or is not.
_LOST = tuple(f"lost {loss}" for loss in LOSSES)
_FAULTS = ("cut", "late", "slow", "409", "429", "500", "page 404", "page 502", *_LOST)
_OUTAGE = ("cut", "500", "page 502", "lost silence", "lost cut", "lost 502")
_READ_FAULTS = ("page 404", "page 502", "lost cut", "lost garbage")
_REFUSALS: dict[str, type[ApiError]] = {"409": ConflictError, "429": TooManyRequestsError, "500": ServerError}


class FaultRates(NamedTuple):
    """How many faults happen.

    Attributes:
        share: How many of the writes, and of the reads of one object, go wrong.
        most: How many at most.
        delay: By how many seconds a watch of pods may lag.
        jobs_delay: By how many seconds a watch of Jobs may.
        cut_after: After how many lines a watch is cut; 0 for never.
        twice: How many of the lines come twice.
        outage: From when to when no write is answered, in seconds.
    """

    share: float = 0.0
    most: int = 10_000
    delay: float = 0.0
    jobs_delay: float = 0.0
    cut_after: int = 0
    twice: float = 0.0
    outage: tuple[float, float] = (0.0, 0.0)

    @property
    def is_reliable(self) -> bool:
        """Whether nothing goes wrong."""
        return self.is_mild and not self.most and not any(self.outage)

    @property
    def patience_seconds(self) -> float:
        """How long everything may take in it: a retry waits twice as long as the one before, up to a minute."""
        return 5.0 if self.is_reliable else 40.0 if not any(self.outage) else 100.0

    @property
    def is_mild(self) -> bool:
        """Whether the watches are prompt, and few writes go wrong, if any."""
        return not (self.delay or self.jobs_delay or self.cut_after or self.twice) and self.most <= 3


def random_rates(random: Random) -> FaultRates:
    """Draw no faults, a few, an outage (the watch of pods may lag as well), or faults of all kinds all the time."""
    kind = random.random()
    if kind < 0.2:
        return FaultRates(most=0)
    if kind < 0.4:
        return FaultRates(share=0.2, most=random.randint(1, 3))
    if kind < 0.6:
        start = random.choice((0.0, random.random() * 20))
        outage = (start, start + random.random() * 8)
        return FaultRates(most=0, outage=outage, delay=random.choice((0.0, 30.0)))
    delay = random.choice((0.0, 0.5, 3.0, 20.0))
    return FaultRates(
        share=random.choice((0.0, 0.05, 0.2)),
        delay=delay,
        jobs_delay=random.choice((0.0, delay)),
        cut_after=random.choice((0, 2, 10)),
        twice=random.choice((0.0, 0.2)),
    )


class FaultyNetwork:
    """A transport on which anything may go wrong, until it is healed.

    Attributes:
        healed: Whether everything goes well from now on.
        invalid: What the server refused with 422: no status and no pod of ours may be malformed. Patches of pods may
            come too late to be valid.
    """

    def __init__(
        self,
        inner: Transport,
        rates: FaultRates,
        random: Random,
        group: asyncio.TaskGroup,
        *,
        compact: Callable[[], None],
        faults: Sequence[str] = _FAULTS,
    ) -> None:
        self.inner = inner
        self._rates = rates
        self._random = random
        self._group = group
        self._compact = compact
        self._faults = faults
        self._done = 0
        self.healed = False
        self.invalid: list[str] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        watches = "watch=" in request.target
        fault = self._fault(request)
        kind, _, how = fault.partition(" ")
        if fault:
            met(f"request or reply: {fault}")
        if fault.isdecimal() or kind == "page":
            yield page(int(how)) if how else refusal(made(_REFUSALS[fault]))
            return
        await self._before(fault, request)
        async with self._signed(request) as response:
            if kind == "lost":
                yield await lost(request, response, cast("Loss", how))
                return
            if response.status == 422 and (request.method == "POST" or "/status" in request.target):
                self.invalid.append((await response.read()).decode())
            if watches and not self.healed:
                yield ChangedResponse(response, lambda lines: self.disturbed_lines(lines, request))
            else:
                yield response

    @asynccontextmanager
    async def _signed(self, request: Request, author: str = CONTROLLER) -> AsyncIterator[Response]:
        token = AUTHOR.set(author)
        async with self.inner.send(request) as response:
            AUTHOR.reset(token)
            yield response

    def _fault(self, request: Request) -> str:
        rates = self._rates
        writes = request.method in _WRITES
        if self.healed or "/events" in request.target or not (writes or call_of(request.method, request.target).name):
            return ""
        start, end = rates.outage
        if start <= asyncio.get_running_loop().time() < end:
            return self._random.choice(_OUTAGE if writes else _READ_FAULTS)
        if self._done >= rates.most or self._random.random() >= rates.share:
            return ""
        self._done += 1
        return self._random.choice(self._faults if writes else _READ_FAULTS)

    async def _before(self, fault: str, request: Request) -> None:
        if fault == "late":
            self._group.create_task(self._send_late(request, self._random.random() * 5))
        if fault in ("cut", "late"):
            raise TransportError(f"{request.method} {request.target}: no answer")
        if fault == "slow":
            await asyncio.sleep(self._random.random() * 3)

    async def _send_late(self, request: Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        async with self._signed(request, LATE):
            pass

    def length(self, request: Request) -> int:
        """After how many lines a watch is cut. Most first lists get through, or no controller would ever begin."""
        if not self._rates.cut_after or ("sendInitialEvents" in request.target and self._random.random() < 0.7):
            return 100_000
        return self._random.randint(1, 2 * self._rates.cut_after)

    async def disturbed_lines(self, lines: AsyncIterator[bytes], request: Request) -> AsyncIterator[bytes]:
        """Yield lines late, some of them twice, until the stream is cut; what it missed may be forgotten then."""
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes | None]]()
        rates, left = self._rates, self.length(request)
        delay = rates.jobs_delay if "/jobs?" in request.target else rates.delay

        async def take() -> None:
            async for line in lines:
                waiting.put_nowait((loop.time() + self._random.random() * delay * (not self.healed), line))
            waiting.put_nowait((loop.time(), None))

        # Not in a group of its own: whoever reads may stop at any line.
        taking = self._group.create_task(take())
        try:
            # When the network heals, each watch that may be cut is cut once more; the others notice nothing.
            while left > 0 and not (self.healed and rates.cut_after):
                due, line = await waiting.get()
                FAULTS["watch event: delayed"] += due > loop.time()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if line is None:
                    return
                again = not self.healed and self._random.random() < rates.twice
                FAULTS["watch event: doubled"] += again
                for _ in range(1 + again):
                    yield line
                left -= 1
        finally:
            taking.cancel()
        met("watch: cut")
        if self._random.random() < 0.5:
            met("watch: history compacted")
            self._compact()
        raise TransportError("the watch was cut")


@asynccontextmanager
async def faulty_network(
    inner: Transport, rates: FaultRates, random: Random, *, compact: Callable[[], None], late: bool
) -> AsyncIterator[FaultyNetwork]:
    """Let faults happen; the network heals with the end of the context.

    Args:
        inner: The network without faults.
        rates: How many faults happen.
        random: Which requests they happen to.
        compact: Makes the server forget its history.
        late: Whether a write may be executed when no client waits for it any more: not when another process may have
            taken over by then.
    """
    faults = tuple(fault for fault in _FAULTS if late or fault != "late")
    async with asyncio.TaskGroup() as group:
        network = FaultyNetwork(inner, rates, random, group, compact=compact, faults=faults)
        yield network
        network.healed = True
