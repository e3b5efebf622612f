"""Networks between a controller and its server whose faults are drawn from a seed: rates of `kcr.testing`'s faults."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Literal, NamedTuple

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Request, Response, Transport
from kcr.testing import FaultyTransport
from kcr_devcluster.testing.rules import Drawn
from tests.chaos.authors import Sender, Signature
from tests.chaos.tally import FAULTS

# Reads of one object and writes; lists and watches have rates of their own.
_FAULTS: tuple[Drawn, ...] = (
    "delay", "lose_request", "lose_reply", "arrive_late", "409", "429", "500", "page 404", "page 502",
)  # fmt: skip
_UNCUT = 100_000


class FaultRates(NamedTuple):
    """How many faults happen.

    Attributes:
        share: How many of the writes, and of the reads of one object, go wrong.
        most: How many of either at most.
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


class FaultyNetwork(Sender):
    """The way of a controller to the server; events recorded about objects have no faults.

    Attributes:
        faults: What goes wrong on it.
        invalid: What the server refused, see `Signature`.
    """

    def __init__(self, server: Transport, random: Random) -> None:
        self._server = Signature(server)
        self.invalid = self._server.invalid
        self.faults = FaultyTransport(self._server, random=random)
        super().__init__(self.faults)

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        sending = self._server.send if "/events" in request.target else super().send
        async with sending(request) as response:
            yield response

    def heal(self) -> None:
        """Let everything go well from now on."""
        self.faults.heal()


@asynccontextmanager
async def faulty_network(
    inner: Transport, rates: FaultRates, random: Random, *, compact: Callable[[], None], late: bool
) -> AsyncIterator[FaultyNetwork]:
    """Let faults happen; the network heals with the end of the context, and what is under way arrives.

    Args:
        inner: The network without faults.
        rates: How many faults happen.
        random: Which requests they happen to.
        compact: Makes the server forget its history.
        late: Whether a write may be executed when no client waits for it any more: not when another process may have
            taken over by then.
    """
    network = FaultyNetwork(inner, random)
    _break_requests(network.faults, rates, late=late)
    _break_watches(network.faults, rates, random, compact)
    yield network
    network.heal()
    await network.faults.arrived()
    FAULTS.update({f"network: {fault}": times for fault, times in network.faults.seen.items()})


def _break_requests(faults: FaultyTransport, rates: FaultRates, *, late: bool) -> None:
    verb: Literal["write", "get"]
    if any(rates.outage):
        # Half of the requests are not executed, the others lose their reply.
        for verb in ("write", "get"):
            faults.on(verb).during(*rates.outage).draw("lose_reply")
            faults.on(verb, chance=0.5).during(*rates.outage).draw("lose_request", "500", "page 502")
    if rates.share and rates.most:
        drawn = tuple(fault for fault in _FAULTS if late or fault != "arrive_late")
        faults.on("write", chance=rates.share, most=rates.most).draw(*drawn)
        if not rates.is_mild:
            faults.on("get", chance=rates.share, most=rates.most).draw(*drawn)


def _break_watches(faults: FaultyTransport, rates: FaultRates, random: Random, compact: Callable[[], None]) -> None:
    if rates.twice:
        faults.on("event", chance=rates.twice).repeat()
    for kind, delay in ((Pod, rates.delay), (Job, rates.jobs_delay)):
        if delay:
            faults.on("watch", kind).lag(partial(random.uniform, 0, delay))
    if rates.cut_after:

        def lines() -> int:
            # Most first lists get through, or no controller would ever begin.
            return _UNCUT if random.random() < 0.3 else random.randint(1, 2 * rates.cut_after)

        async def forget() -> None:
            compact()

        faults.on("watch").cut(after=lines)
        # A watch that begins again may have to list.
        faults.on("watch", chance=0.5).then(forget)
