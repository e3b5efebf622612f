from collections.abc import Callable

import pytest

from kcr.cluster.node.containers import Running, Waiting
from kcr.cluster.node.decide import (
    DEADLINE_MESSAGE,
    Action,
    BackOff,
    Kill,
    Remove,
    Start,
    Stop,
    Terminate,
    begins,
    decide,
    wake_at,
)
from kcr.cluster.node.life import PodLife, Stopping
from tests.kit.pod_states import WAITING, backing_off, ended, life, running

NOW = 100.0


@pytest.mark.parametrize(
    ("pod", "action"),
    [
        pytest.param(lambda: life(WAITING), Start("c0"), id="first-start"),
        pytest.param(lambda: life(running(), WAITING), Start("c1"), id="one-after-the-other"),
        pytest.param(lambda: life(Waiting(due=101)), None, id="held-until-later"),
        pytest.param(lambda: life(WAITING, inits=(WAITING, WAITING)), Start("i0"), id="init-first"),
        pytest.param(lambda: life(WAITING, inits=(running(),)), None, id="main-waits-for-init"),
        pytest.param(lambda: life(WAITING, inits=(ended(0), WAITING)), Start("i1"), id="next-init"),
        pytest.param(lambda: life(WAITING, inits=(ended(0),), sidecars=(WAITING,)), Start("s0"), id="sidecar-in-turn"),
        pytest.param(lambda: life(WAITING, sidecars=(running(),)), Start("c0"), id="sidecar-runs-beside"),
        pytest.param(lambda: life(running(), sidecars=(ended(1, restart_at=100),)), Start("s0"), id="sidecar-again"),
        pytest.param(lambda: life(running()), None, id="nothing-to-do"),
        pytest.param(lambda: life(ended(1, restart_at=100)), Start("c0"), id="restart-due"),
        pytest.param(lambda: life(ended(1, restart_at=101)), BackOff("c0"), id="restart-has-to-wait"),
        pytest.param(lambda: life(backing_off(101)), None, id="waits-for-restart"),
        pytest.param(lambda: life(backing_off(100)), Start("c0"), id="waited-long-enough"),
        pytest.param(lambda: life(ended(0)), None, id="over"),
        pytest.param(lambda: life(running(), deleted_with_grace=7), Stop(7), id="deleted"),
        pytest.param(lambda: life(WAITING, deleted_with_grace=0), Stop(0), id="deleted-before-start"),
        pytest.param(lambda: life(ended(0), deleted_with_grace=7), Remove(), id="deleted-after-its-end"),
        pytest.param(lambda: life(ended(0), sidecars=(running(),)), Stop(30), id="sidecars-are-left"),
        pytest.param(lambda: life(running(), phase="Failed"), Stop(30), id="ended-by-somebody-else"),
        pytest.param(lambda: life(running(), deadline=101), None, id="deadline-ahead"),
        pytest.param(
            lambda: life(running(), deadline=100), Stop(30, "DeadlineExceeded", DEADLINE_MESSAGE), id="deadline-passed"
        ),
    ],
)
def test_next_action_follows_from_the_state(pod: Callable[[], PodLife], action: Action | None) -> None:
    assert decide(pod(), NOW) == action


def asked(how: str) -> Running:
    return running()._replace(asked=how)  # type: ignore[arg-type]  # one of the three words


@pytest.mark.parametrize(
    ("pod", "kill_at", "action"),
    [
        pytest.param(lambda: life(running(), running()), 130, Terminate(("c0", "c1")), id="ask-all"),
        pytest.param(lambda: life(asked("TERM")), 130, None, id="asked-already"),
        pytest.param(lambda: life(running(), sidecars=(running(),)), 130, Terminate(("c0",)), id="sidecars-last"),
        pytest.param(lambda: life(ended(0), sidecars=(running(),)), 130, Terminate(("s0",)), id="then-sidecars"),
        pytest.param(lambda: life(asked("TERM")), 100, Kill(("c0",)), id="time-is-up"),
        pytest.param(lambda: life(running()), 100, Kill(("c0",)), id="no-grace"),
        pytest.param(lambda: life(asked("KILL")), 100, None, id="killed-already"),
        pytest.param(lambda: life(ended(1, restart_at=100)), 130, None, id="no-restart-any-more"),
    ],
)
def test_stopping_asks_then_forces(pod: Callable[[], PodLife], kill_at: float, action: Action | None) -> None:
    stopped = pod()
    stopped.stopping = Stopping(kill_at)
    assert decide(stopped, NOW) == action


def test_object_that_is_gone_is_stopped_at_once_and_not_removed() -> None:
    gone = life(running())
    gone.gone = True
    assert decide(gone, NOW) == Stop(0)
    gone = life(ended(0), deleted_with_grace=0)
    gone.gone = True
    assert decide(gone, NOW) is None


def test_removal_is_asked_for_once() -> None:
    left = life(ended(0), deleted_with_grace=7)
    left.removed = True
    assert decide(left, NOW) is None


@pytest.mark.parametrize(
    ("pod", "moment"),
    [
        pytest.param(lambda: life(running()), None, id="idle-pods-need-no-timer"),
        pytest.param(lambda: life(backing_off(120)), 120, id="restart"),
        pytest.param(lambda: life(Waiting(due=105)), 105, id="held"),
        pytest.param(lambda: life(Waiting(due=105), inits=(running(),)), None, id="not-its-turn"),
        pytest.param(lambda: life(running(ready_at=103), deadline=110), 103, id="ready-before-deadline"),
        pytest.param(lambda: life(running(ready_at=99), deadline=110), 110, id="deadline"),
        pytest.param(lambda: life(ended(0), deadline=110), None, id="over"),
    ],
)
def test_next_look_is_at_the_nearest_moment(pod: Callable[[], PodLife], moment: float | None) -> None:
    assert wake_at(pod(), NOW) == moment


def test_only_first_starts_may_go_unreported() -> None:
    assert begins(life(WAITING), NOW)
    assert not begins(life(ended(1, restart_at=100)), NOW)
    assert not begins(life(running()), NOW)
