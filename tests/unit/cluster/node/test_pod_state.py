from collections.abc import Callable
from typing import Literal

import pytest

from kcr_devcluster.cluster.node.containers import Running, Stop, Waiting
from kcr_devcluster.cluster.node.pod_state import (
    DEADLINE_MESSAGE,
    AbandonPreStop,
    Action,
    BackOff,
    DeletePod,
    PodState,
    RestartAll,
    RunPreStop,
    SignalContainers,
    StartContainer,
    TerminatePod,
    Termination,
    is_stopped,
    next_action,
    next_deadline,
    pod_phase,
    starts_next,
)
from tests.kit.pod_states import WAITING, backing_off, ended, pod_state, running

NOW = 100.0


def signal(name: Literal["TERM", "KILL"], *containers: str) -> SignalContainers:
    return SignalContainers(containers, name)


@pytest.mark.parametrize(
    ("pod", "action"),
    [
        pytest.param(lambda: pod_state(WAITING), StartContainer("c0"), id="first-start"),
        pytest.param(lambda: pod_state(running(), WAITING), StartContainer("c1"), id="one-after-the-other"),
        pytest.param(lambda: pod_state(Waiting(retry_at=101)), None, id="held-until-later"),
        pytest.param(lambda: pod_state(WAITING, inits=(WAITING, WAITING)), StartContainer("i0"), id="init-first"),
        pytest.param(lambda: pod_state(WAITING, inits=(running(),)), None, id="main-waits-for-init"),
        pytest.param(lambda: pod_state(WAITING, inits=(ended(0), WAITING)), StartContainer("i1"), id="next-init"),
        pytest.param(
            lambda: pod_state(WAITING, inits=(ended(0),), sidecars=(WAITING,)),
            StartContainer("s0"),
            id="sidecar-in-turn",
        ),
        pytest.param(lambda: pod_state(WAITING, sidecars=(running(),)), StartContainer("c0"), id="sidecar-runs-beside"),
        pytest.param(
            lambda: pod_state(running(), sidecars=(ended(1, restart_at=100),)), StartContainer("s0"), id="sidecar-again"
        ),
        pytest.param(lambda: pod_state(running()), None, id="nothing-to-do"),
        pytest.param(lambda: pod_state(ended(1, restart_at=100)), StartContainer("c0"), id="restart-due"),
        pytest.param(lambda: pod_state(ended(1, restart_at=101)), BackOff("c0"), id="restart-has-to-wait"),
        pytest.param(lambda: pod_state(backing_off(101)), None, id="waits-for-restart"),
        pytest.param(lambda: pod_state(backing_off(100)), StartContainer("c0"), id="waited-long-enough"),
        pytest.param(lambda: pod_state(ended(0)), None, id="over"),
        pytest.param(lambda: pod_state(running(), deleted_with_grace=7), TerminatePod(7), id="deleted"),
        pytest.param(lambda: pod_state(WAITING, deleted_with_grace=0), TerminatePod(0), id="deleted-before-start"),
        pytest.param(lambda: pod_state(ended(0), deleted_with_grace=7), DeletePod(), id="deleted-after-its-end"),
        pytest.param(lambda: pod_state(ended(0), sidecars=(running(),)), TerminatePod(30), id="sidecars-are-left"),
        pytest.param(lambda: pod_state(running(), phase="Failed"), TerminatePod(30), id="ended-by-another-client"),
        pytest.param(lambda: pod_state(running(), deadline=101), None, id="deadline-ahead"),
        pytest.param(
            lambda: pod_state(running(), deadline=100),
            TerminatePod(30, "DeadlineExceeded", DEADLINE_MESSAGE),
            id="deadline-passed",
        ),
    ],
)
def test_next_action_follows_from_the_state(pod: Callable[[], PodState], action: Action | None) -> None:
    assert next_action(pod(), NOW) == action


def asked(how: str) -> Running:
    return running()._replace(signal=how)  # type: ignore[arg-type]  # one of the three words


