"""`kcr explain job/NAME`: each situation is built on the embedded cluster, and its text compared."""

import re
from textwrap import dedent

import pytest

from kcr.api.batch import Job
from kcr.api.core import Event, ObjectReference
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.cli.objects.look import look
from kcr.cli.objects.show import lines_of
from kcr.cli.objects.target import ObjectName
from kcr.cluster import EmbeddedCluster
from kcr.controllers.job.explanation import explain_job
from kcr.testing import VirtualClock
from tests.kit.harness import create, manifest
from tests.kit.scenario import Simulation, scenario

DENIED = (
    'Error creating: pods "pi-x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0'
)
QUOTA = unstructured("v1", "ResourceQuota", plural="resourcequotas")


async def explained(sim: Simulation, name: str = "pi") -> str:
    """Return what `kcr explain` prints; the random ends of pods' names are `x`."""
    target, key, now = ObjectName(Job, name), Key("default", name), sim.clock.now()
    lines = lines_of(target, key, await look(sim.client, target, key, now), now)
    text = re.sub(r"\b(pi(-\d)?)-[a-z0-9]{5}\b", r"\1-x", "\n".join(lines)) + "\n"
    assert text.count("\n") <= 24, "it has to fit one screen"
    return text


def text(block: str) -> str:
    return dedent(block).lstrip("\n")


