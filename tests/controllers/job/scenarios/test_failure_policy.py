"""Failures that end a Job, or do not count, with podFailurePolicy: the first scenarios of job-controller §37.10."""

from typing import Any

import pytest

from kcr.api.core import Pod
from tests.kit.scenario import Simulation, scenario

HANDLED = "pod_failures_handled_by_failure_policy"
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def exits(action: str, *codes: int, operator: str = "In", container: str = "main") -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"containerName": container, "operator": operator, "values": codes}}


DOCUMENTED = (exits("FailJob", 42), IGNORE_DISRUPTIONS)


async def create(sim: Simulation, *rules: dict[str, Any], **spec: Any) -> None:
    """Create a Job with a policy; its pods have a container named main, which runs in pairs."""
    shape: dict[str, Any] = {"parallelism": 2, "completions": 2, "containers": [{"name": "main", "image": "busybox"}]}
    await sim.create(podFailurePolicy={"rules": rules}, **shape | spec)


def message(pod: Pod, code: int, *, container: str = "main", rule: int = 0) -> str:
    return (
        f"Container {container} for pod default/{pod.metadata.name} failed with exit code {code} "
        f"matching FailJob rule at index {rule}"
    )


@scenario()
async def test_exit_code_fails_the_job(sim: Simulation) -> None:
    # Row 97.
    await create(sim, *DOCUMENTED)
    await sim.until("A2")
    failing, other = sim.active()
    await sim.fail(failing, exit_code=42)
    await sim.ends("Failed", "PodFailurePolicy", message(failing, 42))
    await sim.until("F2", made=2)
    assert [pod.metadata.uid for pod in sim.pods_of()] == [failing.metadata.uid]
    assert other.metadata.uid in sim.pods.gone


@scenario()
async def test_disruption_does_not_count(sim: Simulation) -> None:
    # Row 98.
    await create(sim, *DOCUMENTED, backoffLimit=0)
    await sim.until("A2")
    await sim.fail(sim.active()[0], exit_code=137, condition="DisruptionTarget")
    await sim.until("A2", made=3, tracked=2)
    if sim.undisturbed:
        assert sim.counted(HANDLED, action="Ignore") == 1


@scenario()
async def test_failure_that_no_rule_matches_counts(sim: Simulation) -> None:
    # Row 99.
    await create(sim, *DOCUMENTED)
    await sim.until("A2")
    await sim.fail(sim.active()[0], exit_code=1)
    await sim.until("A2 F1", made=3)
    assert not any(sim.counted(HANDLED, action=action) for action in ("FailJob", "Ignore", "Count"))


@scenario()
async def test_first_rule_that_matches_decides(sim: Simulation) -> None:
    # Row 100.
    await create(sim, exits("Count", 10), exits("FailJob", 5, 6, 7))
    await sim.until("A2")
    await sim.fail(sim.active()[0], exit_code=10)
    await sim.until("A2 F1", made=3)
    if sim.undisturbed:
        assert sim.counted(HANDLED, action="Count") == 1


@scenario()
async def test_exit_codes_may_be_negative(sim: Simulation) -> None:
    # Row 101.
    await create(sim, exits("FailJob", -1073741510))
    await sim.until("A2")
    failing = sim.active()[0]
    await sim.fail(failing, exit_code=-1073741510)
    await sim.ends("Failed", "PodFailurePolicy", message(failing, -1073741510))
    await sim.until("F2", made=2)


@pytest.mark.parametrize("code", [42, 5])
@scenario()
async def test_exit_codes_may_be_excepted(sim: Simulation, code: int) -> None:
    # Row 102.
    await create(sim, exits("FailJob", 5, 6, 7, operator="NotIn"))
    await sim.until("A2")
    failing = sim.active()[0]
    await sim.fail(failing, exit_code=code)
    if code == 5:
        await sim.until("A2 F1", made=3)
        return
    await sim.ends("Failed", "PodFailurePolicy", message(failing, code))


@scenario()
async def test_init_container_may_be_the_one_that_failed(sim: Simulation) -> None:
    # Row 103.
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}
    await create(sim, rule, pod={"initContainers": [{"name": "init", "image": "busybox"}]})
    await sim.until("A2")
    failing = sim.active()[0]
    await sim.report_ends(failing, {"main": 143}, init={"init": 5})
    await sim.ends("Failed", "PodFailurePolicy", message(failing, 5, container="init"))


@scenario()
async def test_earlier_rule_wins_whichever_container_it_names(sim: Simulation) -> None:
    # Row 104.
    containers = [{"name": "a", "image": "busybox"}, {"name": "b", "image": "busybox"}]
    rules = (exits("Ignore", 2, container="a"), exits("FailJob", 6, container="b"))
    await create(sim, *rules, containers=containers, backoffLimit=0)
    await sim.until("A2")
    await sim.report_ends(sim.active()[0], {"a": 2, "b": 6})
    await sim.until("A2", made=3, tracked=2)


@scenario()
async def test_ended_container_of_a_running_pod_matches_nothing(sim: Simulation) -> None:
    # Row 105.
    containers = [{"name": "main", "image": "busybox"}, {"name": "other", "image": "busybox"}]
    await create(sim, exits("FailJob", 5), containers=containers)
    await sim.until("A2")
    await sim.report_ends(sim.active()[0], {"main": 5}, phase="Running")
    await sim.stays("A2")
    assert sim.job().status.conditions == ()


@scenario()
async def test_reason_outlives_the_pod_and_the_controller(sim: Simulation) -> None:
    # Row 106.
    await create(sim, *DOCUMENTED, held=True)
    await sim.until("A2")
    failing, other = sim.active()
    await sim.fail(failing, exit_code=42)
    await sim.interim("FailureTarget", "PodFailurePolicy")
    await sim.until("T1 F2", tracked=0)
    await sim.crash()
    await sim.release([failing])
    await sim.delete_pods([failing])
    await sim.start()
    await sim.fail(other)
    await sim.ends("Failed", "PodFailurePolicy", message(failing, 42))


@scenario()
async def test_pod_that_goes_waits_for_its_judgement(sim: Simulation) -> None:
    # Rows 107 and 108.
    await create(sim, *DOCUMENTED, parallelism=1, completions=1, backoffLimit=0)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.bind(pod)
    await sim.ready(pod)
    await sim.until("A1 R1")
    await sim.delete_pods([pod])
    await sim.until("T1")
    await sim.stays("T1")
    await sim.until("T1", made=1, tracked=1)
    await sim.fail(pod, exit_code=143, condition="DisruptionTarget")
    await sim.kill([pod])
    await sim.until("A1", made=2, there=1)


@scenario()
async def test_container_restarted_in_place_has_not_failed(sim: Simulation) -> None:
    # Row 109.
    containers = [{"name": "main", "image": "busybox", "restartPolicy": "OnFailure"}]
    await create(sim, exits("FailJob", 1), parallelism=1, completions=1, containers=containers)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.report_ends(pod, {"main": 1}, phase="Running")
    await sim.restarted(pod, 1)
    await sim.stays("A1")
    await sim.succeed(pod)
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", made=1)