@pytest.mark.parametrize(
    ("pod", "kill_at", "action"),
    [
        pytest.param(lambda: pod_state(running(), running()), 130, signal("TERM", "c0", "c1"), id="ask-all"),
        pytest.param(lambda: pod_state(asked("TERM")), 130, None, id="asked-already"),
        pytest.param(
            lambda: pod_state(running(), sidecars=(running(),)),
            130,
            signal("TERM", "c0"),
            id="sidecars-last",
        ),
        pytest.param(
            lambda: pod_state(ended(0), sidecars=(running(),)),
            130,
            signal("TERM", "s0"),
            id="then-sidecars",
        ),
        pytest.param(lambda: pod_state(asked("TERM")), 100, signal("KILL", "c0"), id="time-is-up"),
        pytest.param(lambda: pod_state(running()), 100, signal("KILL", "c0"), id="no-grace"),
        pytest.param(lambda: pod_state(asked("KILL")), 100, None, id="killed-already"),
        pytest.param(lambda: pod_state(ended(1, restart_at=100)), 130, None, id="no-restart-any-more"),
    ],
)
def test_stopping_asks_then_forces(pod: Callable[[], PodState], kill_at: float, action: Action | None) -> None:
    stopped = pod()
    stopped.termination = Termination(kill_at)
    assert next_action(stopped, NOW) == action


def stopping(at: float, **changes: object) -> Running:
    return running()._replace(stop=Stop(at, "failed"), **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("pod", "action"),
    [
        pytest.param(lambda: pod_state(stopping(130), running()), signal("TERM", "c0"), id="one-of-two"),
        pytest.param(lambda: pod_state(stopping(100, signal="TERM")), signal("KILL", "c0"), id="time-is-up"),
        pytest.param(
            lambda: pod_state(running(), sidecars=(stopping(130),)), signal("TERM", "s0"), id="sidecar-needs-no-turn"
        ),
        pytest.param(lambda: pod_state(stopping(130, pre_stop="pending")), RunPreStop(("c0",)), id="hook-first"),
        pytest.param(lambda: pod_state(stopping(130, pre_stop="running")), None, id="hook-runs"),
        pytest.param(lambda: pod_state(stopping(130, pre_stop="done")), signal("TERM", "c0"), id="hook-done"),
        pytest.param(lambda: pod_state(stopping(100, pre_stop="running")), AbandonPreStop(("c0",)), id="hook-too-long"),
        pytest.param(lambda: pod_state(stopping(100, pre_stop="pending")), signal("KILL", "c0"), id="no-time-for-hook"),
        pytest.param(
            lambda: pod_state(running()._replace(in_post_start=True), WAITING), None, id="next-waits-for-post-start"
        ),
        pytest.param(
            lambda: pod_state(WAITING, sidecars=(running()._replace(has_started=False),)),
            None,
            id="sidecar-not-started",
        ),
    ],
)
def test_single_containers_are_stopped_step_by_step(pod: Callable[[], PodState], action: Action | None) -> None:
    assert next_action(pod(), NOW) == action


ALL = ended(88, restart_at=90)._replace(restarts_all=True)


@pytest.mark.parametrize(
    ("pod", "action"),
    [
        pytest.param(lambda: pod_state(ALL, running(), WAITING), signal("KILL", "c1"), id="others-are-killed"),
        pytest.param(lambda: pod_state(ALL, running()._replace(signal="KILL")), None, id="others-still-end"),
        pytest.param(
            lambda: pod_state(ALL, running()._replace(signal="TERM")), signal("KILL", "c1"), id="no-grace-period"
        ),
        pytest.param(lambda: pod_state(ALL, ended(137), inits=(ended(0),)), RestartAll(), id="all-have-ended"),
        pytest.param(lambda: pod_state(ended(137), sidecars=(ALL,), policy="Never"), RestartAll(), id="by-a-sidecar"),
        pytest.param(
            lambda: pod_state(ALL, running(), deadline=50),
            TerminatePod(30, "DeadlineExceeded", DEADLINE_MESSAGE),
            id="deadline-first",
        ),
        pytest.param(lambda: pod_state(ALL, running(), deleted_with_grace=7), TerminatePod(7), id="deletion-first"),
    ],
)
def test_all_containers_are_killed_and_then_restarted(pod: Callable[[], PodState], action: Action | None) -> None:
    """Source: keps/sig-node/5532-restart-all-containers-on-container-exits."""
    assert next_action(pod(), NOW) == action
    assert pod_phase(pod()) in ("Running", "Pending")


def test_object_that_is_gone_is_stopped_at_once_and_not_removed() -> None:
    gone = pod_state(running())
    gone.is_gone = True
    assert next_action(gone, NOW) == TerminatePod(0)
    gone = pod_state(ended(0), deleted_with_grace=0)
    gone.is_gone = True
    assert next_action(gone, NOW) is None


