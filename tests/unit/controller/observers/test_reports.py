"""The spans of reconciles: what stands in them, their parents, children, durations and ends."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from structlog.testing import capture_logs

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.client import Client
from kcr.controller import Controller, ControllerOptions, OwnWrites, Result
from kcr.controller.observers import ReconcileRun
from kcr.controller.observers.reports import DebugLog
from kcr.errors import ConflictError, TerminalError
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.metrics import Metrics
from kcr.runnables import RunnableGroup
from kcr.testing import FakeInformer, MutatedError, VirtualClock, build, unchanged_stores
from kcr.workqueue import ItemExponential, Reason, WorkQueue
from tests.kit.scripted_transport import Say, Script
from tests.kit.traces import Traces, attributes, parent_id, seconds, span_id, trace_id

pytestmark = pytest.mark.kcr_virtual

A, B = Key("default", "a"), Key("default", "b")
MAP = {"metadata": {"name": "a", "namespace": "default"}}


class Calling:
    """A reconciler that calls a function with the key."""

    def __init__(self, function: Callable[[Key], Awaitable[object]]) -> None:
        self._function = function

    async def reconcile(self, key: Key) -> Result:
        result = await self._function(key)
        return result if isinstance(result, Result) else Result()


@asynccontextmanager
async def running(
    function: Callable[[Key], Awaitable[object]], metrics: Metrics | None = None, **options: Any
) -> AsyncIterator[Controller]:
    limiter = ItemExponential[Key](1, 60)
    options = {"limiter": limiter, "graceful_shutdown_timeout": 0, **options}
    controller = Controller(
        "wall", Calling(function), ControllerOptions(**options), random=random.Random(0), metrics=metrics
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller
        task.cancel()


async def test_reconcile_is_a_root_with_its_requests_below(traces: Traces, kcr_clock: VirtualClock) -> None:
    client = Client(Script(Say(MAP), Say(MAP), Say(MAP)))

    async def one(key: Key) -> None:
        with trace.get_tracer("user").start_as_current_span("paint"):
            await asyncio.sleep(1)
            await client.get(ConfigMap, key)

    async def reconcile(key: Key) -> None:
        await client.get(ConfigMap, key)
        await asyncio.sleep(2)
        async with asyncio.TaskGroup() as group:
            group.create_task(one(key))
            group.create_task(one(key))

    with trace.get_tracer("user").start_as_current_span("program"):
        async with running(reconcile) as controller:
            controller.queue.add(A)
            await kcr_clock.advance(5)
    root, requests, paints = traces.one("reconcile wall"), traces.find("GET "), traces.find("paint")
    assert root.parent is None
    assert seconds(root) == pytest.approx(3)
    assert [parent_id(span) for span in paints] == [span_id(root)] * 2
    assert sorted(map(str, map(parent_id, requests))) == sorted(map(str, (span_id(root), *map(span_id, paints))))
    assert {trace_id(span) for span in (root, *requests, *paints)} == {trace_id(root)}
    assert trace_id(traces.one("program")) != trace_id(root)
    for span in requests:
        assert (root.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (root.end_time or 0)


async def test_attributes_say_what_the_log_says(traces: Traces, kcr_clock: VirtualClock) -> None:
    async def reconcile(key: Key) -> Result:
        await asyncio.sleep(5)
        return Result(requeue_after=100)

    async with running(reconcile) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
        controller.queue.add(B, priority=7, reason=Reason("channel", "push"))
        await kcr_clock.advance(20)
    first, second = map(attributes, traces.find("reconcile"))
    assert (first["kcr.name"], first["kcr.queue.seconds"], first["kcr.reasons"]) == ("a", 0, ())
    assert len(second["kcr.reconcile_id"]) == 16
    assert {name: value for name, value in second.items() if name != "kcr.reconcile_id"} == {
        "kcr.controller": "wall", "k8s.namespace.name": "default", "kcr.name": "b", "kcr.priority": 7,
        "kcr.retries": 0, "kcr.reasons": ("channel push",), "kcr.queue.seconds": 4, "kcr.outcome": "requeue_after",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError("wet paint"), "ValueError: wet paint at this line", id="failure"),
        pytest.param(TerminalError("no wall"), "TerminalError: no wall", id="terminal"),
        pytest.param(ConflictError(409, "Conflict", "newer"), "ConflictError: newer", id="conflict"),
        pytest.param(
            ExceptionGroup("both", [ValueError("x"), KeyError("y")]),
            "ValueError: x; KeyError: 'y' at this line",
            id="two",
        ),
    ],
)
async def test_failure_is_an_error_with_its_exception(
    traces: Traces, kcr_clock: VirtualClock, error: Exception, words: str
) -> None:
    async def reconcile(key: Key) -> None:
        raise error

    async with running(reconcile) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(0.5)
    span = traces.one("reconcile")
    description = re.sub(r"test_reports\.py:\d+ in reconcile$", "this line", span.status.description or "")
    assert (span.status.status_code, description) == (StatusCode.ERROR, words)
    assert attributes(span)["kcr.outcome"] == "error"
    (event,) = span.events
    assert str((event.attributes or {})["exception.type"]).endswith(type(error).__name__)


async def test_retries_are_counted_in_later_spans(traces: Traces, kcr_clock: VirtualClock) -> None:
    errors = [ValueError("1"), ValueError("2")]

    async def reconcile(key: Key) -> None:
        if errors:
            raise errors.pop()

    async with running(reconcile) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(10)
    found = [(attributes(span)["kcr.retries"], span.status.is_ok) for span in traces.find("reconcile")]
    assert found == [(0, False), (1, False), (2, True)]


async def test_timeout_is_an_error_of_the_whole_duration(traces: Traces, kcr_clock: VirtualClock) -> None:
    async with running(lambda key: asyncio.sleep(100), reconcile_timeout=7) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(7.5)
    span = traces.one("reconcile")
    assert (seconds(span), span.status.description) == (7, "DeadlineError: took longer than 7 s")


async def test_reconcile_cancelled_at_the_end_is_no_error(traces: Traces, kcr_clock: VirtualClock) -> None:
    async with running(lambda key: asyncio.sleep(100)) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(3)
    span = traces.one("reconcile")
    assert (attributes(span)["kcr.outcome"], span.status.status_code) == ("cancelled", StatusCode.UNSET)


async def test_nothing_leaks_into_other_keys_and_runnables(traces: Traces, kcr_clock: VirtualClock) -> None:
    client = Client(Script(Say(MAP), Say(MAP)))
    late = RunnableGroup("informers")

    async def informer() -> None:
        await asyncio.sleep(1)
        await client.get(ConfigMap, A)

    async def reconcile(key: Key) -> Result:
        if key == A and not traces.find("reconcile"):
            late.add(informer, "late")
            controller.queue.add(B)
            return Result(requeue_after=50)
        return Result()

    async with running(reconcile) as controller, late:
        controller.queue.add(A)
        await kcr_clock.advance(60)
    spans = [*traces.find("reconcile"), traces.one("GET")]
    assert [span.parent for span in spans] == [None] * 4
    assert len({trace_id(span) for span in spans}) == 4


async def test_histogram_has_the_trace_as_exemplar(traces: Traces, kcr_clock: VirtualClock) -> None:
    metrics = Metrics()
    async with running(lambda key: asyncio.sleep(0.3), metrics=metrics) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
    text = metrics.render("application/openmetrics-text; version=1.0.0")[0].decode()
    found = [
        line for line in text.splitlines() if line.startswith("controller_runtime_reconcile_time") and " # " in line
    ]
    assert len(found) == 1
    assert f'trace_id="{trace_id(traces.one("reconcile")):032x}"' in found[0]
    assert 'le="0.3"' in found[0]


class Raising(SpanProcessor):
    """A user's span processor with a bug."""

    def __init__(self, where: str) -> None:
        self._where = where

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        if self._where == "on_start":
            raise ValueError("a bug in on_start")

    def on_end(self, span: ReadableSpan) -> None:
        if self._where == "on_end":
            raise ValueError("a bug in on_end")


