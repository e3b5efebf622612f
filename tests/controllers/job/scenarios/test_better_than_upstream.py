"""Where the Job controller does better than kube-controller-manager 1.36.2: rows of docs/reference/differences.md.

Each test cites its row by the row's name. What upstream does was seen on a real control plane: job-controller §34.
"""

from typing import Any

import pytest

from kcr.api.batch import COMPLETE, FAILED, Job
from kcr.api.conditions import is_condition_true
from kcr.api.core import Event, Namespace, Pod
from kcr.api.meta import Key
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import ForbiddenError
from tests.kit.harness import manifest
from tests.kit.scenario import Simulation, index_of, scenario

KEY = Key("default", "pi")


@scenario()
async def test_suspended_job_that_becomes_smaller_than_its_successes_completes(sim: Simulation) -> None:
    # Difference: suspended-end.
    await sim.create(completionMode="Indexed", parallelism=2, completions=2)
    await sim.until("A2")
    await sim.succeed(*sim.active(0))
    await sim.until("A1 S1")
    await sim.patch(suspend=True)
    await sim.until("S1", start_time=None, there=1)
    await sim.patch(parallelism=1, completions=1)
    job = await sim.ends("Complete", "CompletionsReached")
    assert job.status.start_time is not None
    assert job.spec.suspend


@pytest.mark.parametrize(("phase", "kind"), [("Failed", FAILED), ("Succeeded", COMPLETE)])
@scenario()
async def test_suspended_job_ends_with_the_last_pod_that_a_user_deleted(sim: Simulation, phase: str, kind: str) -> None:
    # Difference: suspended-end.
    await sim.create(podReplacementPolicy="Failed", backoffLimit=0, held=True)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.delete_pods([pod])
    await sim.until("T1")
    await sim.patch(suspend=True)
    await sim.wait(lambda: is_condition_true(sim.job().status.conditions, "Suspended"))
    await sim.end(pod, phase, int(phase == "Failed"))
    job = await sim.ends(kind, "BackoffLimitExceeded" if kind == FAILED else "CompletionsReached")
    assert job.status.start_time is not None


@scenario()
async def test_pods_that_succeed_after_the_deadline_count_once(sim: Simulation) -> None:
    # Difference: double-count.
    await sim.create(activeDeadlineSeconds=10, parallelism=2, completions=2)
    await sim.until("A2")
    await sim.bind(*sim.active())
    pods = sim.active()
    sim.faults.on("patch", Pod).fail(ForbiddenError)
    await sim.interim("FailureTarget", "DeadlineExceeded")
    await sim.clock.advance(5)
    await sim.succeed(*pods)
    await sim.clock.advance(30)
    sim.faults.heal()
    job = await sim.ends("Failed", "DeadlineExceeded")
    assert job.status.succeeded + job.status.failed == 2


@scenario()
async def test_completed_index_stays_completed_when_a_pod_of_it_fails(sim: Simulation) -> None:
    # Difference: completed-index-fails.
    await sim.create(completionMode="Indexed", parallelism=3, completions=3, backoffLimitPerIndex=0, backoffLimit=3)
    await sim.until("A3")
    await sim.succeed(*sim.active(0))
    await sim.until("A2 S1", completed_indexes="0")
    (pod,) = sim.active(1)
    index = {"batch.kubernetes.io/job-completion-index": "0"}
    await sim.client.merge_patch(Pod, pod.key, {"metadata": {"annotations": index}})
    await sim.fail(pod)
    await sim.wait(lambda: bool(sim.active(1)) and not any(index_of(one) == 0 for one in sim.active()))
    await sim.succeed(*sim.active())
    job = await sim.ends("Complete", "CompletionsReached")
    assert (job.status.completed_indexes, job.status.failed_indexes or "") == ("0-2", "")


@scenario(disturbed=False)
async def test_index_in_backoff_frees_its_place(sim: Simulation) -> None:
    # Difference: index-in-backoff.
    await sim.create(completionMode="Indexed", parallelism=1, completions=2, backoffLimitPerIndex=1)
    await sim.until("A1")
    await sim.fail(*sim.active(0))
    await sim.wait(lambda: bool(sim.active(1)), seconds=5)
    await sim.succeed(*sim.active(1))
    await sim.wait(lambda: bool(sim.active(0)))
    await sim.succeed(*sim.active(0))
    job = await sim.ends("Complete", "CompletionsReached")
    assert (job.status.completed_indexes, job.status.failed) == ("0,1", 1)