@scenario(disturbed=False)
async def test_running_job_waits_for_its_pods(sim: Simulation) -> None:
    await sim.create(completions=3, parallelism=2, activeDeadlineSeconds=600)
    await sim.until("A2")
    (first, _) = sim.active()
    await sim.bind(first)
    await sim.ready(first)
    assert await explained(sim) == text("""
        job default/pi: runs 1 pod
          wanted      3 completions, 2 pods at once, backoffLimit 6, activeDeadlineSeconds 600
          present     0 succeeded, 0 failed, 2 active (1 ready)
          next        in 10m    fails with DeadlineExceeded, unless it has ended
                      then      counts each pod that ends, and creates the next one that is wanted
          why         pod pi-x is pending
          events      0s ago    Normal SuccessfulCreate: Created pod: pi-x
                      0s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_job_in_backoff_names_failure_and_time(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.fail(*sim.active(), exit_code=3)
    await sim.until("F1")
    await sim.clock.advance(2)
    assert await explained(sim) == text("""
        job default/pi: waits 8s before it replaces a failed pod (backoff)
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 1 failed, 0 active (0 ready)
          next        in 8s     replaces what failed: 1 failure in a row
          why         pod pi-x failed 2s ago: container c: exit code 3
          events      2s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_suspended_job_names_the_command_that_resumes_it(sim: Simulation) -> None:
    await sim.create(suspend=True)
    await sim.clock.advance(5)
    assert await explained(sim) == text("""
        job default/pi: suspended for 5s
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          why         spec.suspend is true
          remedy      to resume it: kubectl -n default patch job pi --type merge -p '{"spec":{"suspend":false}}'
          conditions  Suspended (JobSuspended), 5s ago
          events      5s ago    Normal Suspended: Job suspended
    """)


@scenario(disturbed=False)
async def test_paused_job_names_the_command_that_resumes_it(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.client.merge_patch(Job, Key("default", "pi"), {"metadata": {"annotations": {"kcr.dev/paused": "true"}}})
    await sim.succeed(*sim.active())
    await sim.clock.advance(5)
    assert await explained(sim) == text("""
        job default/pi: is paused: no controller of kcr reconciles it
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     1 succeeded, 0 failed, 0 active (0 ready)
          why         the annotation kcr.dev/paused is true; kube-controller-manager does not heed it
                      without the pause: has succeeded: becomes Complete once its pods are counted
          remedy      to end the pause: kubectl -n default annotate job pi kcr.dev/paused-
          events      5s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_job_of_another_controller_is_left_to_it(sim: Simulation) -> None:
    await sim.create(managedBy="example.com/queue")
    await sim.clock.advance(5)
    assert await explained(sim) == text("""
        job default/pi: left to the controller example.com/queue
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          why         spec.managedBy is example.com/queue: kcr and kube-controller-manager reconcile no such Job
          remedy      see the logs of example.com/queue; the field is immutable: create the Job anew to run it here
    """)


@scenario(disturbed=False)
async def test_pod_stuck_terminating_is_named_with_its_node(sim: Simulation) -> None:
    await sim.create(podReplacementPolicy="Failed")
    await sim.until("A1")
    await sim.bind(*sim.active())
    await sim.ready(*sim.active())
    await sim.delete_pods(sim.active())
    await sim.clock.advance(10)
    headline, *_, reason = (await explained(sim)).splitlines()[:5]
    assert headline == "job default/pi: waits for 1 terminating pod to end"
    assert reason == "  why         pod pi-x is terminating for 10s"
    await sim.clock.advance(110)
    assert await explained(sim) == text("""
        job default/pi: waits for 1 pod stuck terminating
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready), 1 terminating
          next        then      creates a replacement when the pod has ended
          why         pod pi-x is terminating for 2m: grace period over for 90s, and node-1 has not reported its end
                      a terminating pod is replaced only when it has ended: spec.podReplacementPolicy is Failed
          remedy      see the pod's node; delete the Node if it is lost for good
                      or delete the pod by force: kubectl -n default delete pod pi-x --force --grace-period=0
          events      2m ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_job_past_its_deadline_waits_for_its_pods(sim: Simulation) -> None:
    await sim.create(activeDeadlineSeconds=10)
    await sim.until("A1")
    await sim.bind(*sim.active())
    await sim.ready(*sim.active())
    await sim.clock.advance(15)
    assert await explained(sim) == text("""
        job default/pi: Failed (DeadlineExceeded) waits for the end of 1 pod
          wanted      1 completion, 1 pod at once, backoffLimit 6, activeDeadlineSeconds 10
          present     0 succeeded, 1 failed, 0 active (0 ready), 1 terminating
          next        then      becomes Failed once its pods have ended and are counted
          why         Job was active longer than specified deadline
                      pod pi-x is terminating for 5s
          conditions  FailureTarget (DeadlineExceeded), 5s ago
          events      15s ago   Normal SuccessfulCreate: Created pod: pi-x
                      5s ago    Normal SuccessfulDelete: Deleted pod: pi-x
    """)


@scenario(disturbed=False)
async def test_finished_job_names_how_it_failed(sim: Simulation) -> None:
    await sim.create(backoffLimit=0)
    await sim.until("A1")
    await sim.fail(*sim.active(), exit_code=3)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: Failed 65s ago: BackoffLimitExceeded: Job has reached the specified backoff limit
          wanted      1 completion, 1 pod at once, backoffLimit 0
          present     0 succeeded, 1 failed
          next        then      nothing: it stays until it is deleted, for it has no ttlSecondsAfterFinished
          why         pod pi-x failed 65s ago: container c: exit code 3
          conditions  FailureTarget (BackoffLimitExceeded), 65s ago
                      Failed (BackoffLimitExceeded), 65s ago
          events      65s ago   Normal SuccessfulCreate: Created pod: pi-x
                      65s ago   Warning BackoffLimitExceeded: Job has reached the specified backoff limit
    """)


@scenario(disturbed=False)
async def test_complete_job_names_when_it_is_removed(sim: Simulation) -> None:
    await sim.create(ttlSecondsAfterFinished=300)
    await sim.until("A1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: Complete for 65s
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     1 succeeded, 0 failed
          next        in 3m55s  is deleted with its pods (ttlSecondsAfterFinished)
          why         CompletionsReached: Reached expected number of succeeded pods
          conditions  SuccessCriteriaMet (CompletionsReached), 65s ago
                      Complete (CompletionsReached), 65s ago
          events      65s ago   Normal SuccessfulCreate: Created pod: pi-x
                      65s ago   Normal Completed: Job completed
    """)


@scenario(disturbed=False)
async def test_absent_job_is_told_from_a_deleted_one(sim: Simulation) -> None:
    assert await explained(sim, "none") == text("""
        job default/none: is not there, and no event is about it
          remedy      name its namespace with -n, or see `kubectl get jobs -A`
    """)
    await sim.create()
    await sim.until("A1")
    await sim.clock.advance(5)
    await sim.delete()
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: is not there any more
          why         events about one of this name are left: it was deleted, by a user, its owner's deletion or its TTL
          remedy      name its namespace with -n, or see `kubectl get jobs -A`
          events      65s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_failed_indexes_wait_each_for_itself(sim: Simulation) -> None:
    await sim.create(completionMode="Indexed", completions=5, parallelism=3, backoffLimitPerIndex=1)
    await sim.until("A3")
    await sim.succeed(*sim.active(0))
    await sim.fail(*sim.active(1))
    await sim.until("A3 S1")
    await sim.clock.advance(4)
    await sim.fail(*sim.active(2))
    await sim.clock.advance(1)
    assert await explained(sim) == text("""
        job default/pi: waits 5s before it replaces a failed pod (backoff)
          wanted      5 completions, by index, 3 pods at once, backoffLimitPerIndex 1
          present     1 succeeded, 2 failed, 2 active (0 ready), indexes 0 succeeded
          next        in 5s     creates a pod of index 1 again: 1 failure
                      in 9s     creates a pod of index 2 again: 1 failure
          why         pod pi-2-x failed 1s ago: container c: exit code 1
                      pod pi-1-x failed 5s ago: container c: exit code 1
          events      5s ago    Normal SuccessfulCreate: Created pod: pi-1-x
                      5s ago    Normal SuccessfulCreate: Created pod: pi-2-x
                      5s ago    Normal SuccessfulCreate: Created pod: pi-3-x
                      5s ago    Normal SuccessfulCreate: Created pod: pi-4-x
    """)


@scenario(disturbed=False)
async def test_job_that_no_controller_takes_up_says_so(sim: Simulation) -> None:
    await sim.crash()
    await sim.create(managedBy="kcr.dev/job-controller")
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: no controller has taken it up
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          next        then      a controller would create 1 pod
          why         it was created 60s ago, and has no startTime
          remedy      run it: kcr run --controllers job, or see whether the one that runs is ready: GET /readyz
    """)


@scenario(disturbed=False)
async def test_pods_that_a_quota_refuses_are_named(sim: Simulation) -> None:
    await sim.client.create_manifest(QUOTA, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}, "default")
    await sim.create(parallelism=2, completions=2)
    await sim.clock.advance(20)
    assert await explained(sim) == text(f"""
        job default/pi: cannot create pods: a ResourceQuota is used up
          wanted      2 completions, 2 pods at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          next        then      tries again to create 2 pods: after 1s, then twice as long each time, 60s at most
          why         5s ago: {DENIED}
          remedy      raise the quota, or delete what uses it
          events      19s ago   Warning FailedCreate: {DENIED}
                      17s ago   Warning FailedCreate: {DENIED}
                      13s ago   Warning FailedCreate: {DENIED}
                      5s ago    Warning FailedCreate: {DENIED}
    """)


@pytest.mark.kcr_virtual
async def test_refusal_of_an_earlier_job_is_not_this_ones(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    made, now = await create(kcr_cluster.client, manifest()), kcr_clock.now()
    headlines = []
    for uid in ("of the one before", made.metadata.uid):
        about = ObjectReference(kind="Job", name=made.metadata.name, uid=uid)
        refused = Event(reason="FailedCreate", message=DENIED, last_timestamp=now, involved_object=about)
        headlines.append((await explain_job(kcr_cluster.client, made.key, [refused], now))[1].headline)
    assert headlines == ["creates 1 pod now", "cannot create pods: a ResourceQuota is used up"]


@scenario(disturbed=False)
async def test_two_controllers_of_one_job_are_named(sim: Simulation) -> None:
    # The embedded server tracks managed fields from the first apply on.
    await sim.client.apply_manifest(Job, manifest(), field_owner="user")
    await sim.until("A1")
    other = sim.client.with_options(field_manager="kube-controller-manager")
    written = {"type": "Queued", "status": "False"}
    await other.merge_patch(Job, Key("default", "pi"), {"status": {"conditions": [written]}}, subresource="status")
    assert await explained(sim) == text("""
        job default/pi: several controllers write its status: kcr, kube-controller-manager
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 1 active (0 ready)
          next        then      counts each pod that ends, and creates the next one that is wanted
          why         it waits for 1 pod to start
                      pod pi-x is pending
          remedy      stop all but one of them, unless one has just taken over from the other
          events      0s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)
