import pytest

from kcr.testing import VirtualClock
from kcr.workqueue import KeyState, Reason, WorkQueue

pytestmark = pytest.mark.kcr_virtual

CHANGED = Reason("Pod", "update", "default", "pi-0", "41", "42")
PUSHED = Reason("webhook", "push", detail="main")


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        pytest.param(CHANGED, "Pod update default/pi-0 41→42", id="update"),
        pytest.param(Reason("Node", "add", "", "node-1", version="7"), "Node add node-1 7", id="no-namespace"),
        pytest.param(Reason("Job", "initial list"), "Job initial list", id="no-object"),
        pytest.param(PUSHED, "webhook push: main", id="detail"),
        pytest.param(Reason("channel"), "channel", id="source-only"),
    ],
)
def test_reason_is_a_line(reason: Reason, line: str) -> None:  # WQ-38
    assert str(reason) == line


async def test_key_that_is_not_known_has_no_state() -> None:
    assert WorkQueue[str]().state("a") == KeyState(None, None, None, 0, (), ())


async def test_reasons_of_a_queued_key_are_merged() -> None:  # WQ-38
    queue = WorkQueue[str]()
    queue.add("a", reason=CHANGED)
    queue.add("a", reason=PUSHED)
    queue.add("a")
    queue.add("b")
    assert queue.state("a").reasons == (CHANGED, PUSHED)
    assert queue.state("b").reasons == ()


async def test_only_the_last_eight_reasons_are_kept() -> None:  # WQ-38
    queue = WorkQueue[str]()
    reasons = [Reason("test", str(number)) for number in range(20)]
    for reason in reasons:
        queue.add("a", reason=reason)
    assert queue.state("a").reasons == tuple(reasons[-8:])


async def test_repeated_reason_is_kept_once() -> None:
    queue = WorkQueue[str]()
    for reason in (CHANGED, CHANGED, PUSHED, PUSHED):
        queue.add("a", reason=reason)
    assert queue.state("a").reasons == (CHANGED, PUSHED)


async def test_several_updates_of_one_object_are_one_reason() -> None:  # WQ-38
    queue = WorkQueue[str]()
    other = Reason("Pod", "update", "default", "pi-1", "50", "51")
    for reason in (CHANGED, Reason("Pod", "update", "default", "pi-0", "42", "47"), other, CHANGED, PUSHED):
        queue.add("a", reason=reason)
    lines = [str(reason) for reason in queue.state("a").reasons]
    assert lines == [
        "Pod update default/pi-0 41→47", "Pod update default/pi-1 50→51", "Pod update default/pi-0 41→42",
        "webhook push: main",
    ]  # fmt: skip


async def test_worker_sees_why_its_key_was_queued_until_it_is_done() -> None:  # WQ-38
    queue = WorkQueue[str]()
    queue.add("a", reason=CHANGED)
    async with queue.item():
        queue.add("a", priority=3, reason=PUSHED)
        assert queue.state("a") == KeyState(3, 0, None, 0, (PUSHED,), (CHANGED,))
    assert queue.state("a") == KeyState(3, None, None, 0, (PUSHED,), ())
    async with queue.item():
        pass
    assert queue.state("a") == KeyState(None, None, None, 0, (), ())


async def test_delayed_key_has_the_reason_of_its_delay(kcr_clock: VirtualClock) -> None:  # WQ-38
    queue = WorkQueue[str]()
    queue.add_rate_limited("a", min_delay=10, reason=PUSHED)
    queue.add_after("a", 60, reason=CHANGED)
    await kcr_clock.advance(4)
    assert queue.state("a") == KeyState(None, None, 6, 1, (PUSHED,), ())
    await kcr_clock.advance(6)
    assert queue.state("a") == KeyState(0, None, None, 1, (PUSHED,), ())


async def test_key_that_was_only_delayed_says_so(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 1)
    await kcr_clock.advance(1)
    assert [str(reason) for reason in queue.state("a").reasons] == ["delay"]


async def test_cancelled_or_discarded_keys_leave_no_reason() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 1, reason=CHANGED)
    queue.cancel_after("a")
    queue.add("b", reason=CHANGED)
    queue.shut_down(discard=True)
    queue.add("c", reason=CHANGED)
    assert [queue.state(key).reasons for key in ("a", "b", "c")] == [(), (), ()]
