"""What the state of controllers says of an object, by rank."""

from typing import Any

import msgspec
import pytest

from kcr.api.explanation import Code, Explanation
from kcr.cli.objects.inside import ControllerView, Inside
from kcr.cli.objects.kinds.controllers import blocked_loop, findings
from kcr.serving.debug.state import ErrorGroup, HotLoopState, KeyDetail, RunningState
from tests.kit.debug_states import controller_state, debug_state, key_state, loop_state

DENIED = (
    'ForbiddenError: jobs.batch "pi" is forbidden: User "ann" cannot patch resource "jobs/status" in API group "batch" '
    'in the namespace "etl"'
)


def running(seconds: float, key: str = "etl/pi") -> RunningState:
    return RunningState(key=key, seconds=seconds, at="site.py:12 reconcile", reasons=())


def explained(
    phase: str = "idle",
    *,
    running: RunningState | None = None,
    busy: RunningState | None = None,
    hot_loop: HotLoopState | None = None,
    errors: tuple[str, ...] = (),
    **state: Any,
) -> list[Explanation]:
    """What is found of a key in a phase."""
    detail = KeyDetail(
        controller="site", state=key_state("etl/pi", phase, **state), runs=(), unconfirmed=(), explanation=None,
        explanation_error="", hot_loop=hot_loop,
    )  # fmt: skip
    groups = tuple(ErrorGroup(text=text, keys=1, examples=("etl/pi",)) for text in errors)
    process = debug_state(controller_state(name="site", errors=groups), leadership=None)
    return list(findings(Inside(process, (ControllerView(detail, running, busy),))))


def told(phase: str = "idle", **known: Any) -> list[tuple[Code, str, tuple[str, ...]]]:
    """What is found of a key in a phase: codes, headlines and remedies."""
    return [(one.code, one.headline, one.remedies) for one in explained(phase, **known)]


@pytest.mark.parametrize("phase", ["idle", "queued", "delayed", "deferred", "paused", "processing"])
def test_key_that_is_well_has_no_finding(phase: str) -> None:
    assert told(phase, queued_seconds=3.0) == []


def test_error_is_told_with_its_retries() -> None:
    ((code, headline, _),) = told("backoff", retries=14, error="ValueError: no")
    assert (code, headline) == (Code.RECONCILE_ERROR, "controller site fails, 14 times in a row: ValueError: no")
    assert told("queued", retries=1, error="ValueError: no")[0][1] == "controller site fails: ValueError: no"
    ((_, headline, _),) = told("idle", error="TerminalError: no")
    assert headline == "controller site fails, and does not retry it (TerminalError): TerminalError: no"


def test_parked_key_has_the_command_that_reconciles_it() -> None:
    ((code, headline, (remedy,)),) = told("parked", retries=6, error="ValueError: no")
    assert (code, headline) == (
        Code.RECONCILE_ERROR,
        "controller site fails, 6 times in a row: ValueError: no; it is parked (max_retries)",
    )
    assert remedy == "change its spec, or reconcile it once more: kcr reconcile jobs.batch/pi -n etl"


def test_rights_of_one_user_are_granted_together() -> None:
    other = 'ForbiddenError: User "ann" cannot create resource "pods" in API group "" in the namespace "etl"'
    foreign = 'ForbiddenError: User "bob" cannot delete resource "nodes" in API group "" at the cluster scope'
    ((code, headline, (remedy,)),) = told("backoff", retries=1, error=DENIED, errors=(other, foreign))
    assert (code, headline) == (Code.REFUSED, "controller site lacks the right to patch jobs/status")
    for granted in ("--resource=jobs.batch/status", "--verb=create --resource=pods", "--verb=create,patch"):
        assert granted in remedy
    assert "nodes" not in remedy


def test_denial_of_a_webhook_has_its_remedy() -> None:
    error = 'BadRequestError: admission webhook "policy.example.com" denied the request: image is not signed'
    ((code, headline, remedies),) = told("backoff", retries=2, error=error)
    assert (code, headline) == (Code.REFUSED, f"controller site fails, 2 times in a row: {error}")
    assert remedies == ("change what is created to one that it accepts, or change its rules",)


def test_long_run_is_told_and_a_short_one_is_not() -> None:
    assert told("processing", running=running(9.9)) == []
    ((code, headline, _),) = told("processing", running=running(81))
    assert (code, headline) == (
        Code.SLOW_RECONCILE, "has been in a reconcile of controller site for 81s, at site.py:12 reconcile",
    )  # fmt: skip


def test_long_wait_for_a_worker_names_who_has_it() -> None:
    busy = running(40, "etl/slow")
    assert told("queued", busy=busy, queued_seconds=9.9) == []
    assert told("queued", queued_seconds=20.0) == []
    assert told("delayed", busy=busy, queued_seconds=20.0) == []
    ((code, headline, _),) = told("queued", busy=busy, queued_seconds=20.0)
    assert (code, headline) == (
        Code.SLOW_RECONCILE,
        "waits for a worker of controller site for 20s: all are busy, the longest for 40s with etl/slow",
    )


def test_hot_loop_that_requeues_its_key_has_no_field() -> None:
    found = HotLoopState(
        event="hot loop: each reconcile requeues its key at once", place="", remedy="return: in seconds"
    )
    (shown,) = explained(hot_loop=found)
    assert (shown.code, shown.reasons, shown.remedies) == (Code.HOT_LOOP, (), ("return: in seconds",))
    assert shown.headline.endswith("(hot loop): each reconcile requeues its key at once")


@pytest.mark.parametrize(
    ("lag", "place", "is_blocked"), [(1.0, "a.py:1", True), (0.9, "a.py:1", False), (5.0, "", False)]
)
def test_short_lag_is_no_blocked_loop(lag: float, place: str, *, is_blocked: bool) -> None:
    state = debug_state(loop=loop_state(lag_seconds=lag, blocked_at=place))
    assert (blocked_loop(state, "waits") is not None) is is_blocked


def test_replica_that_stands_by_has_nothing_to_say() -> None:
    state = debug_state(loop=loop_state(lag_seconds=5.0, blocked_at="a.py:1"))
    assert state.leadership is not None
    stands_by = msgspec.structs.replace(state, leadership=msgspec.structs.replace(state.leadership, is_leading=False))
    detail = KeyDetail(
        controller="site", state=key_state("etl/pi", error="x"), runs=(), unconfirmed=(), explanation=None,
        explanation_error="",
    )  # fmt: skip
    views = (ControllerView(detail, None),)
    assert [one.code for one in findings(Inside(state, views))] == [Code.EVENT_LOOP_BLOCKED, Code.RECONCILE_ERROR]
    assert list(findings(Inside(stands_by, views))) == []
    assert list(findings(Inside(state, ()))) == []
