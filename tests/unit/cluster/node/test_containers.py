from datetime import UTC, datetime, timedelta

import pytest

from kcr.cluster.node.containers import (
    BackingOff,
    ContainerLife,
    Ended,
    Role,
    Running,
    Waiting,
    backed_off,
    ended,
    held,
    lives_of,
    restarts_after,
    started,
)
from kcr.cluster.node.pods import Container, RunnablePod, RunnableSpec
from kcr.cluster.node.runtime import Exit, Held
from tests.kit.pod_states import Idle

START = datetime(2026, 1, 1, tzinfo=UTC)


def running(now: float) -> Running:
    return Running(Idle(), f"kcr://{now}", START + timedelta(seconds=now), now, now)


def run(life: ContainerLife, begin: float, end: float, code: int = 1) -> ContainerLife:
    life = started(life, running(begin))
    return ended(life, Exit(code), "OnFailure", START + timedelta(seconds=end), end)


@pytest.mark.parametrize(
    ("role", "policy", "code", "again"),
    [
        pytest.param("main", "Never", 1, False, id="never"),
        pytest.param("main", "OnFailure", 1, True, id="on-failure-failed"),
        pytest.param("main", "OnFailure", 0, False, id="on-failure-succeeded"),
        pytest.param("main", "Always", 0, True, id="always"),
        pytest.param("main", None, 0, True, id="unset-means-always"),
        pytest.param("init", "Always", 0, False, id="init-succeeds-once"),
        pytest.param("init", "Always", 1, True, id="init-failed"),
        pytest.param("init", "Never", 1, False, id="init-failed-under-never"),
        pytest.param("sidecar", "Never", 0, True, id="sidecar-always"),
    ],
)
def test_policy_and_role_say_who_restarts(role: Role, policy: str | None, code: int, again: bool) -> None:
    assert restarts_after(role, policy, code) is again


def test_waits_double_from_ten_seconds_to_five_minutes() -> None:
    life, now, waits = ContainerLife(Container(name="c"), "main"), 0.0, []
    for _ in range(9):
        life = run(life, now, now + 1)
        assert isinstance(life.state, Ended) and life.state.restart_at is not None
        waits.append(life.state.restart_at - (now + 1))
        now = life.state.restart_at
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_run_of_over_ten_minutes_starts_the_series_over() -> None:
    life = ContainerLife(Container(name="c"), "main", delay=80)
    assert run(life, 0, 600).delay == 160
    assert run(life, 0, 601).delay == 0


def test_restart_counts_and_remembers_the_end_before() -> None:
    life = run(ContainerLife(Container(name="c"), "main"), 0, 5)
    assert (life.restarts, life.last) == (0, None)
    life = started(life, running(5))
    assert life.restarts == 1
    assert life.last is not None and life.last.finished_at == START + timedelta(seconds=5)


def test_end_is_told_in_whole_seconds_with_the_usual_words() -> None:
    life = run(ContainerLife(Container(name="c"), "main"), 0.7, 5.9, code=0)
    assert isinstance(life.state, Ended)
    end = life.state.end
    assert (end.reason, end.started_at, end.finished_at) == ("Completed", START, START + timedelta(seconds=5))


def test_backing_off_keeps_the_moment_of_the_restart() -> None:
    life = backed_off(run(ContainerLife(Container(name="c"), "main", delay=10), 0, 5))
    assert isinstance(life.state, BackingOff) and life.state.restart_at == 25


def test_restart_that_cannot_begin_counts_as_a_run() -> None:
    life = run(ContainerLife(Container(name="c"), "main"), 0, 5)
    life = ended(life, Exit(128, "StartError", "gone"), "OnFailure", START, 5)
    assert (life.restarts, life.delay) == (1, 10)


def test_held_container_waits_and_is_tried_again() -> None:
    life = held(ContainerLife(Container(name="c"), "main"), Held("ErrImagePull", "no", 10), 3)
    assert life.state == Waiting("ErrImagePull", "no", 13)


def test_init_container_that_always_restarts_is_a_sidecar() -> None:
    spec = RunnableSpec(
        init_containers=(Container(name="a"), Container(name="b", restart_policy="Always")),
        containers=(Container(name="c"),),
    )
    roles = {name: life.role for name, life in lives_of(RunnablePod(spec=spec)).items()}
    assert roles == {"a": "init", "b": "sidecar", "c": "main"}
