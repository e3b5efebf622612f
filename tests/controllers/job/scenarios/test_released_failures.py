"""Failed pods that were let go before they ended: a podFailurePolicy judges them, nothing counts them.

Source: job-controller §34.15.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcr.api.conditions import is_condition_true
from kcr.api.core import Pod
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER
from tests.kit.scenario import Simulation, scenario

FAIL_JOB = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
BY_HAND: dict[str, Any] = {"manualSelector": True, "selector": {"matchLabels": {"app": "pi"}}, "labels": {"app": "pi"}}

indexed = pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
by_hand = pytest.mark.parametrize("shape", [{}, BY_HAND], ids=["generated", "by-hand"])


async def create(sim: Simulation, *rules: dict[str, Any], **spec: Any) -> None:
    """Create a Job of four, two at a time, whose pods a node has to kill."""
    await sim.create(podFailurePolicy={"rules": rules}, **{"completions": 4, "parallelism": 2} | spec)
    await sim.until("A2")
    await sim.bind(*sim.active())
    await sim.ready(*sim.active())


def deleted(sim: Simulation) -> list[Pod]:
    return [pod for pod in sim.pods_of() if pod.metadata.deletion_timestamp is not None]


async def kill_deleted(sim: Simulation) -> None:
    """End the pods of a failing Job, once the controller has deleted them: a crash may come before that."""
    await sim.wait(lambda: not sim.active(), "no active pod")
    await sim.kill(deleted(sim))


async def scale_down(sim: Simulation) -> Pod:
    await sim.patch(parallelism=1)
    await sim.until("A1 R1 T1")
    return deleted(sim)[0]


async def suspend(sim: Simulation) -> Pod:
    await sim.patch(suspend=True)
    await sim.until("T2")
    return deleted(sim)[0]


async def strip(sim: Simulation) -> Pod:
    pod = sim.active()[0]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
    await sim.client.strategic_patch(Pod, pod.key, patch)
    await sim.until("A2 R2", tracked=1)
    return pod


async def orphan(sim: Simulation) -> Pod:
    pod = sim.active()[0]
    await sim.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
    await sim.until("A2 R2", there=2, tracked=2)
    return pod


async def orphan_stripped(sim: Simulation) -> Pod:
    pod = await strip(sim)
    await sim.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
    await sim.until("A2 R2", there=2, tracked=2)
    return pod


Release = Callable[[Simulation], Awaitable[Pod]]
forms = pytest.mark.parametrize("release", [scale_down, suspend, strip, orphan, orphan_stripped])


@by_hand
@indexed
@forms
@scenario()
async def test_released_pod_fails_its_job(sim: Simulation, release: Release, mode: str, shape: dict[str, Any]) -> None:
    await create(sim, FAIL_JOB, completionMode=mode, **shape)
    pod = await release(sim)
    await sim.fail(pod)
    text = f"Container c for pod default/{pod.metadata.name} failed with exit code 1 matching FailJob rule at index 0"
    await sim.interim("FailureTarget", "PodFailurePolicy")
    await kill_deleted(sim)
    await sim.ends("Failed", "PodFailurePolicy", text)
    await sim.until(None, active=0, tracked=0, made=2)


@forms
@scenario()
async def test_pod_released_while_the_controller_is_away_fails_its_job(sim: Simulation, release: Release) -> None:
    await create(sim, FAIL_JOB)
    pod = await release(sim)
    await sim.crash()
    await sim.fail(pod)
    await sim.start()
    await sim.interim("FailureTarget", "PodFailurePolicy")
    await kill_deleted(sim)
    await sim.ends("Failed", "PodFailurePolicy")
    await sim.until(None, active=0, tracked=0, made=2)


@scenario(late={"pods": 3.0})
async def test_released_pod_is_judged_when_its_end_is_seen_late(sim: Simulation) -> None:
    await create(sim, FAIL_JOB)
    pod = await scale_down(sim)
    await sim.fail(pod)
    await sim.interim("FailureTarget", "PodFailurePolicy")
    await kill_deleted(sim)
    await sim.ends("Failed", "PodFailurePolicy")


@scenario(collects=True)
async def test_adopted_failure_of_another_job_fails_the_new_one(sim: Simulation) -> None:
    await create(sim, FAIL_JOB)
    old, pod = sim.job(), await scale_down(sim)
    (active,) = sim.active()
    await sim.delete(propagation="Orphan")
    await sim.wait(lambda: old.metadata.uid in sim.jobs.gone)
    await sim.fail(pod, active)
    labels = {"batch.kubernetes.io/controller-uid": old.metadata.uid}
    by_hand: dict[str, Any] = {"manualSelector": True, "selector": {"matchLabels": labels}, "labels": labels}
    await sim.create("new", podFailurePolicy={"rules": [FAIL_JOB]}, parallelism=1, **by_hand)
    await sim.wait(lambda: is_condition_true(sim.job("new").status.conditions, "Failed"))
    # The terminating pod is not adopted.
    assert [pod.metadata.uid for pod in sim.pods_of(sim.job("new"))] == [active.metadata.uid]
    assert {(one.reason, active.metadata.name in one.message) for one in sim.job("new").status.conditions} == {
        ("PodFailurePolicy", True)
    }


@pytest.mark.parametrize("action", ["Ignore", "Count", "FailIndex"])
@indexed
@pytest.mark.parametrize("release", [scale_down, suspend, strip])
@scenario()
async def test_other_actions_pass_over_a_released_pod(
    sim: Simulation, release: Release, mode: str, action: str
) -> None:
    if action == "FailIndex" and mode == "NonIndexed":
        pytest.skip("FailIndex requires indexes")
    rule = FAIL_JOB | {"action": action}
    limit = {"backoffLimitPerIndex": 1} if mode == "Indexed" else {}
    await create(sim, rule, FAIL_JOB, completionMode=mode, backoffLimit=0, **limit)
    pod = await release(sim)
    await sim.fail(pod)
    await sim.kill(deleted(sim))
    # Nothing was counted, and no index failed.
    await sim.clock.advance(60)
    job = sim.job()
    assert job.status.failed == 0
    assert not job.status.failed_indexes
    assert not [one for one in job.status.conditions if one.type != "Suspended"]
