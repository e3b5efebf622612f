"""The whole text of `kcr explain job/NAME`, for Jobs and pods as values: refusals, waiting pods, ends, limits."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.core import ContainerState, ContainerStateWaiting, ContainerStatus, Event, ObjectReference, Pod
from kcr.api.meta import Condition, PodCondition
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.look import Shown
from kcr.cli.objects.screen import condensed
from kcr.cli.target import ObjectName
from kcr.controllers.job.decisions.explain import CHANGE, Evidence, explain
from kcr.controllers.job.decisions.plan import Limits, Snapshot
from kcr.controllers.job.decisions.pod_troubles.problems import PodContext
from tests.kit.builders import NOW, ago, exits, indexed, job, pod, policy, snapshot, template
from tests.kit.explanations import screen, text

WEBHOOK = 'admission webhook "policy.example.dev" denied the request: no latest images'
SILENT = (
    'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
    '"https://jobset-webhook-service.jobset-system.svc:443/mutate--v1-pod?timeout=10s": '
    "dial tcp 10.96.52.173:443: connect: connection refused"
)
LIMIT = 'pods "pi-x8k2p" is forbidden: maximum cpu usage per Container is 100m, but limit is 1'
RIGHT = 'pods is forbidden: User "kcr-runner" cannot create resource "pods" in API group "" in the namespace "default"'
SECURITY = (
    'pods "pi-x8k2p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
    '(container "c" must set securityContext.allowPrivilegeEscalation=false)'
)
ACCOUNT = 'pods "pi-x8k2p" is forbidden: error looking up service account default/ci: serviceaccount "ci" not found'

NOTHING = Evidence()


def seen_by(what: Job, *pods: Pod) -> Snapshot:
    """What is seen from outside, where the decision is made for Jobs of either controller."""
    return snapshot(what, *pods, limits=Limits(take_over=True))


def shown(what: Job, *pods: Pod, known: Evidence = NOTHING) -> str:
    """Return what `kcr explain` prints of a Job with these pods."""
    found = explain(seen_by(what, *pods), known._replace(pods=known.pods or pods))
    conditions = tuple(one for one in what.status.conditions if one.status == "True")
    lines = lines_of(ObjectName(Job, "pi"), what.key, Shown(found, conditions, condensed(known.events)[-4:]), NOW)
    return screen(lines)


def refusal(message: str) -> Evidence:
    """Four tries, of which the last was five seconds ago."""
    told = [
        Event(type="Warning", reason="FailedCreate", message=f"Error creating: {message}", last_timestamp=ago(seconds))
        for seconds in (19, 17, 13, 5)
    ]
    return Evidence(events=tuple(told))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(WEBHOOK, """
            job default/pi: cannot create pods: an admission webhook denies them
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 11s: tries again to create 1 pod
              why         5s ago: Error creating: admission webhook "policy.example.dev" denied the request: no
                            latest images
              remedy      create the Job anew with a template that it accepts, or change its rules
        """, id="webhook-denies"),
        pytest.param(SILENT, """
            job default/pi: cannot create pods: an admission webhook does not answer
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 11s: tries again to create 1 pod
              why         5s ago: Error creating: Internal error occurred: failed calling webhook "mpod.kb.io":
                            failed to call webhook: Post
                            "https://jobset-webhook-service.jobset-system.svc:443/mutate--v1-pod?timeout=10s":
                            dial tcp 10.96.52.173:443: connect: connection refused
              remedy      mend its service, or set failurePolicy Ignore until then; where it is called:
                            kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o yaml
        """, id="webhook-does-not-answer"),
        pytest.param(LIMIT, """
            job default/pi: cannot create pods: a LimitRange does not allow what they ask for
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 11s: tries again to create 1 pod
              why         5s ago: Error creating: pods "pi-x" is forbidden: maximum cpu usage per Container
                            is 100m, but limit is 1
              remedy      create the Job anew with a template within the limits:
                            kubectl -n default describe limitrange
        """, id="limit-range"),
        pytest.param(RIGHT, """
            job default/pi: cannot create pods: their controller has no right to create them
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 11s: tries again to create 1 pod
              why         5s ago: Error creating: pods is forbidden: User "kcr-runner" cannot create resource
                            "pods" in API group "" in the namespace "default"
              remedy      grant all that it needs:
                            kcr rbac generate --controllers job --namespace default --name kcr-job |
                            kubectl apply -f - &&
                            kubectl -n default create rolebinding kcr-job --role=kcr-job --user=kcr-runner
        """, id="no-right"),
        pytest.param(SECURITY, """
            job default/pi: cannot create pods: the namespace's Pod Security level denies them
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 11s: tries again to create 1 pod
              why         5s ago: Error creating: pods "pi-x" is forbidden: violates PodSecurity
                            "restricted:latest": allowPrivilegeEscalation != false (container "c" must set
                            securityContext.allowPrivilegeEscalation=false)
              remedy      create the Job anew with a template that sets the securityContext as the message asks;
                            the level:
                            kubectl get namespace default --show-labels
        """, id="pod-security"),
        pytest.param(ACCOUNT, """
            job default/pi: cannot create pods: their service account does not exist
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 11s: tries again to create 1 pod
              why         5s ago: Error creating: pods "pi-x" is forbidden: error looking up service account
                            default/ci: serviceaccount "ci" not found
              remedy      create it, and they are created by themselves:
                            kubectl -n default create serviceaccount ci
        """, id="no-service-account"),
    ],
)  # fmt: skip
def test_refused_pods_have_cause_time_and_remedy(message: str, expected: str) -> None:
    assert shown(job(), known=refusal(message)) == text(expected)


def test_same_refusal_in_one_event_tells_when_the_next_try_is() -> None:
    told = Event(
        type="Warning", reason="FailedCreate", message=f"Error creating: {RIGHT}", count=4, first_timestamp=ago(9),
        last_timestamp=ago(2),
    )  # fmt: skip
    found = explain(seen_by(job()), Evidence(events=(told,)))
    assert [(step.text, step.at) for step in found.steps] == [
        ("tries again to create 1 pod", NOW + timedelta(seconds=6))
    ]


def waiting(name: str, reason: str, message: str = "", *, restarts: int = 0, phase: str = "Pending") -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    made = pod(name, phase)
    statuses = (ContainerStatus(name="c", state=state, restart_count=restarts),)
    return replace(made, status=replace(made.status, container_statuses=statuses))


def conditioned(name: str, kind: str, reason: str, message: str, *, phase: str = "Pending", node: str = "") -> Pod:
    """A pod of which a condition is False."""
    made = pod(name, phase, node=node)
    condition = PodCondition(
        type=kind, status="False", reason=reason, message=message, last_transition_time=ago(90)
    )  # fmt: skip
    return replace(made, status=replace(made.status, conditions=(condition,)))


UNFIT = "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: }, 2 Insufficient cpu."
UNMOUNTED = Event(
    type="Warning", reason="FailedMount", message='MountVolume.SetUp failed for volume "v" : secret "absent" not found',
    involved_object=ObjectReference(uid="uid-pi-1"), last_timestamp=ago(20),
)  # fmt: skip
CRASHED = "back-off 40s restarting failed container=c pod=pi-1_default(1be47ecd-2c54-4302-b5b2-006b7913de63)"


@pytest.mark.parametrize(
    ("what", "pods", "events", "expected"),
    [
        pytest.param(
            job(parallelism=3, completions=3),
            [conditioned(name, "PodScheduled", "Unschedulable", UNFIT) for name in ("pi-1", "pi-2", "pi-3")], (), """
            job default/pi: waits for 3 pods that cannot be scheduled
              wanted      3 completions, 3 pods at once, backoffLimit 6
              present     0 succeeded, 0 failed, 3 active (0 ready)
              next        when all have succeeded: becomes Complete
              why         pod pi-1 is not scheduled: Unschedulable: 0/3 nodes are available: 1 node(s) had
                            untolerated taint {gpu: }, 2 Insufficient cpu.; the same holds for 2 more pods
              remedy      add or free a node that fits; the pod is scheduled by itself then; or create the Job
                            anew with lower demands
        """, id="unschedulable"),
        pytest.param(job(), [waiting("pi-1", "ImagePullBackOff", 'Back-off pulling image "nope:1"')], (), """
            job default/pi: waits for 1 pod whose image cannot be pulled
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 1 active (0 ready)
              next        when it has succeeded: becomes Complete
              why         pod pi-1: container c waits: ImagePullBackOff: Back-off pulling image "nope:1"
              remedy      mend the registry or its secret, the node tries again by itself; or create the Job
                            anew with another image
        """, id="image"),
        pytest.param(
            job(), [waiting("pi-1", "CreateContainerConfigError", 'configmap "absent" not found')], (), """
            job default/pi: waits for 1 pod whose container lacks its configuration
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 1 active (0 ready)
              next        when it has succeeded: becomes Complete
              why         pod pi-1: container c waits: CreateContainerConfigError: configmap "absent" not found
              remedy      create or mend what is named: the node tries again by itself
        """, id="configuration"),
        pytest.param(job(), [waiting("pi-1", "ContainerCreating")], (UNMOUNTED,), """
            job default/pi: waits for 1 pod whose volumes cannot be mounted
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 1 active (0 ready)
              next        when it has succeeded: becomes Complete
              why         pod pi-1 has not started: FailedMount: MountVolume.SetUp failed for volume "v" :
                            secret "absent" not found
              remedy      create or mend what is named: the node tries again by itself
        """, id="volume"),
        pytest.param(job(), [waiting("pi-1", "ContainerCreating")], (), """
            job default/pi: waits for 1 pod that the node has not started
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 1 active (0 ready)
              next        when it has succeeded: becomes Complete
              why         pod pi-1 has not started on n1 yet, after 2m
              remedy      see the pod: kubectl -n default describe pod pi-1
        """, id="silent-node"),
        pytest.param(
            job(template=template("OnFailure")),
            [waiting("pi-1", "CrashLoopBackOff", CRASHED, restarts=3, phase="Running")], (), """
            job default/pi: waits for 1 pod whose container crashes again and again
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 1 active (0 ready)
              next        when it has succeeded: becomes Complete
                          at 6 restarts: fails (backoffLimit), 3 so far
              why         pod pi-1: container c waits (restarted 3 times): CrashLoopBackOff: back-off 40s
                            restarting failed container=c
              remedy      see the output of its last run: kubectl -n default logs pi-1 -p
        """, id="crash-loop"),
        pytest.param(
            job(parallelism=2, completions=4),
            [conditioned("pi-1", "Ready", "", "", phase="Running", node="n1"), waiting("pi-2", "ErrImagePull")], (), """
            job default/pi: runs 1 pod, and waits for 1 more pod whose image cannot be pulled
              wanted      4 completions, 2 pods at once, backoffLimit 6
              present     0 succeeded, 0 failed, 2 active (0 ready)
              next        when a pod ends: counts it, and creates the next (2 still to come)
              why         pod pi-2: container c waits: ErrImagePull
                          pod pi-1 has not been ready for 90s; a Job counts ends, and needs no readiness
              remedy      mend the registry or its secret, the node tries again by itself; or create the Job
                            anew with another image
        """, id="one-runs-unready-one-waits"),
    ],
)  # fmt: skip
def test_waiting_pods_have_cause_and_remedy(
    what: Job, pods: list[Pod], events: tuple[Event, ...], expected: str
) -> None:
    assert shown(what, *pods, known=Evidence(context=PodContext(events, change=CHANGE))) == text(expected)


def ended(what: Job, kind: str, reason: str, message: str, **status: Any) -> Job:
    """A Job that ended a minute ago."""
    conditions = (Condition(type=kind, status="True", reason=reason, message=message, last_transition_time=ago(60)),)
    return replace(what, status=JobStatus(start_time=ago(300), conditions=conditions, **status))


FAILED = pod("pi-1", "Failed", finished=ago(61), exit_code=42, tracked=False)
RULE = "Container c for pod default/pi-1 failed with exit code 42 matching FailJob rule at index 0"
MANY = "Job has exceeded the specified maximal number of failed indexes"


@pytest.mark.parametrize(
    ("what", "pods", "expected"),
    [
        pytest.param(
            ended(job(active_deadline_seconds=9), "Failed", "DeadlineExceeded",
                  "Job was active longer than specified deadline", failed=1), [], """
            job default/pi: Failed 60s ago: DeadlineExceeded
              wanted      1 completion, 1 pod at once, backoffLimit 6, activeDeadlineSeconds 9
              present     0 succeeded, 1 failed
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         Job was active longer than specified deadline
              remedy      allow more time: delete it, and create it anew with a higher activeDeadlineSeconds
              conditions  Failed (DeadlineExceeded), 60s ago
        """, id="deadline"),
        pytest.param(
            ended(job(pod_failure_policy=policy(exits("FailJob", 42))), "Failed", "PodFailurePolicy", RULE, failed=1),
            [FAILED], """
            job default/pi: Failed 60s ago: PodFailurePolicy
              wanted      1 completion, 1 pod at once, backoffLimit 6, with a podFailurePolicy
              present     0 succeeded, 1 failed
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         Container c for pod default/pi-1 failed with exit code 42 matching FailJob rule at
                            index 0
                          pod pi-1 failed 61s ago: container c: exit code 42
              remedy      see the output of its pods: kcr logs -n default job/pi
                          run it again, as a new Job: kcr rerun -n default job/pi
              conditions  Failed (PodFailurePolicy), 60s ago
        """, id="pod-failure-policy"),
        pytest.param(
            ended(indexed(4, backoff_limit_per_index=0, max_failed_indexes=1), "Failed", "MaxFailedIndexesExceeded",
                  MANY, failed=2, failed_indexes="0,2"), [FAILED], """
            job default/pi: Failed 60s ago: MaxFailedIndexesExceeded
              wanted      4 completions, by index, 4 pods at once, backoffLimit 6, backoffLimitPerIndex 0,
                            maxFailedIndexes 1
              present     0 succeeded, 2 failed, indexes 0,2 failed
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         Job has exceeded the specified maximal number of failed indexes
                          pod pi-1 failed 61s ago: container c: exit code 42
              remedy      see the output of its pods: kcr logs -n default job/pi
                          run it again, as a new Job: kcr rerun -n default job/pi
              conditions  Failed (MaxFailedIndexesExceeded), 60s ago
        """, id="too-many-failed-indexes"),
        pytest.param(
            ended(indexed(3, backoff_limit_per_index=0), "Failed", "FailedIndexes", "Job has failed indexes",
                  succeeded=2, failed=1, completed_indexes="0,2", failed_indexes="1"), [FAILED], """
            job default/pi: Failed 60s ago: FailedIndexes
              wanted      3 completions, by index, 3 pods at once, backoffLimit 6, backoffLimitPerIndex 0
              present     2 succeeded, 1 failed, indexes 0,2 succeeded, indexes 1 failed
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         Job has failed indexes
                          pod pi-1 failed 61s ago: container c: exit code 42
              remedy      see the output of its pods: kcr logs -n default job/pi
                          run it again, as a new Job: kcr rerun -n default job/pi
              conditions  Failed (FailedIndexes), 60s ago
        """, id="failed-indexes"),
        pytest.param(
            ended(job(template=template("OnFailure")), "Failed", "BackoffLimitExceeded",
                  "Job has reached the specified backoff limit", failed=1), [], """
            job default/pi: Failed 60s ago: BackoffLimitExceeded
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 1 failed
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         Job has reached the specified backoff limit
                          its containers were restarted too often; with restartPolicy OnFailure the pod is
                            deleted then
              remedy      restartPolicy Never keeps the pods that have failed, and their output
                          run it again, as a new Job: kcr rerun -n default job/pi
              conditions  Failed (BackoffLimitExceeded), 60s ago
        """, id="restarts"),
        pytest.param(
            ended(indexed(3), "Complete", "SuccessPolicy", "Matched rules at index 0", succeeded=1,
                  completed_indexes="0"), [], """
            job default/pi: Complete for 60s
              wanted      3 completions, by index, 3 pods at once, backoffLimit 6
              present     1 succeeded, 0 failed, indexes 0 succeeded
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         SuccessPolicy: Matched rules at index 0
              conditions  Complete (SuccessPolicy), 60s ago
        """, id="success-policy"),
    ],
)  # fmt: skip
def test_ended_job_says_why_and_what_is_left_to_do(what: Job, pods: list[Pod], expected: str) -> None:
    assert shown(what, *pods) == text(expected)


def test_end_without_a_time_is_a_sentence() -> None:
    condition = Condition(type="Complete", status="True")
    what = replace(job(), status=JobStatus(succeeded=1, conditions=(condition,)))
    assert shown(what).startswith("job default/pi: Complete for an unknown time\n")


def test_pod_that_its_node_forgot_has_remedies_that_count_it() -> None:
    lost = pod("pi-1", deleted=ago(120))
    lost = replace(lost, metadata=replace(lost.metadata, deletion_grace_period_seconds=30))
    assert shown(job(pod_replacement_policy="Failed"), lost) == text("""
        job default/pi: waits for 1 pod stuck terminating
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready), 1 terminating
          next        creates a replacement when the pod has ended
          why         pod pi-1 has been terminating for 2m30s: grace period over for 2m, and its node n1 has
                        not reported its end
                      a terminating pod is replaced only when it has ended: spec.podReplacementPolicy is
                        Failed
          remedy      see whether its node is ready: kubectl describe node n1
                      if the node is lost for good, its pods end with it: kubectl delete node n1
                      if the pod runs no more for certain, say so:
                        kubectl -n default patch pod pi-1 --subresource=status -p '{"status":{"phase":"Failed"}}'
    """)


def test_backoff_that_is_over_is_now() -> None:
    failed = pod("pi-1", "Failed", finished=ago(9.5), exit_code=3)
    assert explain(seen_by(job(), failed), Evidence((failed,))).headline == (
        "replaces a failed pod now: its backoff is over"
    )


def test_longest_explanation_fits_one_screen() -> None:
    words = "the policy of this cluster wants labels that name team, cost centre and owner; " * 30
    known = refusal(f'admission webhook "w" denied the request: {words}')
    others = tuple(
        Event(
            type="Normal", reason=f"Reason{number}", message=f"{number}: {words}", metadata=pod(f"e{number}").metadata
        )
        for number in range(4)
    )
    conditions = tuple(Condition(type=f"Type{number}", status="True", message=words) for number in range(20))
    status = JobStatus(start_time=ago(60), conditions=conditions)
    found = shown(job(status=status), known=known._replace(events=(*others, *known.events), writers=("a", "b")))
    assert found.count("\n") == 24
    assert found.count("…") == 2


def test_foreground_deletion_waits_for_counted_pods_too() -> None:
    deleted = job(deleted=True)
    deleted = replace(deleted, metadata=replace(deleted.metadata, finalizers=("foregroundDeletion",)))
    active, counted = pod("pi-1"), pod("pi-2", "Succeeded", tracked=False)
    headline = "is being deleted, asked for 0s ago: {} of it to go first"
    seen = seen_by(deleted, active)
    assert explain(seen, Evidence(pods=(active, counted))).headline == headline.format("2 pods")
    # A controller that explains its own Jobs may know no others than those of its decision.
    assert explain(seen, Evidence()).headline == headline.format("1 pod")
