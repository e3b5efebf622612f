"""The event loops that kcr runs on, for tests of timers: asyncio's, uvloop's, and those of virtual time.

Each counts the timers that are set on it, in `timers`: a callback that finds itself a hair too early, and waits for the
rest, sets one after the other.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from random import Random
from typing import TypeVar, TypeVarTuple

import pytest
import uvloop

from kcr_devcluster.testing.loop import VirtualLoop

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class AsyncioLoop(asyncio.SelectorEventLoop):
    timers = 0

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


class UvLoop(uvloop.Loop):
    timers = 0

    # Its `call_at` calls this.
    def call_later(
        self, delay: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_later(delay, callback, *args, context=context)


class CountingVirtualLoop(VirtualLoop):
    timers = 0

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


CountingLoop = AsyncioLoop | UvLoop | CountingVirtualLoop
LoopFactory = Callable[[], CountingLoop]


def _coarse(seed: int) -> CountingVirtualLoop:
    return CountingVirtualLoop(coarse_timers=Random(seed))


REAL: dict[str, LoopFactory] = {"asyncio": AsyncioLoop, "uvloop": UvLoop}
# With the timers of uvloop, drawn by seed.
COARSE: dict[str, LoopFactory] = {f"coarse-{seed}": partial(_coarse, seed) for seed in range(100)}
_FEW = 5


_SOAK = {name: [pytest.mark.soak] if number >= _FEW else [] for number, name in enumerate(COARSE)}


def _on(loops: dict[str, LoopFactory]) -> pytest.MarkDecorator:
    rows = [pytest.param(loop, id=name, marks=_SOAK.get(name, [])) for name, loop in loops.items()]
    return pytest.mark.parametrize("loop", rows)


_VIRTUAL: dict[str, LoopFactory] = {"virtual": CountingVirtualLoop, **COARSE}
# For tests that take milliseconds of real time.
on_all_loops = _on(REAL | _VIRTUAL)
# For tests that take minutes or hours.
on_virtual_loops = _on(_VIRTUAL)
# For tests that draw as well, by the number in a loop's name.
on_coarse_loops = pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in _SOAK.items()])


def run_on(loop: LoopFactory, main: Coroutine[None, None, T]) -> T:
    """Run a coroutine on a loop of its own."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)


def timers_set() -> int:
    """Return how many timers were set on the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    return loop.timers
