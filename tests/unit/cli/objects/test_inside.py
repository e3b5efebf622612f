"""What a controller knows of a key, in words."""

from typing import Any

import msgspec
import pytest

from kcr.api.explanation import Code, Explanation
from kcr.cli.objects.inside import ControllerView, Inside, controllers_as_json, lines_of_controllers
from kcr.serving.debug.state import (
    DebugState,
    KeyDetail,
    KeyState,
    LeadershipState,
    LoopState,
    ProcessState,
    RunningState,
    RunState,
)
from tests.kit.builders import NOW

PROCESS = ProcessState(
    command="kcr run", version="1.0", python="3.12", pid=12, now=NOW, uptime_seconds=5, server="", memory_bytes=1,
    not_ready=(),
)  # fmt: skip
LOOP = LoopState(lag_seconds=0, max_lag_seconds=0, blocked_at="", tasks=1)
IDLE = KeyState(
    key="default/pi", phase="idle", retries=0, priority=0, queued_seconds=None, due_seconds=None, reasons=(), error="",
    waits_for=(),
)  # fmt: skip
FAILED = RunState(key="default/pi", seconds_ago=3, seconds=0.1, outcome="error", text="ServerError: no")


def view(*runs: RunState, running: RunningState | None = None, **state: Any) -> ControllerView:
    key = msgspec.structs.replace(IDLE, **state)
    detail = KeyDetail(
        controller="job", state=key, runs=runs, unconfirmed=(), explanation=None, explanation_error="",
    )  # fmt: skip
    return ControllerView(detail, running)


def inside(*views: ControllerView, leads: bool | None = None) -> Inside:
    leadership = None if leads is None else LeadershipState(
        lease="kcr-system/kcr", identity="a", holder="a" if leads else "b", is_leading=leads, renewed_seconds_ago=1
    )  # fmt: skip
    return Inside(
        DebugState(process=PROCESS, loop=LOOP, leadership=leadership, informers=(), controllers=()), views
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        pytest.param(
            view(phase="queued", queued_seconds=3.2, reasons=("Pod update default/pi-x 9→12",)),
            ["job: queued for 3s at priority 0 (Pod update default/pi-x 9→12)"], id="queued",
        ),
        pytest.param(
            view(FAILED, phase="backoff", retries=5, due_seconds=12.4, error="ServerError: no"),
            [
                "job: in backoff after 5 failures in a row: retried in 12s",
                "last error, 3s ago: ServerError: no",
            ], id="backoff",
        ),
        pytest.param(
            view(phase="backoff", retries=1, due_seconds=0.2),
            ["job: in backoff after 1 failure in a row: retried now"],
            id="backoff-over",
        ),
        pytest.param(
            view(phase="deferred", waits_for=("pods: version 1234, the store has 1200",)),
            ["job: deferred, waits for pods: version 1234, the store has 1200"], id="deferred",
        ),
        pytest.param(
            view(phase="processing", running=RunningState(
                key="default/pi", seconds=40, at="reconciler.py:120", reasons=())
            ), ["job: running for 40s at reconciler.py:120"], id="running",
        ),
        pytest.param(
            view(phase="processing", queued_seconds=2.0, running=RunningState(
                key="default/pi", seconds=40, at="reconciler.py:120", reasons=())
            ), ["job: running for 40s at reconciler.py:120, and queued again"], id="running-and-queued",
        ),
        pytest.param(
            view(phase="delayed", due_seconds=30),
            ["job: waits for a time that a reconcile asked for: queued in 30s"], id="delayed",
        ),
        pytest.param(view(phase="paused"), ["job: paused: it is not reconciled"], id="paused"),
        pytest.param(view(), ["job: idle: nothing is queued"], id="idle"),
        pytest.param(
            view(RunState(key="default/pi", seconds_ago=9, seconds=0.1, outcome="requeue_after",
                          text="requeue after 5 s")),
            ["job: idle: nothing is queued; last reconciled 9s ago: requeue_after, requeue after 5 s"], id="ran",
        ),
    ],
)  # fmt: skip
def test_phase_of_a_key_is_told_with_its_times(shown: ControllerView, lines: list[str]) -> None:
    assert list(lines_of_controllers(inside(shown))) == [*lines, "at kcr run 1.0, pid 12"]


