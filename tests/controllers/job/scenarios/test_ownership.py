"""Whose a pod is, what becomes of it when its Job goes, and what happens to writes that fail: job-controller §37.12."""

from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job
from kcr.api.conditions import is_condition_true
from kcr.api.core import Namespace, Pod
from kcr.api.meta import Key, controller_of
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER, is_tracked
from kcr.errors import ConflictError, ServerError
from tests.kit.harness import manifest
from tests.kit.scenario import Simulation, scenario

SELECTED = {"app": "pi"}
BY_HAND: dict[str, Any] = {"manualSelector": True, "selector": {"matchLabels": SELECTED}}
KEY = Key("default", "pi")


def owner(job: Job, **fields: Any) -> list[dict[str, Any]]:
    """Return owner references that make a Job the controller."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job.metadata.name, "uid": job.metadata.uid}
    return [reference | {"controller": True} | fields]


async def orphan(sim: Simulation, name: str = "orphan", *, phase: str = "") -> Pod:
    """Create a pod without a controller that the selector matches."""
    pod = await sim.create_pod(name, labels=SELECTED)
    if phase:
        await sim.end(pod, phase, 0)
    return pod


@scenario()
async def test_more_successes_than_wanted_complete_the_job(sim: Simulation) -> None:
    # Row 18.
    await sim.create(**BY_HAND, labels=SELECTED)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.crash()
    await sim.succeed(pod)
    await orphan(sim, phase="Succeeded")
    await sim.start()
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S2", there=2, tracked=0)
    if sim.undisturbed:
        assert (await sim.events())[1:] == [
            ("TooManySucceededPods", "Too many succeeded pods running after completion count reached"),
            ("Completed", "Job completed"),
        ]


@scenario()
async def test_pod_that_lost_its_owner_is_adopted_again(sim: Simulation) -> None:
    # Row 123.
    await sim.create()
    job = await sim.until("A1")
    (pod,) = sim.active()
    await sim.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
    await sim.until("A1", there=1, tracked=1)
    (pod,) = sim.active()
    assert (await sim.read(pod))["metadata"]["ownerReferences"] == owner(job, blockOwnerDeletion=True)
    await sim.succeed(pod)
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", tracked=0)


@scenario()
async def test_pod_that_lost_its_labels_is_released(sim: Simulation) -> None:
    # Row 124.
    await sim.create()
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.client.merge_patch(Pod, pod.key, {"metadata": {"labels": None}})
    await sim.until("A1", there=1, made=2)
    left = sim.pods.all[pod.metadata.uid].metadata
    assert (left.owner_references, left.finalizers) == ((), ())
    if sim.undisturbed:
        patches = [call for call in sim.faults.calls if (call.verb, call.name) == ("patch", pod.metadata.name)]
        assert len(patches) == 1


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created-again"])
@scenario()
async def test_job_that_is_gone_adopts_nothing(sim: Simulation, again: bool) -> None:
    # Row 125: the store still shows the old one.
    await sim.create(**BY_HAND, labels=SELECTED, parallelism=0)
    await sim.until("", ready=0)
    sim.withhold(Job)
    await sim.delete()
    if again:
        await sim.create(**BY_HAND, labels=SELECTED, parallelism=0, suspend=True)
    await orphan(sim, phase="Succeeded")
    await sim.clock.advance(5)
    if sim.undisturbed:
        assert any(call.verb == "get" and call.name == "pi" for call in sim.faults.calls)
        assert controller_of(next(iter(sim.pods.all.values())).metadata) is None
    sim.let_through(Job)
    await sim.clock.advance(60)
    found = controller_of(next(iter(sim.pods.all.values())).metadata)
    assert (found.uid if found else None) == (sim.job().metadata.uid if again else None)
    assert sim.job().status.succeeded == int(again)


@scenario(collects=True)
async def test_pods_pass_from_an_old_job_to_a_new_one(sim: Simulation) -> None:
    # Row 126.
    old = await sim.create("old", parallelism=2, completions=2)
    await sim.wait(lambda: len(sim.pods_of(old)) == 2 and old_is_counted(sim))
    await sim.delete("old", "Orphan")
    await sim.wait(lambda: old.metadata.uid in sim.jobs.gone)
    labels = {"batch.kubernetes.io/controller-uid": old.metadata.uid}
    by_hand: dict[str, Any] = {"manualSelector": True, "selector": {"matchLabels": labels}}
    await sim.create("new", **by_hand, labels=labels, parallelism=3, completions=3)
    await sim.wait(lambda: sim.job("new").status.active == 3)
    pods = sim.pods_of(sim.job("new"))
    assert (len(pods), len(sim.pods.all)) == (3, 3)
    assert sum(pod.metadata.name.startswith("new-") for pod in pods) == 1
    await sim.succeed(*pods)
    await sim.wait(lambda: is_condition_true(sim.job("new").status.conditions, "Complete"))
    assert sim.job("new").status.succeeded == 3


def old_is_counted(sim: Simulation) -> bool:
    return sim.job("old").status.active == 2


@scenario()
async def test_one_of_two_jobs_adopts_a_pod(sim: Simulation) -> None:
    # Row 127.
    for name in ("one", "two"):
        await sim.create(name, **BY_HAND, labels=SELECTED, parallelism=0, completions=2)
    await sim.clock.advance(1)
    pod = await orphan(sim, phase="Succeeded")
    jobs = [sim.job("one"), sim.job("two")]
    await sim.wait(lambda: sum(sim.job(job.metadata.name).status.succeeded for job in jobs) == 1)
    await sim.clock.advance(60)
    owners = sim.pods.all[pod.metadata.uid].metadata.owner_references
    assert len(owners) == 1
    counted = {job.metadata.uid: sim.job(job.metadata.name).status.succeeded for job in jobs}
    assert counted.pop(owners[0].uid) == 1
    assert list(counted.values()) == [0]


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@scenario(collects=True)
async def test_no_pod_is_held_when_its_job_goes(sim: Simulation, propagation: str) -> None:
    # Row 128: one has ended, one runs.
    await sim.create(parallelism=2, completions=3)
    await sim.until("A2")
    await sim.succeed(sim.active()[0])
    await sim.until("A2 S1")
    await sim.bind(sim.active()[0])
    await sim.delete(propagation=propagation)
    await sim.clock.advance(5)
    assert not any(map(is_tracked, sim.pods.there))
    await sim.kill(pod for pod in sim.pods.there if pod.metadata.deletion_timestamp)
    await sim.wait(lambda: sim.job().metadata.uid in sim.jobs.gone)
    await sim.clock.advance(5)
    assert len(sim.pods.there) == (3 if propagation == "Orphan" else 0)


@scenario(collects=True)
async def test_no_pod_is_held_when_its_job_went_unseen(sim: Simulation) -> None:
    # Row 129.
    await sim.create(parallelism=3, completions=3)
    await sim.until("A3")
    await sim.succeed(sim.active()[0])
    await sim.crash()
    await sim.delete()
    await sim.clock.advance(5)
    assert len(sim.pods.there) == 3
    await sim.start()
    await sim.wait(lambda: not sim.pods.there)


@scenario()
async def test_pod_of_another_kind_of_job_is_left_alone(sim: Simulation) -> None:
    # Row 130.
    job = await sim.create(parallelism=0)
    held = {
        "finalizers": [TRACKING_FINALIZER],
        "labels": dict(job.spec.selector.match_labels if job.spec.selector else {}),
    }
    theirs = owner(job, apiVersion="example.com/v1", uid="f5b6f6b5-9f2c-4f0e-8d0c-6f4f3a0f7b11")
    pod = await sim.create_pod("theirs", ownerReferences=theirs, **held)
    await sim.delete_pods([pod])
    await sim.clock.advance(60)
    assert [there.metadata.finalizers for there in sim.pods.there] == [(TRACKING_FINALIZER,)]


@pytest.mark.parametrize("suspend", [False, True], ids=["runs", "suspended"])
@scenario()
async def test_job_managed_elsewhere_is_left_alone(sim: Simulation, suspend: bool) -> None:
    # Row 131.
    job = await sim.create(managedBy="example.com/x", suspend=suspend)
    held = {"finalizers": [TRACKING_FINALIZER], "labels": {"app": "x"}}
    await sim.create_pod("theirs", ownerReferences=owner(job), **held)
    await sim.clock.advance(60)
    assert msgspec.json.decode(await sim.client.request("GET", Job.resource.path("default", "pi")))["status"] == {}
    assert sim.counted("jobs_by_external_controller", controller_name="example.com/x") == 1
    at = "2026-01-01T00:00:10Z"
    told = {"status": "True", "reason": "Theirs", "lastProbeTime": at, "lastTransitionTime": at}
    over = [{"type": "FailureTarget", **told}, {"type": "Failed", **told}]
    status = {"conditions": over, "startTime": at, "uncountedTerminatedPods": {}}
    await sim.client.merge_patch(Job, KEY, {"status": status}, subresource="status")
    await sim.clock.advance(60)
    assert [there.metadata.finalizers for there in sim.pods.there] == [(TRACKING_FINALIZER,)]


@pytest.mark.parametrize("name", ["kubernetes.io/job-controller", "kcr.dev/job-controller", None])
@scenario()
async def test_job_of_our_own_is_looked_after(sim: Simulation, name: str | None) -> None:
    # Row 132.
    await sim.create(managedBy=name)
    await sim.until("A1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")


@scenario(options={"take_over": False}, disturbed=False)
async def test_jobs_of_the_cluster_are_left_to_it(sim: Simulation) -> None:
    # Row 132: beside a controller that looks after Jobs already.
    for name in (None, "kubernetes.io/job-controller", "example.com/x"):
        await sim.create(managedBy=name)
        await sim.clock.advance(60)
        written = await sim.client.request("GET", Job.resource.path("default", "pi"))
        assert msgspec.json.decode(written)["status"] == {}
        await sim.delete()
    # Only Jobs that name a third one are counted.
    assert sim.counted("jobs_by_external_controller", controller_name="example.com/x") == 1
    assert sim.counted("jobs_by_external_controller", controller_name="kubernetes.io/job-controller") == 0
    await sim.create(managedBy="kcr.dev/job-controller")
    await sim.until("A1", made=1)


@scenario(collects=True)
async def test_namesake_managed_elsewhere_is_left_alone(sim: Simulation) -> None:
    # Row 133.
    await sim.create()
    await sim.until("A1")
    await sim.crash()
    await sim.succeed(*sim.active())
    await sim.delete()
    await sim.create(managedBy="example.com/x")
    await sim.start()
    await sim.clock.advance(60)
    assert not sim.pods_of()
    assert msgspec.json.decode(await sim.client.request("GET", Job.resource.path("default", "pi")))["status"] == {}


@scenario()
async def test_namespace_that_goes_is_no_error(sim: Simulation) -> None:
    # Row 135.
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}}
    await sim.client.create_manifest(Namespace, namespace)
    job = manifest(parallelism=0)
    job["metadata"]["namespace"] = "doomed"
    await sim.client.create_manifest(Job, job, "doomed")
    await sim.until("", ready=0)
    await sim.client.delete(Namespace, Key("", "doomed"))
    await sim.client.merge_patch(Job, Key("doomed", "pi"), {"spec": {"parallelism": 2}})
    await sim.clock.advance(60)
    assert not sim.pods.all
    if sim.undisturbed:
        assert [call.resource[2] for call in sim.faults.calls if call.verb == "create"] == ["pods"]
        assert sim.errors() == 0


@scenario()
async def test_nothing_is_let_go_after_a_conflict(sim: Simulation) -> None:
    # Row 136.
    await sim.create()
    await sim.until("A1")
    (pod,) = sim.active()
    before = len(sim.faults.calls)
    sim.faults.on("patch", Job, nth=1).fail(ConflictError)
    await sim.succeed(pod)
    await sim.ends("Complete", "CompletionsReached")
    if sim.undisturbed:
        calls = [call.resource[2] for call in sim.faults.calls[before:] if call.verb == "patch"]
        assert calls == ["jobs", "jobs", "pods", "jobs"]
        assert sim.errors() == 1


@scenario()
async def test_pod_that_cannot_be_let_go_stays_listed(sim: Simulation) -> None:
    # Row 137.
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    stuck, other = sim.active()
    sim.faults.on("patch", Pod, nth=1, name=stuck.metadata.name).fail(ServerError(500, "InternalError", "no"))
    await sim.crash()
    await sim.succeed(stuck, other)
    await sim.start()
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S2", tracked=0)
    if sim.undisturbed:
        lists = [(seen.status.succeeded, seen.status.uncounted_terminated_pods) for seen in sim.jobs.history]
        assert [(1, (stuck.metadata.uid,))] == [
            (counted, listed.succeeded) for counted, listed in lists if listed and counted == 1
        ]


@scenario()
async def test_conditions_set_to_false_by_hand_mean_nothing(sim: Simulation) -> None:
    # Rows 141 and 142.
    await sim.create(activeDeadlineSeconds=30)
    await sim.until("A1")
    at = "2026-01-01T00:00:00Z"
    by_hand = [
        {"type": kind, "status": "False", "lastProbeTime": at, "lastTransitionTime": at}
        for kind in ("FailureTarget", "SuccessCriteriaMet", "Failed")
    ]
    await sim.client.merge_patch(Job, KEY, {"status": {"conditions": by_hand}}, subresource="status")
    await sim.stays("A1", seconds=20)
    assert [condition.status for condition in sim.job().status.conditions] == ["False"] * 3
    job = await sim.ends("Failed", "DeadlineExceeded")
    assert sorted(condition.type for condition in job.status.conditions) == [
        "Failed", "FailureTarget", "SuccessCriteriaMet",
    ]  # fmt: skip


@scenario()
async def test_what_others_wrote_into_the_status_stays(sim: Simulation) -> None:
    # Row 143.
    await sim.create(completions=2, parallelism=1)
    await sim.until("A1")
    at = "2026-01-01T00:00:00Z"
    theirs = {"type": "example.com/Seen", "status": "True", "lastProbeTime": at, "lastTransitionTime": at}
    patch = {"metadata": {"annotations": {"example.com/by": "hand"}}, "status": {"conditions": [theirs]}}
    await sim.client.merge_patch(Job, KEY, patch, subresource="status")
    for _ in range(2):
        await sim.succeed(*sim.active())
        await sim.clock.advance(5)
    job = await sim.ends("Complete", "CompletionsReached")
    assert is_condition_true(job.status.conditions, "example.com/Seen")
    assert job.metadata.annotations["example.com/by"] == "hand"


@scenario()
async def test_pod_of_unknown_phase_is_active(sim: Simulation) -> None:
    # Row 144.
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    await sim.report(sim.active()[0], {"phase": "Unknown"})
    await sim.stays("A2")
    await sim.until("A2", made=2)
