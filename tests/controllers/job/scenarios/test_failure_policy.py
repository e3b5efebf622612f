"""Failures that end a Job, or do not count, with podFailurePolicy: the first scenarios of job-controller §37.10."""

from typing import Any

import pytest

from kcr.api.core import Pod
from tests.kit.scenario import World, flow

HANDLED = "pod_failures_handled_by_failure_policy"
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def exits(action: str, *codes: int, operator: str = "In", container: str = "main") -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"containerName": container, "operator": operator, "values": codes}}


DOCUMENTED = (exits("FailJob", 42), IGNORE_DISRUPTIONS)


async def create(world: World, *rules: dict[str, Any], **spec: Any) -> None:
    """Create a Job with a policy; its pods have a container named main, which runs in pairs."""
    shape: dict[str, Any] = {"parallelism": 2, "completions": 2, "containers": [{"name": "main", "image": "busybox"}]}
    await world.create(podFailurePolicy={"rules": rules}, **shape | spec)


def message(pod: Pod, code: int, *, container: str = "main", rule: int = 0) -> str:
    return (
        f"Container {container} for pod default/{pod.metadata.name} failed with exit code {code} "
        f"matching FailJob rule at index {rule}"
    )


@flow()
async def test_exit_code_fails_the_job(world: World) -> None:
    # Row 97.
    await create(world, *DOCUMENTED)
    await world.until("A2")
    failing, other = world.active()
    await world.fail(failing, exit_code=42)
    await world.ends("Failed", "PodFailurePolicy", message(failing, 42))
    await world.until("F2", made=2)
    assert [pod.metadata.uid for pod in world.pods_of()] == [failing.metadata.uid]
    assert other.metadata.uid in world.pods.gone


@flow()
async def test_disruption_does_not_count(world: World) -> None:
    # Row 98.
    await create(world, *DOCUMENTED, backoffLimit=0)
    await world.until("A2")
    await world.fail(world.active()[0], exit_code=137, condition="DisruptionTarget")
    await world.until("A2", made=3, tracked=2)
    if world.undisturbed:
        assert world.counted(HANDLED, action="Ignore") == 1


@flow()
async def test_failure_that_no_rule_matches_counts(world: World) -> None:
    # Row 99.
    await create(world, *DOCUMENTED)
    await world.until("A2")
    await world.fail(world.active()[0], exit_code=1)
    await world.until("A2 F1", made=3)
    assert not any(world.counted(HANDLED, action=action) for action in ("FailJob", "Ignore", "Count"))


@flow()
async def test_first_rule_that_matches_decides(world: World) -> None:
    # Row 100.
    await create(world, exits("Count", 10), exits("FailJob", 5, 6, 7))
    await world.until("A2")
    await world.fail(world.active()[0], exit_code=10)
    await world.until("A2 F1", made=3)
    if world.undisturbed:
        assert world.counted(HANDLED, action="Count") == 1


@flow()
async def test_exit_codes_may_be_negative(world: World) -> None:
    # Row 101.
    await create(world, exits("FailJob", -1073741510))
    await world.until("A2")
    failing = world.active()[0]
    await world.fail(failing, exit_code=-1073741510)
    await world.ends("Failed", "PodFailurePolicy", message(failing, -1073741510))
    await world.until("F2", made=2)


@pytest.mark.parametrize("code", [42, 5])
@flow()
async def test_exit_codes_may_be_excepted(world: World, code: int) -> None:
    # Row 102.
    await create(world, exits("FailJob", 5, 6, 7, operator="NotIn"))
    await world.until("A2")
    failing = world.active()[0]
    await world.fail(failing, exit_code=code)
    if code == 5:
        await world.until("A2 F1", made=3)
        return
    await world.ends("Failed", "PodFailurePolicy", message(failing, code))


@flow()
async def test_init_container_may_be_the_one_that_failed(world: World) -> None:
    # Row 103.
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}
    await create(world, rule, pod={"initContainers": [{"name": "init", "image": "busybox"}]})
    await world.until("A2")
    failing = world.active()[0]
    await world.report_ends(failing, {"main": 143}, init={"init": 5})
    await world.ends("Failed", "PodFailurePolicy", message(failing, 5, container="init"))


@flow()
async def test_earlier_rule_wins_whichever_container_it_names(world: World) -> None:
    # Row 104.
    containers = [{"name": "a", "image": "busybox"}, {"name": "b", "image": "busybox"}]
    rules = (exits("Ignore", 2, container="a"), exits("FailJob", 6, container="b"))
    await create(world, *rules, containers=containers, backoffLimit=0)
    await world.until("A2")
    await world.report_ends(world.active()[0], {"a": 2, "b": 6})
    await world.until("A2", made=3, tracked=2)


@flow()
async def test_ended_container_of_a_running_pod_matches_nothing(world: World) -> None:
    # Row 105.
    containers = [{"name": "main", "image": "busybox"}, {"name": "other", "image": "busybox"}]
    await create(world, exits("FailJob", 5), containers=containers)
    await world.until("A2")
    await world.report_ends(world.active()[0], {"main": 5}, phase="Running")
    await world.stays("A2")
    assert world.job().status.conditions == ()


@flow()
async def test_reason_outlives_the_pod_and_the_controller(world: World) -> None:
    # Row 106.
    await create(world, *DOCUMENTED, held=True)
    await world.until("A2")
    failing, other = world.active()
    await world.fail(failing, exit_code=42)
    await world.interim("FailureTarget", "PodFailurePolicy")
    await world.until("T1 F2", tracked=0)
    await world.crash()
    await world.release([failing])
    await world.delete_pods([failing])
    await world.start()
    await world.fail(other)
    await world.ends("Failed", "PodFailurePolicy", message(failing, 42))


@flow()
async def test_pod_that_goes_waits_for_its_judgement(world: World) -> None:
    # Rows 107 and 108.
    await create(world, *DOCUMENTED, parallelism=1, completions=1, backoffLimit=0)
    await world.until("A1")
    (pod,) = world.active()
    await world.bind(pod)
    await world.ready(pod)
    await world.until("A1 R1")
    await world.delete_pods([pod])
    await world.until("T1")
    await world.stays("T1")
    await world.until("T1", made=1, tracked=1)
    await world.fail(pod, exit_code=143, condition="DisruptionTarget")
    await world.kill([pod])
    await world.until("A1", made=2, there=1)


@flow()
async def test_container_restarted_in_place_has_not_failed(world: World) -> None:
    # Row 109.
    containers = [{"name": "main", "image": "busybox", "restartPolicy": "OnFailure"}]
    await create(world, exits("FailJob", 1), parallelism=1, completions=1, containers=containers)
    await world.until("A1")
    (pod,) = world.active()
    await world.report_ends(pod, {"main": 1}, phase="Running")
    await world.restarted(pod, 1)
    await world.stays("A1")
    await world.succeed(pod)
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", made=1)
