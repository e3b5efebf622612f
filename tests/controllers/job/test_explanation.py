"""`kcr explain job/NAME`: each situation is built on the embedded cluster, and its text compared."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Event, ObjectReference, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.api.unstructured import unstructured
from kcr.cli.objects.kinds.read import read_object
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.explanations import EXPLAINERS, explained, text
from tests.kit.harness import create, manifest
from tests.kit.scenario import Simulation, scenario

DENIED = (
    'Error creating: pods "pi-x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0'
)
QUOTA = unstructured("v1", "ResourceQuota", plural="resourcequotas")


@scenario(disturbed=False)
async def test_running_job_waits_for_its_pods(sim: Simulation) -> None:
    await sim.create(completions=3, parallelism=2, activeDeadlineSeconds=600)
    await sim.until("A2")
    (first, _) = sim.active()
    await sim.bind(first)
    await sim.ready(first)
    assert await explained(sim) == text("""
        job default/pi: runs 1 pod, and waits for 1 more pod to start
          wanted      3 completions, 2 pods at once, backoffLimit 6, activeDeadlineSeconds 600
          present     0 succeeded, 0 failed, 2 active (1 ready)
          next        in 10m: fails with DeadlineExceeded, unless it has ended
                      when a pod ends: counts it, and creates the next (1 still to come)
          why         pod pi-x is not scheduled yet
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
          next        in 8s: replaces what failed: 1 failure in a row
                      when 6 more pods have failed: the Job fails (backoffLimit)
          why         pod pi-x failed 2s ago: container c: exit code 3
          remedy      see the output of its pods: kcr logs -n default job/pi
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
          remedy      to resume it: kubectl -n default patch job pi -p '{"spec":{"suspend":false}}'
          conditions  Suspended (JobSuspended), 5s ago
          events      5s ago    Normal Suspended: Job suspended
    """)


@scenario(disturbed=False)
async def test_paused_job_names_the_command_that_resumes_it(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.client.merge_patch(Job, Key("default", "pi"), {"metadata": {"annotations": {"kcr.dev/paused": "true"}}})
    await sim.succeed(*sim.active())
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: is paused: no controller of kcr reconciles it
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     1 succeeded, 0 failed, 0 active (0 ready)
          why         the annotation kcr.dev/paused is true; kube-controller-manager does not heed it
                      without the pause: has succeeded: becomes Complete once its pods are counted
          remedy      to end the pause: kubectl -n default annotate job pi kcr.dev/paused-
          events      60s ago   Normal SuccessfulCreate: Created pod: pi-x
                      60s ago   Normal ReconcilePaused: not reconciled while the annotation kcr.dev/paused…
    """)


@scenario(disturbed=False)
async def test_job_of_another_controller_is_left_to_it(sim: Simulation) -> None:
    await sim.create(managedBy="example.com/queue")
    await sim.clock.advance(5)
    assert await explained(sim) == text("""
        job default/pi: left to the controller example.com/queue
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          why         spec.managedBy is example.com/queue: kcr and kube-controller-manager reconcile no such
                        Job
          remedy      see whether example.com/queue runs, and its logs
                      the field is immutable: to have it run here delete it, and create it anew without
                        managedBy
    """)


