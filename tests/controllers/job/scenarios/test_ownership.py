"""Whose a pod is, what becomes of it when its Job goes, and what happens to writes that fail: job-controller §37.12."""

from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job
from kcr.api.conditions import is_true
from kcr.api.core import Namespace, Pod
from kcr.api.meta import Key, controller_of
from kcr.controllers.job.pods import TRACKING_FINALIZER, is_tracked
from kcr.errors import ConflictError, ServerError
from tests.kit.harness import manifest
from tests.kit.scenario import World, flow

SELECTED = {"app": "pi"}
BY_HAND: dict[str, Any] = {"manualSelector": True, "selector": {"matchLabels": SELECTED}}
KEY = Key("default", "pi")


def owner(job: Job, **fields: Any) -> list[dict[str, Any]]:
    """Return owner references that make a Job the controller."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job.metadata.name, "uid": job.metadata.uid}
    return [reference | {"controller": True} | fields]


async def orphan(world: World, name: str = "orphan", *, phase: str = "") -> Pod:
    """Create a pod that nobody controls and that the selector fits."""
    pod = await world.create_pod(name, labels=SELECTED)
    if phase:
        await world.end(pod, phase, 0)
    return pod


@flow()
async def test_more_successes_than_wanted_complete_the_job(world: World) -> None:
    # Row 18.
    await world.create(**BY_HAND, labels=SELECTED)
    await world.until("A1")
    (pod,) = world.active()
    await world.crash()
    await world.succeed(pod)
    await orphan(world, phase="Succeeded")
    await world.start()
    await world.ends("Complete", "CompletionsReached")
    await world.until("S2", there=2, tracked=0)
    if world.undisturbed:
        assert (await world.events())[1:] == [
            ("TooManySucceededPods", "Too many succeeded pods running after completion count reached"),
            ("Completed", "Job completed"),
        ]


@flow()
async def test_pod_that_lost_its_owner_is_adopted_again(world: World) -> None:
    # Row 123.
    await world.create()
    job = await world.until("A1")
    (pod,) = world.active()
    await world.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
    await world.until("A1", there=1, tracked=1)
    (pod,) = world.active()
    assert (await world.read(pod))["metadata"]["ownerReferences"] == owner(job, blockOwnerDeletion=True)
    await world.succeed(pod)
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", tracked=0)


@flow()
async def test_pod_that_lost_its_labels_is_released(world: World) -> None:
    # Row 124.
    await world.create()
    await world.until("A1")
    (pod,) = world.active()
    await world.client.merge_patch(Pod, pod.key, {"metadata": {"labels": None}})
    await world.until("A1", there=1, made=2)
    left = world.pods.all[pod.metadata.uid].metadata
    assert (left.owner_references, left.finalizers) == ((), ())
    if world.undisturbed:
        patches = [call for call in world.faults.calls if (call.verb, call.name) == ("patch", pod.metadata.name)]
        assert len(patches) == 1


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created-again"])
@flow()
async def test_job_that_is_gone_adopts_nothing(world: World, again: bool) -> None:
    # Row 125: the store still shows the old one.
    await world.create(**BY_HAND, labels=SELECTED, parallelism=0)
    await world.until("", ready=0)
    world.withhold("jobs")
    await world.delete()
    if again:
        await world.create(**BY_HAND, labels=SELECTED, parallelism=0, suspend=True)
    await orphan(world, phase="Succeeded")
    await world.clock.advance(5)
    if world.undisturbed:
        assert any(call.verb == "get" and call.name == "pi" for call in world.faults.calls)
        assert controller_of(next(iter(world.pods.all.values())).metadata) is None
    world.let_through("jobs")
    await world.clock.advance(60)
    found = controller_of(next(iter(world.pods.all.values())).metadata)
    assert (found.uid if found else None) == (world.job().metadata.uid if again else None)
    assert world.job().status.succeeded == int(again)


@flow(collects=True)
async def test_pods_pass_from_an_old_job_to_a_new_one(world: World) -> None:
    # Row 126.
    old = await world.create("old", parallelism=2, completions=2)
    await world.wait(lambda: len(world.pods_of(old)) == 2 and old_is_counted(world))
    await world.delete("old", "Orphan")
    await world.wait(lambda: old.metadata.uid in world.jobs.gone)
    labels = {"batch.kubernetes.io/controller-uid": old.metadata.uid}
    by_hand: dict[str, Any] = {"manualSelector": True, "selector": {"matchLabels": labels}}
    await world.create("new", **by_hand, labels=labels, parallelism=3, completions=3)
    await world.wait(lambda: world.job("new").status.active == 3)
    pods = world.pods_of(world.job("new"))
    assert (len(pods), len(world.pods.all)) == (3, 3)
    assert sum(pod.metadata.name.startswith("new-") for pod in pods) == 1
    await world.succeed(*pods)
    await world.wait(lambda: is_true(world.job("new").status.conditions, "Complete"))
    assert world.job("new").status.succeeded == 3


def old_is_counted(world: World) -> bool:
    return world.job("old").status.active == 2


@flow()
async def test_one_of_two_jobs_adopts_a_pod(world: World) -> None:
    # Row 127.
    for name in ("one", "two"):
        await world.create(name, **BY_HAND, labels=SELECTED, parallelism=0, completions=2)
    await world.clock.advance(1)
    pod = await orphan(world, phase="Succeeded")
    jobs = [world.job("one"), world.job("two")]
    await world.wait(lambda: sum(world.job(job.metadata.name).status.succeeded for job in jobs) == 1)
    await world.clock.advance(60)
    owners = world.pods.all[pod.metadata.uid].metadata.owner_references
    assert len(owners) == 1
    counted = {job.metadata.uid: world.job(job.metadata.name).status.succeeded for job in jobs}
    assert counted.pop(owners[0].uid) == 1
    assert list(counted.values()) == [0]


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@flow(collects=True)
async def test_no_pod_is_held_when_its_job_goes(world: World, propagation: str) -> None:
    # Row 128: one has ended, one runs.
    await world.create(parallelism=2, completions=3)
    await world.until("A2")
    await world.succeed(world.active()[0])
    await world.until("A2 S1")
    await world.bind(world.active()[0])
    await world.delete(propagation=propagation)
    await world.clock.advance(5)
    assert not any(map(is_tracked, world.pods.there))
    await world.kill(pod for pod in world.pods.there if pod.metadata.deletion_timestamp)
    await world.wait(lambda: world.job().metadata.uid in world.jobs.gone)
    await world.clock.advance(5)
    assert len(world.pods.there) == (3 if propagation == "Orphan" else 0)


@flow(collects=True)
async def test_no_pod_is_held_when_its_job_went_unseen(world: World) -> None:
    # Row 129.
    await world.create(parallelism=3, completions=3)
    await world.until("A3")
    await world.succeed(world.active()[0])
    await world.crash()
    await world.delete()
    await world.clock.advance(5)
    assert len(world.pods.there) == 3
    await world.start()
    await world.wait(lambda: not world.pods.there)


@flow()
async def test_pod_of_another_kind_of_job_is_left_alone(world: World) -> None:
    # Row 130.
    job = await world.create(parallelism=0)
    held = {
        "finalizers": [TRACKING_FINALIZER],
        "labels": dict(job.spec.selector.match_labels if job.spec.selector else {}),
    }
    theirs = owner(job, apiVersion="example.com/v1", uid="f5b6f6b5-9f2c-4f0e-8d0c-6f4f3a0f7b11")
    pod = await world.create_pod("theirs", ownerReferences=theirs, **held)
    await world.delete_pods([pod])
    await world.clock.advance(60)
    assert [there.metadata.finalizers for there in world.pods.there] == [(TRACKING_FINALIZER,)]


@pytest.mark.parametrize("suspend", [False, True], ids=["runs", "suspended"])
@flow()
async def test_job_managed_elsewhere_is_left_alone(world: World, suspend: bool) -> None:
    # Row 131.
    job = await world.create(managedBy="example.com/x", suspend=suspend)
    held = {"finalizers": [TRACKING_FINALIZER], "labels": {"app": "x"}}
    await world.create_pod("theirs", ownerReferences=owner(job), **held)
    await world.clock.advance(60)
    assert msgspec.json.decode(await world.client.request("GET", Job.resource.path("default", "pi")))["status"] == {}
    assert world.counted("jobs_by_external_controller", controller_name="example.com/x") == 1
    at = "2026-01-01T00:00:10Z"
    told = {"status": "True", "reason": "Theirs", "lastProbeTime": at, "lastTransitionTime": at}
    over = [{"type": "FailureTarget", **told}, {"type": "Failed", **told}]
    status = {"conditions": over, "startTime": at, "uncountedTerminatedPods": {}}
    await world.client.merge_patch(Job, KEY, {"status": status}, subresource="status")
    await world.clock.advance(60)
    assert [there.metadata.finalizers for there in world.pods.there] == [(TRACKING_FINALIZER,)]


@pytest.mark.parametrize("name", ["kubernetes.io/job-controller", "kcr.dev/job-controller", None])
@flow()
async def test_job_of_our_own_is_looked_after(world: World, name: str | None) -> None:
    # Row 132.
    await world.create(managedBy=name)
    await world.until("A1")
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")


@flow(options={"take_over": False}, calm=True)
async def test_jobs_of_the_cluster_are_left_to_it(world: World) -> None:
    # Row 132: beside a controller that looks after Jobs already.
    for name in (None, "kubernetes.io/job-controller", "example.com/x"):
        await world.create(managedBy=name)
        await world.clock.advance(60)
        written = await world.client.request("GET", Job.resource.path("default", "pi"))
        assert msgspec.json.decode(written)["status"] == {}
        await world.delete()
    # Only Jobs that name a third one are counted.
    assert world.counted("jobs_by_external_controller", controller_name="example.com/x") == 1
    assert world.counted("jobs_by_external_controller", controller_name="kubernetes.io/job-controller") == 0
    await world.create(managedBy="kcr.dev/job-controller")
    await world.until("A1", made=1)


@flow(collects=True)
async def test_namesake_managed_elsewhere_is_left_alone(world: World) -> None:
    # Row 133.
    await world.create()
    await world.until("A1")
    await world.crash()
    await world.succeed(*world.active())
    await world.delete()
    await world.create(managedBy="example.com/x")
    await world.start()
    await world.clock.advance(60)
    assert not world.pods_of()
    assert msgspec.json.decode(await world.client.request("GET", Job.resource.path("default", "pi")))["status"] == {}


@flow()
async def test_namespace_that_goes_is_no_error(world: World) -> None:
    # Row 135.
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}}
    await world.client.create_manifest(Namespace, namespace)
    job = manifest(parallelism=0)
    job["metadata"]["namespace"] = "doomed"
    await world.client.create_manifest(Job, job, "doomed")
    await world.until("", ready=0)
    await world.client.delete(Namespace, Key("", "doomed"))
    await world.client.merge_patch(Job, Key("doomed", "pi"), {"spec": {"parallelism": 2}})
    await world.clock.advance(60)
    assert not world.pods.all
    if world.undisturbed:
        assert [call.resource[2] for call in world.faults.calls if call.verb == "create"] == ["pods"]
        assert world.errors() == 0


@flow()
async def test_nothing_is_let_go_after_a_conflict(world: World) -> None:
    # Row 136.
    await world.create()
    await world.until("A1")
    (pod,) = world.active()
    before = len(world.faults.calls)
    world.faults.on("patch", Job, nth=1).fail(ConflictError)
    await world.succeed(pod)
    await world.ends("Complete", "CompletionsReached")
    if world.undisturbed:
        calls = [call.resource[2] for call in world.faults.calls[before:] if call.verb == "patch"]
        assert calls == ["jobs", "jobs", "pods", "jobs"]
        assert world.errors() == 1


@flow()
async def test_pod_that_cannot_be_let_go_stays_listed(world: World) -> None:
    # Row 137.
    await world.create(parallelism=2, completions=2)
    await world.until("A2")
    stuck, other = world.active()
    world.faults.on("patch", Pod, nth=1, name=stuck.metadata.name).fail(ServerError(500, "InternalError", "no"))
    await world.crash()
    await world.succeed(stuck, other)
    await world.start()
    await world.ends("Complete", "CompletionsReached")
    await world.until("S2", tracked=0)
    if world.undisturbed:
        lists = [(seen.status.succeeded, seen.status.uncounted_terminated_pods) for seen in world.jobs.history]
        assert [(1, (stuck.metadata.uid,))] == [
            (counted, listed.succeeded) for counted, listed in lists if listed and counted == 1
        ]


@flow()
async def test_conditions_set_to_false_by_hand_mean_nothing(world: World) -> None:
    # Rows 141 and 142.
    await world.create(activeDeadlineSeconds=30)
    await world.until("A1")
    at = "2026-01-01T00:00:00Z"
    by_hand = [
        {"type": kind, "status": "False", "lastProbeTime": at, "lastTransitionTime": at}
        for kind in ("FailureTarget", "SuccessCriteriaMet", "Failed")
    ]
    await world.client.merge_patch(Job, KEY, {"status": {"conditions": by_hand}}, subresource="status")
    await world.stays("A1", seconds=20)
    assert [condition.status for condition in world.job().status.conditions] == ["False"] * 3
    job = await world.ends("Failed", "DeadlineExceeded")
    assert sorted(condition.type for condition in job.status.conditions) == [
        "Failed", "FailureTarget", "SuccessCriteriaMet",
    ]  # fmt: skip


@flow()
async def test_what_others_wrote_into_the_status_stays(world: World) -> None:
    # Row 143.
    await world.create(completions=2, parallelism=1)
    await world.until("A1")
    at = "2026-01-01T00:00:00Z"
    theirs = {"type": "example.com/Seen", "status": "True", "lastProbeTime": at, "lastTransitionTime": at}
    patch = {"metadata": {"annotations": {"example.com/by": "hand"}}, "status": {"conditions": [theirs]}}
    await world.client.merge_patch(Job, KEY, patch, subresource="status")
    for _ in range(2):
        await world.succeed(*world.active())
        await world.clock.advance(5)
    job = await world.ends("Complete", "CompletionsReached")
    assert is_true(job.status.conditions, "example.com/Seen")
    assert job.metadata.annotations["example.com/by"] == "hand"


@flow()
async def test_pod_of_unknown_phase_is_active(world: World) -> None:
    # Row 144.
    await world.create(parallelism=2, completions=2)
    await world.until("A2")
    await world.report(world.active()[0], {"phase": "Unknown"})
    await world.stays("A2")
    await world.until("A2", made=2)