def test_unconfirmed_writes_are_named() -> None:
    shown = view(phase="queued")
    writes = tuple(f"create pods default/pi-{index}" for index in range(5))
    shown = shown._replace(detail=msgspec.structs.replace(shown.detail, unconfirmed=writes))
    assert list(lines_of_controllers(inside(shown)))[1] == (
        "not confirmed: create pods default/pi-0, create pods default/pi-1, create pods default/pi-2 and 2 more"
    )


def test_queued_key_waits_for_a_worker_that_is_named() -> None:
    busy = RunningState(key="default/slow", seconds=40, at="a.py:1", reasons=())
    shown = view(phase="queued")._replace(busy=busy)
    assert list(lines_of_controllers(inside(shown)))[1] == (
        "all workers are busy, the longest for 40s with default/slow at a.py:1"
    )


def test_controllers_that_know_nothing_are_left_out() -> None:
    ttl = view()
    ttl = ttl._replace(detail=msgspec.structs.replace(ttl.detail, controller="ttl"))
    lines = list(lines_of_controllers(inside(ttl, view(phase="queued"))))
    assert lines == ["job: queued at priority 0", "at kcr run 1.0, pid 12"]


def test_idle_controllers_are_noise_unless_their_port_was_named() -> None:
    quiet = view(RunState(key="default/pi", seconds_ago=9, seconds=0.1, outcome="success", text=""))
    shown = inside(quiet, view())
    assert list(lines_of_controllers(shown._replace(is_asked=False))) == []
    assert next(lines_of_controllers(shown)) == "job: idle: nothing is queued; last reconciled 9s ago: success"
    failed = view(FAILED, error="ServerError: no")
    assert len(list(lines_of_controllers(inside(failed)._replace(is_asked=False)))) == 3


def test_finished_object_waits_for_no_time() -> None:
    waits = view(phase="delayed", due_seconds=0.2)
    assert list(lines_of_controllers(inside(waits), has_ended=True)) == []
    assert next(lines_of_controllers(inside(waits))).endswith("queued now")
    queued = view(phase="queued")
    assert next(iter(lines_of_controllers(inside(queued), has_ended=True))) == "job: queued at priority 0"


def test_process_without_such_a_controller_says_so() -> None:
    assert list(lines_of_controllers(inside())) == ["no controller of kcr run 1.0, pid 12 has keys of this kind"]


@pytest.mark.parametrize(
    ("leads", "end"), [(True, "pid 12, leads"), (False, "pid 12, stands by: b leads"), (None, "pid 12")]
)
def test_leadership_is_told(leads: bool | None, end: str) -> None:
    assert list(lines_of_controllers(inside(view(), leads=leads)))[-1].endswith(end)


def test_explanation_of_a_replica_that_stands_by_is_passed_over() -> None:
    shown = view()
    shown = shown._replace(
        detail=msgspec.structs.replace(shown.detail, explanation={"code": "Waiting", "headline": "waits"})
    )
    assert inside(shown, leads=True).explanation == Explanation(Code.WAITING, "waits")
    assert inside(shown, leads=False).explanation is None


def test_json_has_the_fields_of_the_debug_port() -> None:
    (found,) = controllers_as_json(inside(view(phase="backoff", retries=2, due_seconds=1.5), leads=True))
    assert found["state"]["dueSeconds"] == 1.5
    assert found["process"] == {"command": "kcr run", "version": "1.0", "pid": 12, "leading": True, "leader": "a"}
    assert list(controllers_as_json(None)) == []


def test_error_that_is_quoted_already_is_left_out() -> None:
    failing = view(FAILED, phase="backoff", retries=5, due_seconds=12.4, error='ForbiddenError: pods "pi-x2k4f" is out')
    told = ('5s ago: Error creating: pods "pi-z9b7q" is out',)
    assert [line for line in lines_of_controllers(inside(failing), told) if "last error" in line] == []
    assert [line for line in lines_of_controllers(inside(failing)) if "last error" in line] != []