@scenario(disturbed=False)
async def test_pod_stuck_terminating_is_named_with_its_node(sim: Simulation) -> None:
    await sim.create(podReplacementPolicy="Failed")
    await sim.until("A1")
    await sim.bind(*sim.active())
    await sim.ready(*sim.active())
    await sim.delete_pods(sim.active())
    await sim.clock.advance(10)
    assert await explained(sim) == text("""
        job default/pi: waits for 1 terminating pod to end
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready), 1 terminating
          next        in 20s: the node kills what has not ended: the grace period is over
                      creates a replacement when the pod has ended
          why         pod pi-x has been terminating for 10s
          events      10s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)
    await sim.clock.advance(110)
    assert await explained(sim) == text("""
        job default/pi: waits for 1 pod stuck terminating
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready), 1 terminating
          next        creates a replacement when the pod has ended
          why         pod pi-x has been terminating for 2m: grace period over for 90s, and its node
                        node-1 has not reported its end
                      a terminating pod is replaced only when it has ended: spec.podReplacementPolicy is
                        Failed
          remedy      see whether its node is ready: kubectl describe node node-1
                      if the node is lost for good, its pods end with it: kubectl delete node node-1
                      if the pod runs no more for certain, say so:
                        kubectl -n default patch pod pi-x --subresource=status -p '{"status":{"phase":"Failed"}}'
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
        job default/pi: fails with DeadlineExceeded once 1 pod has ended
          wanted      1 completion, 1 pod at once, backoffLimit 6, activeDeadlineSeconds 10
          present     0 succeeded, 1 failed, 0 active (0 ready), 1 terminating
          next        in 25s: the node kills what has not ended: the grace period is over
                      becomes Failed when its pods have ended and are counted
          why         Job was active longer than specified deadline
                      pod pi-x has been terminating for 5s
          conditions  FailureTarget (DeadlineExceeded), 5s ago
          events      15s ago   Normal SuccessfulCreate: Created pod: pi-x
                      5s ago    Normal SuccessfulDelete: Deleted pod: pi-x
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
        job default/pi: has 2 active pods, and waits 5s before it replaces a failed pod (backoff)
          wanted      5 completions, by index, 3 pods at once, backoffLimitPerIndex 1
          present     1 succeeded, 2 failed, 2 active (0 ready), indexes 0 succeeded, indexes 3,4 active
          next        in 5s: creates a pod of index 1 again: 1 failure
                      in 9s: creates a pod of index 2 again: 1 failure
          why         pod pi-2-x failed 1s ago: container c: exit code 1; 1 more pod failed alike
          remedy      see the output of its pods: kcr logs -n default job/pi
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
          next        a controller would create 1 pod
          why         it was created 60s ago, and has no startTime
          remedy      see whether the one that runs is ready (GET /readyz), or run one:
                        kcr run --controllers job
                      if one runs, see its log: it may lack rights, which kcr check names
    """)


@scenario(disturbed=False)
async def test_pods_that_a_quota_refuses_are_named(sim: Simulation) -> None:
    await sim.client.create_manifest(QUOTA, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}, "default")
    await sim.create(parallelism=2, completions=2)
    await sim.clock.advance(20)
    assert await explained(sim) == text("""
        job default/pi: cannot create pods: a ResourceQuota is used up
          wanted      2 completions, 2 pods at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          next        in 11s: tries again to create 2 pods
          why         5s ago, 5 times: Error creating: pods "pi-x" is forbidden: exceeded quota: none,
                        requested: pods=1, used: pods=0, limited: pods=0
          remedy      delete what uses it up, or raise it: kubectl -n default describe resourcequota none
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
        found = await read_object(kcr_cluster.client, Job, made.key, [refused], now, EXPLAINERS)
        headlines.append(found.explanation.headline)
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
          next        when it has succeeded: becomes Complete
          why         it waits for 1 pod to start
                      pod pi-x is not scheduled yet
          remedy      stop all but one of them, unless one has just taken over from the other
          events      0s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_pod_that_ended_and_is_kept_does_not_hold_the_job_up(sim: Simulation) -> None:
    await sim.create(podReplacementPolicy="Failed")
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.client.merge_patch(
        Pod, pod.key, {"metadata": {"finalizers": [*pod.metadata.finalizers, "example.com/keep"]}}
    )
    await sim.bind(pod)
    await sim.delete_pods([pod])
    await sim.fail(pod, exit_code=137)
    await sim.clock.advance(11)
    assert await explained(sim) == text("""
        job default/pi: waits for 1 pod to start
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 1 failed, 1 active (0 ready)
          next        when it has succeeded: becomes Complete
          why         pod pi-x is not scheduled yet
                      pod pi-x has ended; it stays for its finalizers (example.com/keep), and the Job
                        does not wait for it
          events      11s ago   Normal SuccessfulCreate: Created pod: pi-x
                      1s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_finished_pods_that_nobody_counts_ask_for_a_controller(sim: Simulation) -> None:
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    await sim.crash()
    await sim.succeed(*sim.active())
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: no controller is at work on it
          wanted      2 completions, 2 pods at once, backoffLimit 6
          present     2 succeeded, 0 failed, 0 active (0 ready)
          next        a controller would count 2 pods that have ended
          why         nothing has happened for 60s
          remedy      see whether kube-controller-manager runs, or kcr with --take-over; kcr without it
                        reconciles only Jobs with spec.managedBy: kcr.dev/job-controller
                      if one runs, see its log: it may lack rights, which kcr check names
          events      60s ago   Normal SuccessfulCreate: Created pod: pi-x
                      60s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_parallelism_of_zero_names_the_command_that_ends_it(sim: Simulation) -> None:
    await sim.create(parallelism=0)
    await sim.clock.advance(20)
    assert await explained(sim) == text("""
        job default/pi: has nothing to do: its parallelism is 0
          wanted      one success (no completions are set), 0 pods at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          remedy      to have it run a pod: kubectl -n default patch job pi -p '{"spec":{"parallelism":1}}'
    """)


@scenario(disturbed=False)
async def test_indexed_job_says_which_indexes_run_and_how_many_are_to_come(sim: Simulation) -> None:
    await sim.create(completionMode="Indexed", completions=9, parallelism=3)
    await sim.until("A3")
    for pod in sim.active():
        await sim.bind(pod)
        await sim.ready(pod)
    await sim.clock.advance(15)
    assert await explained(sim) == text("""
        job default/pi: runs 3 pods
          wanted      9 completions, by index, 3 pods at once, backoffLimit 6
          present     0 succeeded, 0 failed, 3 active (3 ready), indexes 0-2 active
          next        when a pod ends: counts it, and creates the next (6 still to come)
          events      15s ago   Normal SuccessfulCreate: Created pod: pi-0-x
                      15s ago   Normal SuccessfulCreate: Created pod: pi-1-x
                      15s ago   Normal SuccessfulCreate: Created pod: pi-2-x
    """)


@scenario(disturbed=False)
async def test_two_controllers_of_the_same_name_are_told_by_their_events(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    for name in ("pi.1", "pi.2"):
        about = ObjectReference(kind="Job", namespace="default", name="pi", uid=sim.job().metadata.uid)
        told = Event(
            metadata=ObjectMeta(name=name, namespace="default"), involved_object=about, type="Normal",
            reason="SuccessfulDelete", message="Deleted pod: pi-aaaaa", last_timestamp=sim.clock.now(),
        )  # fmt: skip
        await sim.client.create(told)
    assert await explained(sim) == text("""
        job default/pi: several controllers create and delete its pods
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 1 active (0 ready)
          next        when it has succeeded: becomes Complete
          why         two of them wrote the same event, each its own: Deleted pod: pi-x
                      it waits for 1 pod to start
                      pod pi-x is not scheduled yet
          remedy      stop all but one; several replicas of kcr run need --leader-elect
          events      0s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)
