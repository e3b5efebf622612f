"""Faults at the writes of a controller: it crashes after one of them, or the reply to one is lost.

After a crash nothing more is sent or answered and all memory is lost; then the controller starts again. What it was to
do must come to the same end, whichever write it was. A *life* is such a story: it takes a fault, runs a controller
through it, checks the end, and returns how many writes the controller has sent.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple, TypeVar

import pytest

from kcr.client import Transport
from kcr.testing import CrashingTransport, eventually
from kcr_devcluster.testing.loop import VirtualLoop
from kcr_devcluster.testing.losses import LOSSES, Loss
from tests.kit.transports import late_watches

T = TypeVar("T")
# Runs a controller on a transport, with a seed, as long as the context lives.
RunController = Callable[[Transport, int], AbstractAsyncContextManager[object]]


def loss_of(write: int, loss: Loss | None) -> Loss:
    """Return how the reply to a write is lost: as said, or each way in its turn."""
    return loss or LOSSES[write % len(LOSSES)]


class WriteFault(NamedTuple):
    """What goes wrong.

    Attributes:
        crash_after: The number of the write, from 1, after which the controller crashes; 0 for none.
        lost_reply: The number of the write whose reply is lost; 0 for none.
        loss: What comes instead of that reply; by default each in its turn.
        outage: For how many seconds no controller runs after the crash.
        late: By how many seconds watches lag, by plural.
        concurrent: Whether a second controller runs all the time.
    """

    crash_after: int = 0
    lost_reply: int = 0
    loss: Loss | None = None
    outage: float = 0.0
    late: Mapping[str, float] = {}
    concurrent: bool = False

    def strike(self, transport: CrashingTransport, before: int = 0) -> None:
        """Let it happen on a transport, before which other transports have sent some of the writes."""
        if self.crash_after > before:
            transport.crash_after(self.crash_after - before)
        if self.lost_reply > before:
            transport.lose_reply(self.lost_reply - before, loss_of(self.lost_reply, self.loss))


# Parameters of tests that lose the reply to one write after the other: in `make test` the ways to lose it take turns,
# `make soak` takes each of them for all writes.
EVERY_LOSS = [
    pytest.param(None, id="in-turn"),
    *(pytest.param(loss, marks=pytest.mark.soak, id=loss) for loss in LOSSES),
]
# At how many writes `make test` lets it happen; `make soak` takes every one. And the parameters of such tests.
SAMPLE = 2
MOST_WRITES = [
    pytest.param(SAMPLE, id="some", marks=pytest.mark.timeout(60)),
    pytest.param(None, id="all", marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
]  # fmt: skip
NO_FAULT = WriteFault()
Life = Callable[[WriteFault], Coroutine[Any, Any, int]]


@asynccontextmanager
async def surviving(
    inner: Transport, fault: WriteFault, controller: RunController, is_over: Callable[[], bool | Awaitable[bool]]
) -> AsyncIterator[CrashingTransport]:
    """Run a controller through a fault; in the context it runs for the last time.

    Args:
        inner: The way to the server.
        fault: What goes wrong.
        controller: Runs the controller.
        is_over: Whether the work is done: it may be before the crash.
    """
    late = late_watches(inner, Random(3), fault.late)
    transport = CrashingTransport(late)
    fault.strike(transport)

    async def crashed_or_over() -> bool:
        if transport.crashed.is_set():
            return True
        over = is_over()
        return over if isinstance(over, bool) else await over

    if fault.crash_after:
        async with controller(transport, 1):
            await eventually(crashed_or_over, seconds=600)
        await asyncio.sleep(fault.outage)
    async with controller(late if fault.crash_after else transport, 2):
        yield transport


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run on a loop of its own, so that each run starts from the same beginning."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def live_undisturbed(life: Life) -> int:
    """Live once without a fault, and return the number of writes."""
    return _writes_of(life, frozenset())


@lru_cache(maxsize=32)
def _writes_of(life: Life, late: frozenset[tuple[str, float]]) -> int:
    """Live once without a fault, and return the number of writes: the same for each test of a life."""
    return in_virtual_time(life(WriteFault(late=dict(late))))


def crash_after_writes(life: Life, most: int | None = None, **fault: Any) -> None:
    """Live once for each of the writes, and crash after it; `fault` is what else goes wrong.

    With `most` it is that many of the writes, spread evenly from the first to the last; one is in the middle.
    """
    for write in _spread(_writes_of(life, frozenset(fault.get("late", {}).items())), most):
        in_virtual_time(life(WriteFault(crash_after=write, **fault)))


def lose_replies(life: Life, most: int | None = None, **fault: Any) -> None:
    """Live once for each of the writes, or for `most` of them, and lose the reply to it."""
    for write in _spread(_writes_of(life, frozenset(fault.get("late", {}).items())), most):
        in_virtual_time(life(WriteFault(lost_reply=write, **fault)))


def disturb(life: Life, seed: str) -> None:
    """Live once undisturbed, and once with a crash after one of the writes or with the reply to it lost."""
    writes = range(1, live_undisturbed(life) + 1)
    if writes:
        random = Random(seed)
        write = random.choice(writes)
        in_virtual_time(life(random.choice((WriteFault(crash_after=write), WriteFault(lost_reply=write)))))


def _spread(count: int, most: int | None) -> Sequence[int]:
    """Return the numbers from 1 to `count`, or so many of them."""
    if most is None or count <= most:
        return range(1, count + 1)
    if most == 1:
        return [1 + count // 2]
    return [1 + number * (count - 1) // (most - 1) for number in range(most)]
