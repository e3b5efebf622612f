"""The recorder of events.k8s.io, on the embedded server: series of repeats, and what is left of them after faults.

Source: client-go/tools/events/event_broadcaster.go.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from kcr.api.batch import Job
from kcr.api.core import Event, reference_to
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Request, Response
from kcr.client.wire.transport import Transport
from kcr.errors import TransportError
from kcr.events import EventRecorder
from kcr.events.forms import SeriesEvent
from kcr.testing import VirtualClock
from kcr_devcluster.transport import serve_in_process

pytestmark = pytest.mark.kcr_virtual

JOB = Job(metadata=ObjectMeta(namespace="default", name="pi", uid="1"))
POD = reference_to(Job(metadata=ObjectMeta(namespace="default", name="pi-0", uid="2")))


class Wire:
    """The way to a server: it counts the requests, loses replies, and is cut after a number of them."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.requests: list[str] = []
        self.lose_replies = 0
        self.cut_after = 1000

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if len(self.requests) >= self.cut_after:
            await asyncio.get_running_loop().create_future()
        async with self.inner.send(request) as response:
            if request.method != "GET":
                self.requests.append(f"{request.method} {request.target.split('/')[2]}")
            if self.lose_replies:
                self.lose_replies -= 1
                raise TransportError("reply lost")
            yield response


