import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.core import Namespace, reference_to
from kcr.api.meta import ObjectMeta, Resource
from kcr.client import Client, Request
from kcr.client.context import writing
from kcr.errors import TransportError
from kcr.events import EventRecorder, SpamLimit
from kcr.testing import VirtualClock
from tests.kit.scripted_transport import Say, failure

pytestmark = pytest.mark.kcr_virtual

DEFAULT = SpamLimit()
JOB = Job(metadata=ObjectMeta(namespace="default", name="pi", uid="1"))


class Events:
    """The events of an API server, and the ways in which it may fail."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.down_until = 0.0
        self.lose_replies = 0
        self.refuse = False
        self.hang = False

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Say]:
        self.requests.append(request.method)
        if asyncio.get_running_loop().time() < self.down_until:
            raise TransportError("refused")
        if self.hang:
            await asyncio.get_running_loop().create_future()
        answer = self._answer(request)
        if self.lose_replies:
            self.lose_replies -= 1
            raise TransportError("reply lost")
        yield answer

    def _answer(self, request: Request) -> Say:
        path, body = request.target.partition("?")[0], json.loads(request.body)
        if self.refuse:
            return failure(403, "Forbidden", "Forbidden")
        if request.method == "POST":
            path += "/" + body["metadata"]["name"]
            if path in self.stored:
                return failure(409, "AlreadyExists", "AlreadyExists")
            self.stored[path] = body
            return Say(body, status=201)
        if path not in self.stored:
            return failure(404, "NotFound", "NotFound")
        self.stored[path] |= body
        return Say(self.stored[path])

    def summary(self) -> list[tuple[str, str, int]]:
        return [(event["reason"], event["message"], event["count"]) for event in self.stored.values()]


@asynccontextmanager
async def recording(
    server: Events, clock: VirtualClock, limit: SpamLimit = DEFAULT, *, host: str = ""
) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(
        Client(server), "job-controller", clock=clock, random=random.Random(0), spam_limit=limit, host=host
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        await clock.settle()
        yield recorder
        task.cancel()


# EV-1, EV-2, EV-6
async def test_event_names_its_object_and_its_source(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        await kcr_clock.advance(90.5)
        recorder.event(JOB, "Normal", "Completed", "Job completed")
    ((path, event),) = server.stored.items()
    assert path == f"/api/v1/namespaces/default/events/{event['metadata']['name']}"
    # 2026-01-01T00:01:30.5Z in nanoseconds; what is left of it tells two recorders apart.
    assert event["metadata"]["name"].startswith(f"pi.{1767225690500000000 >> 12:x}")
    assert event["involvedObject"] == {
        "apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "pi", "uid": "1",
    }  # fmt: skip
    assert event["source"] == {"component": "job-controller"}
    assert event["reportingComponent"] == "job-controller"
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:01:30Z"
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Normal", "Completed", "Job completed", 1,
    )  # fmt: skip


async def test_event_of_a_component_on_a_machine_names_the_host(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock, host="node-0") as recorder:
        recorder.event(JOB, "Normal", "Completed", "Job completed")
    (event,) = server.stored.values()
    assert event["source"] == {"component": "job-controller", "host": "node-0"}
    assert event["reportingInstance"] == "node-0"


async def test_same_event_about_two_parts_is_two_events(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for name in ("one", "two", "two"):
            recorder.event(reference_to(JOB, f"spec.containers{{{name}}}"), "Normal", "Pulled", "present")
    assert [(event["involvedObject"]["fieldPath"], event["count"]) for event in server.stored.values()] == [
        ("spec.containers{one}", 1), ("spec.containers{two}", 2),
    ]  # fmt: skip


# EV-9
async def test_identical_events_become_one_that_counts(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for _ in range(3):
            recorder.event(JOB, "Normal", "Pulled", "again")
            await kcr_clock.advance(60)
    (event,) = server.stored.values()
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z")
    assert server.requests == ["POST", "PATCH", "PATCH"]


async def test_name_that_another_recorder_has_taken_is_left_to_it(kcr_clock: VirtualClock) -> None:
    server = Events()
    # Of one seed and one moment: both draw the same name.
    async with recording(server, kcr_clock) as recorder, recording(server, kcr_clock) as other:
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await kcr_clock.settle()
        other.event(JOB, "Normal", "Completed", "yours")
        await kcr_clock.settle()
        other.event(JOB, "Normal", "Completed", "yours")
        await kcr_clock.settle()
        assert not other.dropped
    assert server.summary() == [("Pulled", "mine", 1), ("Completed", "yours", 2)]
    assert server.requests == ["POST", "POST", "POST", "PATCH"]


async def test_own_event_whose_reply_was_lost_is_not_written_twice(kcr_clock: VirtualClock) -> None:
    server = Events()
    server.lose_replies = 2
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await kcr_clock.advance(60)
        recorder.event(JOB, "Normal", "Pulled", "mine")
        await kcr_clock.settle()
    assert server.summary() == [("Pulled", "mine", 2)]
    assert server.requests == ["POST", "POST", "POST", "PATCH"]


# EV-9
async def test_counted_event_that_was_cleared_away_is_made_anew(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Pulled", "again", action="Pull")
        await kcr_clock.advance(60)
        ((path, first),) = server.stored.items()
        server.stored.clear()
        recorder.event(JOB, "Normal", "Pulled", "again", action="Pull")
    # All of it, though a written event is not kept.
    assert server.stored == {path: first | {"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}}


async def test_written_event_is_not_kept(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Completed", "Job completed")
        await kcr_clock.settle()
        # Four thousand are remembered, by name.
        assert [seen.event for seen in recorder._correlator._seen.values()] == [None]


# EV-8
async def test_tenth_similar_message_begins_to_combine(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for number in range(12):
            recorder.event(JOB, "Normal", "SuccessfulCreate", f"Created pod: {number}")
        recorder.event(JOB, "Normal", "Completed", "Job completed")
    assert [message for _, message, _ in server.summary()] == [
        *(f"Created pod: {number}" for number in range(9)),
        "(combined from similar events): Created pod: 11",
        "Job completed",
    ]
    assert server.summary()[9][2] == 3


# EV-8
async def test_repeats_of_one_cause_are_one_event_with_the_last_message(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for number in range(12):
            recorder.event(JOB, "Warning", "FailedCreate", f"pods pi-{number} is forbidden: full", cause="full")
            if number % 4 == 0:
                recorder.event(JOB, "Warning", "FailedCreate", f"pods pi-{number} is forbidden: no", cause="no")
        recorder.event(JOB, "Warning", "FailedDelete", "full", cause="full")
        await kcr_clock.advance(1)
    assert server.summary() == [
        ("FailedCreate", "pods pi-11 is forbidden: full", 12),
        ("FailedCreate", "pods pi-8 is forbidden: no", 3),
        ("FailedDelete", "full", 1),
    ]


async def test_similar_messages_are_forgotten_after_ten_minutes(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for number in range(9):
            recorder.event(JOB, "Normal", "SuccessfulCreate", f"Created pod: {number}")
        await kcr_clock.advance(601)
        recorder.event(JOB, "Normal", "SuccessfulCreate", "Created pod: 9")
    assert server.summary()[-1][1] == "Created pod: 9"


# EV-10
async def test_object_with_too_many_events_gets_one_in_five_minutes(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for number in range(30):
            recorder.event(JOB, "Normal", f"Reason{number}", "told")
        await kcr_clock.settle()
        assert (len(server.stored), recorder.dropped) == (25, {"spam": 5})
        recorder.event(JOB, "Warning", "Failed", "warnings have a bucket of their own")
        await kcr_clock.advance(300)
        recorder.event(JOB, "Normal", "Late", "told")
        recorder.event(JOB, "Normal", "Later", "told")
    assert [reason for reason, *_ in server.summary()][25:] == ["Failed", "EventsLeftOut", "Late", "EventsLeftOut"]


# EV-10
async def test_events_left_out_are_counted_in_one_event_later(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for number in range(25):
            recorder.event(JOB, "Normal", "Pulled", f"image {number % 5}")
        for _ in range(4):
            recorder.event(JOB, "Normal", "Pulled", "image")
        recorder.event(JOB, "Normal", "Created", "pod")
        await kcr_clock.advance(299)
        assert not [reason for reason, *_ in server.summary() if reason == "EventsLeftOut"]
        await kcr_clock.advance(1)
        text = "5 events were left out, for there were too many: 4 Pulled, 1 Created"
        assert server.summary()[-1] == ("EventsLeftOut", text, 1)
        await kcr_clock.advance(3600)
        assert server.summary()[-1] == ("EventsLeftOut", text, 1)


# EV-10
async def test_stopping_tells_what_was_left_out(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        for number in range(35):
            recorder.event(JOB, "Normal", f"Reason{number}", "told")
        await kcr_clock.settle()
    words = "1 Reason25, 1 Reason26, 1 Reason27, 1 Reason28, 1 Reason29 and others"
    text = f"10 events were left out, for there were too many: {words}"
    assert server.summary()[-1] == ("EventsLeftOut", text, 1)


# EV-10
async def test_limit_may_be_another_and_for_each_reason(kcr_clock: VirtualClock) -> None:
    server, limit = Events(), SpamLimit(burst=2, refill_seconds=60, per_reason=True)
    async with recording(server, kcr_clock, limit) as recorder:
        for reason in ("Pulled", "Created"):
            for number in range(4):
                recorder.event(JOB, "Normal", reason, str(number))
        await kcr_clock.advance(59)
        assert [message for _, message, _ in server.summary()] == ["0", "1", "0", "1"]
        await kcr_clock.advance(1)
        assert [reason for reason, *_ in server.summary()][4:] == ["EventsLeftOut", "EventsLeftOut"]


# EV-18
async def test_each_event_is_a_log_line_whatever_becomes_of_it(kcr_clock: VirtualClock) -> None:
    recorder = EventRecorder(Client(Events()), "test", clock=kcr_clock, random=random.Random(0))
    with capture_logs() as logs:
        for number in range(1001):
            recorder.event(JOB, "Warning" if number else "Normal", "Seen", "there")
    assert len(logs) == 1001
    expected = {"event": "event", "kind": "Job", "object": "default/pi", "type": "Normal", "reason": "Seen"}
    assert logs[0] == {**expected, "note": "there", "log_level": "debug"}
    assert logs[1]["log_level"] == "info"


# EV-1
async def test_long_reason_is_cut(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "R" * 200, "there")
    assert server.summary()[0][0] == "R" * 128


# EV-5
async def test_event_about_an_object_without_namespace_goes_to_default(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        recorder.event(Namespace(metadata=ObjectMeta(name="team")), "Normal", "Seen", "there")
    assert next(iter(server.stored)).startswith("/api/v1/namespaces/default/events/team.")


# EV-6
@pytest.mark.parametrize(
    "name", [pytest.param("system:node", id="no-dns-name"), pytest.param("a" * 250, id="too-long")]
)
async def test_name_no_event_can_have_is_replaced(kcr_clock: VirtualClock, name: str) -> None:
    server = Events()
    about: Resource = Job(metadata=ObjectMeta(namespace="default", name=name))
    async with recording(server, kcr_clock) as recorder:
        recorder.event(about, "Normal", "Seen", "there")
    (event,) = server.stored.values()
    assert len(event["metadata"]["name"].partition(".")[0]) == 36
    assert event["involvedObject"]["name"] == name


# EV-1
async def test_long_message_is_cut_at_a_kilobyte(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Seen", "π" * 1000)
    message = server.summary()[0][1]
    assert message == "π" * 510 + "..."


# EV-3
async def test_full_queue_drops_and_counts(kcr_clock: VirtualClock) -> None:
    server = Events()
    recorder = EventRecorder(Client(server), "test", clock=kcr_clock, random=random.Random(0))
    for number in range(1005):
        recorder.event(JOB, "Normal", f"Reason{number}", "told")
    assert recorder.dropped == {"queue_full": 5}


# EV-7
async def test_write_without_answer_is_tried_again(kcr_clock: VirtualClock) -> None:
    server = Events()
    server.down_until = 95
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Seen", "there")
        await kcr_clock.advance(94)
        assert server.stored == {}
        await kcr_clock.advance(11)
        assert server.summary() == [("Seen", "there", 1)]


# EV-7
async def test_server_that_stays_away_costs_the_event_in_the_end(kcr_clock: VirtualClock) -> None:
    server = Events()
    server.down_until = 3600
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Seen", "there")
        await kcr_clock.advance(3600)
        assert server.requests == ["POST"] * 12
        recorder.event(JOB, "Normal", "Later", "there")
    assert [reason for reason, *_ in server.summary()] == ["Later"]


# EV-7
async def test_lost_reply_makes_no_second_event(kcr_clock: VirtualClock) -> None:
    server = Events()
    server.lose_replies = 1
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Seen", "there")
        await kcr_clock.advance(10)
        recorder.event(JOB, "Normal", "Seen", "there")
    assert server.summary() == [("Seen", "there", 2)]
    assert server.requests == ["POST", "POST", "PATCH"]


# EV-7
async def test_refused_event_is_not_tried_again(kcr_clock: VirtualClock) -> None:
    server = Events()
    server.refuse = True
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Seen", "there")
        await kcr_clock.advance(3600)
    assert server.requests == ["POST"]


# EV-4
async def test_stopping_writes_what_is_left(kcr_clock: VirtualClock) -> None:
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        await kcr_clock.settle()
        for number in range(20):
            recorder.event(JOB, "Normal", f"Reason{number}", "told")
    assert len(server.stored) == 20


# EV-4
async def test_stopping_waits_half_a_second_at_most(kcr_clock: VirtualClock) -> None:
    server = Events()
    server.hang = True
    async with recording(server, kcr_clock) as recorder:
        recorder.event(JOB, "Normal", "Seen", "there")
        await kcr_clock.advance(1)
    assert 1 < asyncio.get_running_loop().time() <= 1.5


async def test_event_of_a_dry_run_is_not_written(kcr_clock: VirtualClock) -> None:  # WH-8
    server = Events()
    async with recording(server, kcr_clock) as recorder:
        with writing(dry_run=True):
            recorder.event(JOB, "Normal", "Seen", "dry")
        recorder.event(JOB, "Normal", "Seen", "real")
        await kcr_clock.advance(10)
    assert server.summary() == [("Seen", "real", 1)]
