"""Timers of kcr on the loops that it runs on: asyncio's, uvloop's, and virtual ones with uvloop's habits drawn by seed.

uvloop's timers are in whole milliseconds, fire before their time and out of order, and below half a millisecond they
are calls soon, whose handle has no `when`; see `kcr.clock`.
"""

import asyncio
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from kcr import Key
from kcr.api.core import Event, Pod
from kcr.client import Client, Pressure, RateLimit, Request
from kcr.client.wire.connections import SilenceTimer
from kcr.client.wire.transport import IDLE_SECONDS
from kcr.clock import TIMER_SLACK_SECONDS, Clock, SystemClock
from kcr.errors import ApiError, ServerError, TransportError
from kcr.events.correlator import SERIES_SECONDS, OpenSeries, Seen
from kcr.informer.watchdog import Watchdog
from kcr.testing import VirtualClock, build
from kcr.workqueue import WorkQueue
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.testing.loop import VirtualLoop
from kcr_devcluster.transport import InProcessTransport
from tests.kit.busy_server import BusyServer
from tests.kit.loops import LoopFactory, on_all_loops, on_virtual_loops, run_on, timers_set

A = Key("default", "a")


def now() -> float:
    return asyncio.get_running_loop().time()


@on_all_loops
def test_deadline_of_the_calendar_takes_few_reconciles(loop: LoopFactory) -> None:
    async def main() -> None:
        clock: Clock = VirtualClock() if isinstance(asyncio.get_running_loop(), VirtualLoop) else SystemClock()
        queue: WorkQueue[int] = WorkQueue()
        random = Random(1)
        for number in range(20):
            deadline = clock.now() + timedelta(seconds=random.random() / 200)
            queue.add_after(number, (deadline - clock.now()).total_seconds())
            reconciles = 0
            while True:
                key = await queue.get()
                reconciles += 1
                if (left := (deadline - clock.now()).total_seconds()) > 0:
                    queue.add_after(key, left)
                queue.done(key)
                if left <= 0:
                    break
            assert reconciles <= 3

    run_on(loop, main())


@on_all_loops
def test_outage_costs_no_place(loop: LoopFactory) -> None:  # CL-11
    async def main() -> None:
        server, pressure = BusyServer(seconds=lambda _: 0.002), Pressure(random=Random(1))
        client = Client(server, pressure=pressure)
        server.refuse = lambda _: ServerError(503, "ServiceUnavailable", "no")

        async def ask() -> None:
            try:
                async with asyncio.timeout(0.6):
                    await client.get(Pod, A)
            except (ApiError, TransportError, TimeoutError):
                pass

        begun = now()
        async with asyncio.TaskGroup() as group:
            # In each millisecond of the first pauses, also the last one before a probe.
            while now() < begun + 0.4:
                group.create_task(ask())
                await asyncio.sleep(0.001)
            assert pressure.limit == 1
            server.refuse = lambda _: None
        assert (pressure.in_flight, pressure.waiting) == (0, 0)

    run_on(loop, main())


@on_all_loops
def test_pressure_probes_at_its_moment_and_sets_few_timers(loop: LoopFactory) -> None:
    async def main() -> None:
        pressure = Pressure(random=Random(1))
        places, request = pressure.here(), Request("GET", "/api/v1/pods/a")
        failure = TransportError("refused")
        while pressure.limit > 1:
            sent_at = places.enter() or await places.wait(request)
            await asyncio.sleep(0.004)
            places.leave(sent_at, failure)
        before = timers_set()
        for _ in range(2):
            places.leave(await places.wait(request), failure)
        assert timers_set() - before < 10

    run_on(loop, main())


class Body(aiohttp.StreamReader):
    """The body of an answer, which notes when it failed."""

    failed_at: float | None = None

    def set_exception(self, *args: Any, **options: Any) -> None:
        self.failed_at = now()
        super().set_exception(*args, **options)


@on_all_loops
def test_silence_ends_a_body_in_time(loop: LoopFactory) -> None:  # ST-21
    async def main() -> None:
        for seconds in (0.0101, 0.0104, 0.0107):
            running = asyncio.get_running_loop()
            body, before = Body(BaseProtocol(running), 2**16, loop=running), timers_set()
            with SilenceTimer(body, seconds) as silence:
                body.feed_data(b"event")
                silence.note(len(await body.readany()))
                heard = now()
                await asyncio.sleep(0.05)
            assert body.failed_at is not None
            assert body.failed_at >= heard + seconds - TIMER_SLACK_SECONDS
            assert timers_set() - before <= 4

    run_on(loop, main())


@on_virtual_loops
def test_rate_limit_keeps_the_order_and_the_rate(loop: LoopFactory) -> None:  # CL-2
    async def main() -> None:
        sent: list[int] = []
        limit = RateLimit(700, 1)

        async def send(number: int) -> None:
            await limit.wait()
            sent.append(number)

        begun = now()
        async with asyncio.TaskGroup() as group:
            for number in range(15):
                group.create_task(send(number))
        assert now() - begun >= 14 / 700 - TIMER_SLACK_SECONDS
        # Two of one millisecond may change places.
        assert all(abs(place - number) <= 1 for place, number in enumerate(sent))

    run_on(loop, main())


@on_virtual_loops
def test_silent_watch_is_looked_at_once_for_each_interval(loop: LoopFactory) -> None:  # RF-19
    async def main() -> None:
        looks: list[float] = []

        async def is_behind() -> bool:
            looks.append(now())
            return False

        random, watchdog = Random(1), Watchdog(is_behind)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(watchdog.run())
            for _ in range(20):
                async with watchdog.over_stream():
                    for _ in range(2):
                        await asyncio.sleep(0.9 * IDLE_SECONDS + random.random())
                        watchdog.note_event(is_bookmark=True)
                    await asyncio.sleep(watchdog.limit_seconds * 2.5)
            running.cancel()
        assert len(looks) == 40
        assert timers_set() < 300

    run_on(loop, main())


# Milliseconds after which the difference of two moments is a hair less than the time between them.
UNLUCKY = next(
    number for number in range(10**6, 10**7) if (number / 1000 + SERIES_SECONDS) - number / 1000 < SERIES_SECONDS
)


@on_virtual_loops
def test_series_of_events_is_written_once_it_is_over(loop: LoopFactory) -> None:  # EV-12
    async def main() -> None:
        written: list[float] = []
        series = OpenSeries(lambda seen: written.append(now()))
        await asyncio.sleep(UNLUCKY / 1000)
        seen = Seen(Event(metadata=build.metadata("colors")), VirtualClock().now())
        seen.count, seen.written, seen.at = 2, 1, now()
        series.follow(seen)
        await asyncio.sleep(3 * SERIES_SECONDS)
        assert written == [pytest.approx(seen.at + SERIES_SECONDS)]

    run_on(loop, main())


@on_virtual_loops
def test_watch_ends_at_its_deadline_without_more_bookmarks(loop: LoopFactory) -> None:
    async def main() -> None:
        server = APIServer(Storage(), clock=VirtualClock(), random=Random(1))
        # A minute later, the clock is a hair before the sum.
        begin = next(number for number in count(10**6) if (number + 60_000) / 1000 < number / 1000 + 60.0)
        await asyncio.sleep(begin / 1000)
        bookmarks = 0
        watch = Client(InProcessTransport(server)).watch(Pod, resource_version="", timeout_seconds=60)
        async with watch as events:
            async for event in events:
                bookmarks += event.type == "BOOKMARK"
        # One after the first state, one before the end.
        assert bookmarks == 2
        assert now() == pytest.approx(begin / 1000 + 60)

    run_on(loop, main())