class World:
    """A recorder, and the events on its server."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.wire = Wire(serve_in_process((), clock=clock, random=random.Random(0)))
        self.reader = Client(self.wire)
        self.recorder = EventRecorder(
            Client(self.wire), "job-controller", clock=clock, random=random.Random(0), host="node-0",
            api="events.k8s.io",
        )  # fmt: skip

    async def events(self) -> tuple[Event, ...]:
        """Return the events as readers of the core group see them."""
        return await self.reader.list(Event, "default")

    async def counts(self) -> list[tuple[str, int]]:
        return [(event.message, event.times) for event in await self.events()]

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[EventRecorder]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.recorder.run())
            await self.clock.settle()
            yield self.recorder
            await self.clock.settle()
            task.cancel()


@pytest_asyncio.fixture
async def world(kcr_clock: VirtualClock) -> World:
    return World(kcr_clock)


async def test_event_has_all_that_the_server_requires(world: World) -> None:  # EV-2, EV-13
    async with world.recording() as recorder:
        await world.clock.advance(90.25)
        recorder.event(JOB, "Warning", "FailedCreate", "π" * 1000, related=POD)
        recorder.event(JOB, "Normal", "Completed", "done", action="Count")
    assert world.wire.requests == ["POST events.k8s.io"] * 2
    failed, done = await world.reader.list(SeriesEvent, "default")
    assert (failed.type, failed.reason, failed.action) == ("Warning", "FailedCreate", "FailedCreate")
    assert failed.note == "π" * 510 + "..."
    assert failed.regarding == reference_to(JOB)
    assert failed.related == POD
    assert (failed.reporting_controller, failed.reporting_instance) == ("job-controller", "job-controller-node-0")
    assert failed.event_time is not None
    assert failed.event_time.wire() == "2026-01-01T00:01:30.250000Z"
    assert done.action == "Count"
    core = (await world.events())[0]
    assert (core.message, core.involved_object, core.times) == (failed.note, failed.regarding, 1)
    assert core.last_seen == failed.event_time


async def test_second_event_begins_a_series_and_others_are_counted(world: World) -> None:  # EV-11
    async with world.recording() as recorder:
        for _ in range(4):
            recorder.event(JOB, "Normal", "Pulled", "again")
            await world.clock.advance(60)
        assert world.wire.requests == ["POST events.k8s.io", "PATCH events.k8s.io"]
        (event,) = await world.events()
        assert event.times == 2
        assert event.last_seen is not None
        assert event.last_seen.minute == 1
        assert (event.count, event.last_timestamp) == (0, None)


async def test_series_that_is_over_is_written_once_more(world: World) -> None:  # EV-12
    async with world.recording() as recorder:
        for _ in range(4):
            recorder.event(JOB, "Normal", "Pulled", "again")
            await world.clock.advance(60)
        await world.clock.advance(600)
        (event,) = await world.events()
        assert event.times == 4
        assert event.last_seen is not None
        assert event.last_seen.minute == 3
        assert len(world.wire.requests) == 3
        await world.clock.advance(7200)
        assert len(world.wire.requests) == 3, "nothing is open"
        recorder.event(JOB, "Normal", "Pulled", "again")
        await world.clock.settle()
    assert await world.counts() == [("again", 4), ("again", 1)]


async def test_series_that_lasts_is_written_in_half_an_hour(world: World) -> None:  # EV-12
    async with world.recording() as recorder:
        for _ in range(121):
            recorder.event(JOB, "Normal", "Pulled", "again")
            await world.clock.advance(60)
        patches = world.wire.requests.count("PATCH events.k8s.io")
        assert patches in (4, 5), "one for the first repeat, and one in each half hour"
    assert await world.counts() == [("again", 121)]


async def test_other_message_type_or_related_object_is_another_event(world: World) -> None:
    async with world.recording() as recorder:
        recorder.event(JOB, "Warning", "FailedCreate", "quota")
        recorder.event(JOB, "Warning", "FailedCreate", "webhook")
        recorder.event(JOB, "Normal", "FailedCreate", "quota")
        recorder.event(JOB, "Warning", "FailedCreate", "quota", related=POD)
        recorder.event(JOB, "Warning", "FailedCreate", "quota")
    assert [times for _, times in await world.counts()] == [2, 1, 1, 1]


async def test_tenth_message_of_a_reason_begins_one_series_of_all(world: World) -> None:  # EV-8
    async with world.recording() as recorder:
        for number in range(15):
            recorder.event(JOB, "Normal", "SuccessfulCreate", f"Created pod: {number}")
    counts = dict(await world.counts())
    assert len(counts) == 10
    assert counts["(combined from similar events): Created pod: 9"] == 6


async def test_series_ends_with_the_process(world: World) -> None:
    async with world.recording() as recorder:
        for _ in range(5):
            recorder.event(JOB, "Normal", "Pulled", "again")
    assert await world.counts() == [("again", 5)]


async def test_process_that_is_killed_leaves_the_first_repeat(world: World) -> None:
    world.wire.cut_after = 2
    async with world.recording() as recorder:
        for _ in range(5):
            recorder.event(JOB, "Normal", "Pulled", "again")
        await world.clock.settle()
    world.wire.cut_after = 1000
    assert await world.counts() == [("again", 2)]


async def test_lost_reply_to_a_create_makes_no_second_event(world: World) -> None:  # EV-14
    world.wire.lose_replies = 1
    async with world.recording() as recorder:
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await world.clock.advance(10)
        assert await world.counts() == [("mine", 1)]
        recorder.event(JOB, "Normal", "Pulled", "mine")
    assert await world.counts() == [("mine", 2)]


async def test_repeat_is_written_though_the_create_had_no_answer_at_all(world: World) -> None:  # EV-14
    world.wire.lose_replies = 12
    async with world.recording() as recorder:
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await world.clock.advance(120)
        assert recorder.dropped == {"unreachable": 1}
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await world.clock.settle()
        assert world.wire.requests[-2:] == ["POST events.k8s.io", "PATCH events.k8s.io"]
        assert await world.counts() == [("mine", 2)]


async def test_lost_reply_to_a_patch_changes_nothing(world: World) -> None:
    async with world.recording() as recorder:
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await world.clock.settle()
        world.wire.lose_replies = 1
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await world.clock.advance(10)
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await world.clock.settle()
        assert await world.counts() == [("mine", 2)]
    assert await world.counts() == [("mine", 3)]


async def test_event_that_has_expired_is_made_anew_with_its_series(world: World) -> None:  # EV-14
    async with world.recording() as recorder:
        recorder.event(JOB, "Normal", "Pulled", "again")
        await world.clock.settle()
        (event,) = await world.events()
        await world.reader.delete(Event, Key("default", event.metadata.name))
        recorder.event(JOB, "Normal", "Pulled", "again")
    assert await world.counts() == [("again", 2)]


async def test_object_with_too_many_events_is_summarised_all_the_same(world: World) -> None:  # EV-10
    async with world.recording() as recorder:
        for number in range(30):
            recorder.event(JOB, "Normal", f"Reason{number}", "told")
        await world.clock.advance(301)
    reasons = [event.reason for event in await world.events()]
    assert (len(reasons), reasons.count("EventsLeftOut")) == (26, 1)


async def test_repeats_of_a_series_are_no_spam(world: World) -> None:
    async with world.recording() as recorder:
        for _ in range(100):
            recorder.event(JOB, "Normal", "Pulled", "again")
        recorder.event(JOB, "Normal", "Completed", "done")
        await world.clock.settle()
        assert not recorder.dropped
    assert dict(await world.counts()) == {"again": 100, "done": 1}


async def test_group_of_events_that_does_not_exist_is_refused(kcr_clock: VirtualClock) -> None:
    with pytest.raises(ValueError, match="EventRecorder: api is 'v1beta1': give it 'core' or 'events"):
        EventRecorder(
            Client(Wire(serve_in_process((), clock=kcr_clock, random=random.Random(0)))), "x", clock=kcr_clock,
            random=random.Random(0), api="v1beta1",  # type: ignore[arg-type]  # the fault
        )  # fmt: skip