@pytest.mark.parametrize("where", ["on_start", "on_end"])
async def test_span_processor_that_raises_costs_a_span_and_no_reconcile(
    traces: Traces, kcr_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    # The lines are limited for the process, and this test is not its first.
    monkeypatch.setattr("kcr.tracing._failures", RateLimitedLogger(get_logger("kcr.tracing")))
    traces.provider.add_span_processor(Raising(where))
    client, done = Client(Script(Say(MAP), Say(MAP))), list[Key]()

    async def one(key: Key) -> None:
        await client.get(ConfigMap, A)
        done.append(key)

    with capture_logs() as logs:
        async with running(one) as controller:
            for key in (A, B):
                controller.queue.add(key)
            await kcr_clock.advance(1)
    assert done == [A, B]
    told = [line for line in logs if line["log_level"] in ("warning", "error")]
    # One line in 30 s, with the traceback of the bug.
    assert [(line["event"], line["error"]) for line in told] == [
        ("tracing failed, a span is left out", f"ValueError: a bug in {where}")
    ]
    assert told[0]["exc_info"].__traceback__ is not None


class Looking(SpanProcessor):
    """Calls a function when a reconcile's span ends."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look

    def on_end(self, span: ReadableSpan) -> None:
        self._look()


async def test_event_during_a_reconcile_is_queued_before_its_span_ends(traces: Traces, kcr_clock: VirtualClock) -> None:
    # Whatever an observer of the end does or fails with, the event is not lost.
    own_writes, event, seen = OwnWrites(), Reason("watch", "MODIFIED"), list[tuple[Reason, ...]]()

    async def reconcile(key: Key) -> None:
        if not seen:
            own_writes.enqueue_unless_echo(key, "7", lambda: controller.queue.add(key, reason=event))

    async with running(reconcile, own_writes=own_writes) as controller:
        traces.provider.add_span_processor(Looking(lambda: seen.append(controller.queue.state(A).reasons)))
        controller.queue.add(A)
        await kcr_clock.advance(1)
    assert seen == [(event,), ()]


async def test_propagator_that_raises_costs_a_header_and_no_request(
    traces: Traces, kcr_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Propagator(TraceContextTextMapPropagator):
        def inject(self, *_: Any, **__: Any) -> None:
            raise ValueError("a bug")

    monkeypatch.setattr("opentelemetry.propagate._HTTP_TEXT_FORMAT", Propagator())
    script = Script(Say(MAP))
    await Client(script).get(ConfigMap, A)
    assert "traceparent" not in script.requests[0].headers


async def test_cached_object_that_a_reconcile_changes_in_place_is_an_error_at_level_debug() -> None:
    with pytest.raises(MutatedError), unchanged_stores(), capture_logs() as logs:
        informer = FakeInformer(ConfigMap, build.config_map("a", {"sky": "blue"}), build.config_map("b"))
        observer = DebugLog(WorkQueue[Key](), informer.store.get)
        for obj in informer.store.list():
            run = ReconcileRun(obj.key, "1", 0.0)
            observer.begin(run)
            if obj.data:
                obj.data["sky"] = "grey"  # type: ignore[index]  # as no reconciler may
            observer.end(run)
        observer.begin(ReconcileRun(Key("default", "none"), "1", 0.0))
        observer.end(ReconcileRun(Key("default", "none"), "1", 0.0))
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["object"] == "configmaps default/a"
    assert line["event"] == "cached object was changed in place, for all readers"
