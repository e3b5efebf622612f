from collections.abc import Callable

import pytest

from kcr.cluster.node.life import PodLife, Stopping, is_over, phase
from tests.kit.pod_states import WAITING, backing_off, ended, life, running


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(lambda: life(WAITING), "Pending", id="nothing-started"),
        pytest.param(lambda: life(running(), WAITING), "Pending", id="one-of-two-started"),
        pytest.param(lambda: life(WAITING, inits=(running(),)), "Pending", id="init-runs"),
        pytest.param(lambda: life(WAITING, inits=(backing_off(9),)), "Pending", id="init-backs-off"),
        pytest.param(lambda: life(WAITING, inits=(ended(1),), policy="Never"), "Failed", id="init-failed-under-never"),
        pytest.param(lambda: life(running()), "Running", id="runs"),
        pytest.param(lambda: life(ended(0), running()), "Running", id="one-still-runs"),
        pytest.param(lambda: life(ended(1, restart_at=9)), "Running", id="will-restart"),
        pytest.param(lambda: life(backing_off(9)), "Running", id="backs-off"),
        pytest.param(lambda: life(ended(0), ended(0)), "Succeeded", id="all-succeeded"),
        pytest.param(lambda: life(ended(0), ended(3), policy="Never"), "Failed", id="one-failed"),
        pytest.param(lambda: life(ended(0), sidecars=(running(),)), "Running", id="sidecar-not-stopped-yet"),
        pytest.param(lambda: life(ended(0), sidecars=(ended(137, restart_at=9),)), "Succeeded", id="sidecar-stopped"),
        pytest.param(lambda: life(running(), phase="Failed"), "Failed", id="said-by-somebody-else"),
    ],
)
def test_phase_follows_from_the_containers(pod: Callable[[], PodLife], expected: str) -> None:
    assert phase(pod()) == expected


@pytest.mark.parametrize(
    ("pod", "reason", "expected"),
    [
        pytest.param(lambda: life(running()), "", "Running", id="not-final-while-something-runs"),
        pytest.param(lambda: life(WAITING), "", "Failed", id="never-started"),
        pytest.param(lambda: life(ended(143)), "", "Failed", id="ended-by-the-signal"),
        pytest.param(lambda: life(ended(0)), "", "Succeeded", id="ended-well-on-the-signal"),
        pytest.param(lambda: life(backing_off(9)), "", "Failed", id="was-backing-off"),
        pytest.param(lambda: life(ended(0)), "DeadlineExceeded", "Failed", id="too-late-is-failed"),
    ],
)
def test_stopped_pod_succeeds_only_with_all_codes_zero(pod: Callable[[], PodLife], reason: str, expected: str) -> None:
    stopped = pod()
    stopped.stopping = Stopping(0, reason)
    assert phase(stopped) == expected


def test_pod_is_over_when_nothing_runs_and_nothing_will() -> None:
    assert is_over(life(ended(0)))
    assert not is_over(life(ended(1, restart_at=5)))
    assert not is_over(life(ended(0), sidecars=(running(),)))