def test_removal_is_asked_for_once() -> None:
    left = pod_state(ended(0), deleted_with_grace=7)
    left.is_released = True
    assert next_action(left, NOW) is None


@pytest.mark.parametrize(
    ("pod", "moment"),
    [
        pytest.param(lambda: pod_state(running()), None, id="idle-pods-need-no-timer"),
        pytest.param(lambda: pod_state(backing_off(120)), 120, id="restart"),
        pytest.param(lambda: pod_state(Waiting(retry_at=105)), 105, id="held"),
        pytest.param(lambda: pod_state(Waiting(retry_at=105), inits=(running(),)), None, id="not-its-turn"),
        pytest.param(lambda: pod_state(running(ready_at=103), deadline=110), 103, id="ready-before-deadline"),
        pytest.param(lambda: pod_state(running(ready_at=99), deadline=110), 110, id="deadline"),
        pytest.param(lambda: pod_state(ended(0), deadline=110), None, id="over"),
    ],
)
def test_next_look_is_at_the_nearest_moment(pod: Callable[[], PodState], moment: float | None) -> None:
    assert next_deadline(pod(), NOW) == moment


def test_only_first_starts_may_go_unreported() -> None:
    assert starts_next(pod_state(WAITING), NOW)
    assert not starts_next(pod_state(ended(1, restart_at=100)), NOW)
    assert not starts_next(pod_state(running()), NOW)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(lambda: pod_state(WAITING), "Pending", id="nothing-started"),
        pytest.param(lambda: pod_state(running(), WAITING), "Pending", id="one-of-two-started"),
        pytest.param(lambda: pod_state(WAITING, inits=(running(),)), "Pending", id="init-runs"),
        pytest.param(lambda: pod_state(WAITING, inits=(backing_off(9),)), "Pending", id="init-backs-off"),
        pytest.param(
            lambda: pod_state(WAITING, inits=(ended(1),), policy="Never"), "Failed", id="init-failed-under-never"
        ),
        pytest.param(lambda: pod_state(running()), "Running", id="runs"),
        pytest.param(lambda: pod_state(ended(0), running()), "Running", id="one-still-runs"),
        pytest.param(lambda: pod_state(ended(1, restart_at=9)), "Running", id="will-restart"),
        pytest.param(lambda: pod_state(backing_off(9)), "Running", id="backs-off"),
        pytest.param(lambda: pod_state(ended(0), ended(0)), "Succeeded", id="all-succeeded"),
        pytest.param(lambda: pod_state(ended(0), ended(3), policy="Never"), "Failed", id="one-failed"),
        pytest.param(lambda: pod_state(ended(0), sidecars=(running(),)), "Running", id="sidecar-not-stopped-yet"),
        pytest.param(
            lambda: pod_state(ended(0), sidecars=(ended(137, restart_at=9),)), "Succeeded", id="sidecar-stopped"
        ),
        pytest.param(lambda: pod_state(running(), phase="Failed"), "Failed", id="written-by-another-client"),
    ],
)
def test_phase_follows_from_the_containers(pod: Callable[[], PodState], expected: str) -> None:
    assert pod_phase(pod()) == expected


@pytest.mark.parametrize(
    ("pod", "reason", "expected"),
    [
        pytest.param(lambda: pod_state(running()), "", "Running", id="not-final-while-something-runs"),
        pytest.param(lambda: pod_state(WAITING), "", "Failed", id="never-started"),
        pytest.param(lambda: pod_state(ended(143)), "", "Failed", id="ended-by-the-signal"),
        pytest.param(lambda: pod_state(ended(0)), "", "Succeeded", id="ended-well-on-the-signal"),
        pytest.param(lambda: pod_state(backing_off(9)), "", "Failed", id="was-backing-off"),
        pytest.param(lambda: pod_state(ended(0)), "DeadlineExceeded", "Failed", id="too-late-is-failed"),
    ],
)
def test_stopped_pod_succeeds_only_with_all_codes_zero(pod: Callable[[], PodState], reason: str, expected: str) -> None:
    stopped = pod()
    stopped.termination = Termination(0, reason)
    assert pod_phase(stopped) == expected


def test_pod_is_over_when_nothing_runs_and_nothing_will() -> None:
    assert is_stopped(pod_state(ended(0)))
    assert not is_stopped(pod_state(ended(1, restart_at=5)))
    assert not is_stopped(pod_state(ended(0), sidecars=(running(),)))
