import pytest

from kcr.metrics import QueueMetrics
from kcr.testing import VirtualClock
from kcr.workqueue import Reason, WorkQueue

pytestmark = pytest.mark.kcr_virtual


async def test_snapshot_tells_where_each_key_is(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[str](metrics=QueueMetrics())
    for key in ("taken", "again", "queued"):
        queue.add(key, reason=Reason("Pod", "update"))
    assert [await queue.get(), await queue.get()] == ["taken", "again"]
    queue.add_after("late", 60, reason=Reason("reconcile", "requeue_after"))
    await kcr_clock.advance(5)
    queue.add("again", priority=7)
    seen = queue.snapshot()
    assert seen.ready == {"queued": 0}
    assert seen.processing == {"taken": 0, "again": 0}
    assert seen.queued == {"queued": 0, "again": 7}
    assert seen.queued_since == {"queued": 0.0, "again": 5.0}
    assert seen.processing_since == {"taken": 0.0, "again": 0.0}
    assert seen.delays["late"].deadline == 60.0


async def test_snapshot_tells_why_each_key_is_there() -> None:
    queue = WorkQueue[str]()
    queue.add("taken", reason=Reason("Pod", "update"))
    await queue.get()
    queue.add("queued", reason=Reason("Job", "add"))
    queue.add_after("late", 60, reason=Reason("reconcile", "error", detail="no"))
    seen = queue.snapshot()
    assert {key: str(*seen.reasons_of(key)) for key in ("taken", "queued", "late")} == {
        "taken": "Pod update",
        "queued": "Job add",
        "late": "reconcile error: no",
    }
    assert seen.reasons_of("unknown") == ()
    assert [key for key in ("taken", "queued", "late") if seen.is_in_backoff(key)] == ["late"]


async def test_snapshot_does_not_change_with_the_queue() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    seen = queue.snapshot()
    queue.add("b")
    await queue.get()
    assert seen.ready == {"a": 0}