@scenario()
async def test_pod_that_loses_its_owner_while_it_terminates_is_replaced(sim: Simulation) -> None:
    # Difference: released-while-terminating.
    await sim.create(podReplacementPolicy="Failed", held=True)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.delete_pods([pod])
    await sim.until("T1")
    change = {"metadata": {"ownerReferences": None}}
    await sim.client.merge_patch(Pod, pod.key, change)
    await sim.until("A1", seconds=5 if sim.undisturbed else 60)


@scenario(disturbed=False)
async def test_no_pod_is_deleted_while_the_outcome_is_refused(sim: Simulation) -> None:
    # Difference: deleted-before-outcome.
    await sim.create(activeDeadlineSeconds=10, parallelism=2, completions=2)
    await sim.until("A2")
    sim.faults.on("patch", Job).fail(ForbiddenError)
    await sim.clock.advance(60)
    assert len(sim.active()) == 2
    sim.faults.heal()
    await sim.ends("Failed", "DeadlineExceeded")


@scenario(disturbed=False)
async def test_outcome_is_on_record_while_deletions_are_refused(sim: Simulation) -> None:
    # Difference: deleted-before-outcome.
    await sim.create(activeDeadlineSeconds=10, parallelism=2, completions=2)
    await sim.until("A2")
    sim.faults.on("delete", Pod).fail(ForbiddenError)
    await sim.interim("FailureTarget", "DeadlineExceeded")
    assert len(sim.active()) == 2
    sim.faults.heal()
    await sim.ends("Failed", "DeadlineExceeded")


@scenario(disturbed=False)
async def test_ready_pods_that_could_not_be_deleted_are_counted_as_ready(sim: Simulation) -> None:
    # Difference: ready-after-refused-deletion.
    await sim.create(parallelism=2, completions=2, held=True)
    await sim.until("A2")
    await sim.bind(*sim.active())
    await sim.ready(*sim.active())
    await sim.until("A2 R2")
    sim.faults.on("delete", Pod).fail(ForbiddenError)
    await sim.patch(suspend=True)
    await sim.clock.advance(30)
    assert (sim.job().status.active, sim.job().status.ready) == (2, 2)
    sim.faults.heal()
    await sim.until("T2", start_time=None)


@scenario(disturbed=False)
async def test_refused_deletion_is_repeated_for_the_same_pod(sim: Simulation) -> None:
    # Difference: refused-deletion-draws-again.
    await sim.create(parallelism=3, completions=3)
    await sim.until("A3")
    sim.faults.on("delete", Pod).fail(ForbiddenError)
    await sim.patch(parallelism=2)
    await sim.clock.advance(300)
    assert [is_tracked(pod) for pod in sim.active()].count(False) == 1
    sim.faults.heal()
    await sim.until("A2")


@scenario(disturbed=False)
async def test_events_of_a_job_with_many_pods_tell_its_end(sim: Simulation) -> None:
    # Difference: lost-events.
    await sim.create(parallelism=40, completions=40)
    await sim.until("A40")
    for suspend in (True, False):
        await sim.patch(suspend=suspend)
        await sim.clock.advance(10)
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    reasons = [reason for reason, _ in await sim.events()]
    assert [one for one in reasons if not one.startswith("Successful")] == ["Suspended", "Resumed", "Completed"]


@scenario(disturbed=False)
async def test_suspension_is_told_once_though_the_status_is_refused(sim: Simulation) -> None:
    # Difference: repeated-events.
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    sim.faults.on("patch", Job).fail(ForbiddenError)
    await sim.patch(suspend=True)
    await sim.clock.advance(120)
    sim.faults.heal()
    await sim.wait(lambda: is_condition_true(sim.job().status.conditions, "Suspended"))
    found = await sim.client.list(Event, "default", fields="involvedObject.kind=Job")
    assert [event.count for event in found if event.reason == "Suspended"] == [1]


@scenario()
async def test_deadline_holds_in_a_namespace_that_terminates(sim: Simulation) -> None:
    # Difference: deadline-in-terminating-namespace.
    await sim.client.create_manifest(Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}})
    job: dict[str, Any] = manifest(activeDeadlineSeconds=30, parallelism=2, completions=2)
    job["metadata"]["namespace"] = "old"
    await sim.client.create_manifest(Job, job, "old")
    await sim.wait(lambda: sim.job().status.active == 2)
    await sim.client.delete(Namespace, Key("", "old"))
    first, *_ = sim.active()
    await sim.client.delete(Pod, first.key, grace_period_seconds=0)
    await sim.ends("Failed", "DeadlineExceeded")
