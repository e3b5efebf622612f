import pytest

from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod, KubeletPodSpec, Probe
from kcr_devcluster.cluster.node.probes.results import (
    INITIAL,
    NOTICE_SECONDS,
    HandlerResult,
    ProbeType,
    event_of,
    first_run,
    grace_period,
    kill_message,
    next_result,
    next_run,
)

PROBE = Probe(success_threshold=2, failure_threshold=3)


@pytest.mark.parametrize(
    ("kind", "outcomes", "state"),
    [
        pytest.param("Readiness", "", False, id="not-ready-at-first"),
        pytest.param("Readiness", "+", False, id="below-success-threshold"),
        pytest.param("Readiness", "++", True, id="success-threshold"),
        pytest.param("Readiness", "+-+", False, id="successes-in-a-row"),
        pytest.param("Readiness", "++--", True, id="below-failure-threshold"),
        pytest.param("Readiness", "++--+-", True, id="failures-in-a-row"),
        pytest.param("Readiness", "++---", False, id="failure-threshold"),
        pytest.param("Liveness", "", True, id="alive-at-first"),
        pytest.param("Liveness", "---", False, id="dead"),
        pytest.param("Startup", "", None, id="not-known-at-first"),
        pytest.param("Startup", "--", None, id="may-still-start"),
        pytest.param("Startup", "---", False, id="did-not-start"),
    ],
)
def test_thresholds_decide_the_state(kind: ProbeType, outcomes: str, state: bool | None) -> None:
    result = INITIAL[kind]
    for outcome in outcomes:
        result = next_result(result, outcome == "+", PROBE)
    assert result.state is state


@pytest.mark.parametrize(
    ("delay", "now", "moment"),
    [
        pytest.param(0, 10, 10 + NOTICE_SECONDS, id="soon"),
        pytest.param(5, 10, 15, id="initial-delay"),
        pytest.param(5, 40, 40, id="delay-passed-during-startup"),
    ],
)
def test_first_run_waits_for_its_delay(delay: int, now: float, moment: float) -> None:
    assert first_run(Probe(initial_delay_seconds=delay), 10, now) == moment


@pytest.mark.parametrize(
    ("now", "moment"), [pytest.param(10, 13, id="in-time"), pytest.param(20, 20, id="missed-periods-are-lost")]
)
def test_next_run_keeps_the_period(now: float, moment: float) -> None:
    assert next_run(Probe(period_seconds=3), 10, now) == moment


@pytest.mark.parametrize(
    ("result", "event"),
    [
        pytest.param(HandlerResult("success", "fine"), None, id="success"),
        pytest.param(HandlerResult("failure", "x"), ("Unhealthy", "Liveness probe failed: x"), id="failure"),
        pytest.param(HandlerResult("warning", "x"), ("ProbeWarning", "Liveness probe warning: x"), id="warning"),
        pytest.param(
            HandlerResult("unknown", "x"),
            ("Unhealthy", "Liveness probe errored and resulted in unknown state: x"),
            id="unknown",
        ),
    ],
)
def test_events_say_what_the_kubelet_says(result: HandlerResult, event: tuple[str, str] | None) -> None:
    assert event_of("Liveness", result) == event


def test_message_names_the_restart_unless_there_is_none() -> None:
    assert kill_message("Liveness", "c", "OnFailure") == "Container c failed liveness probe, will be restarted"
    assert kill_message("Startup", "c", "Never") == "Container c failed startup probe"


def test_grace_period_of_the_probe_overrides_the_pods() -> None:
    pod = KubeletPod(spec=KubeletPodSpec(termination_grace_period_seconds=7))
    own = KubeletContainer(liveness_probe=Probe(termination_grace_period_seconds=1), startup_probe=Probe())
    assert (grace_period("Liveness", pod, own), grace_period("Startup", pod, own)) == (1, 7)
