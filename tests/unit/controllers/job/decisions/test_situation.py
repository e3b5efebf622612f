"""The state of a Job and its cause, which `kcr explain` agrees with."""

import msgspec
import pytest

from kcr.api.batch import Job, JobStatus
from kcr.api.core import ContainerState, ContainerStateWaiting, ContainerStatus, Event, Pod
from kcr.api.explanation import Code
from kcr.api.meta import Condition, PodCondition
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.explain import Evidence, explain
from kcr.controllers.job.decisions.failures import Backoff
from kcr.controllers.job.decisions.plan import Limits
from kcr.controllers.job.decisions.situation import JobSituation, situation_of
from tests.kit.builders import NOW, ago, job, pod, snapshot

QUOTA = 'pods "pi-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
RIGHT = 'pods is forbidden: User "kcr" cannot create resource "pods" in API group "" in the namespace "default"'
SECURITY = 'pods "pi-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'


def waiting(reason: str, *, phase: str = "Pending", name: str = "pi-1") -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message="no"))
    one = pod(name, phase)
    statuses = (ContainerStatus(name="c", restart_count=2, state=state),)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, container_statuses=statuses))


def unscheduled(reason: str = "Unschedulable") -> Pod:
    one = pod("pi-1", "Pending", node="")
    condition = PodCondition(type="PodScheduled", status="False", reason=reason, message="0/1 nodes are available")
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=(condition,)))


def interim(kind: str, reason: str) -> Job:
    status = JobStatus(start_time=ago(60), conditions=(Condition(type=kind, status="True", reason=reason),))
    return job(status=status)


@pytest.mark.parametrize(
    ("what", "pods", "refusal", "expected", "code"),
    [
        pytest.param(job(), [pod()], "", ("running", ""), Code.RUNNING, id="runs"),
        pytest.param(job(), [pod(phase="Pending", created=ago(1))], "", ("pending", ""), Code.RUNNING, id="starting"),
        pytest.param(
            job(), [waiting("ContainerCreating")], "", ("pending", ""), Code.PODS_NOT_READY, id="slow-to-start"
        ),
        pytest.param(job(), [unscheduled()], "", ("cannot_start", "unschedulable"), Code.PODS_NOT_READY, id="no-node"),
        pytest.param(
            job(), [unscheduled("SchedulingGated")], "", ("cannot_start", "gates"), Code.PODS_NOT_READY, id="gated"
        ),
        pytest.param(
            job(), [waiting("ImagePullBackOff")], "", ("cannot_start", "image"), Code.PODS_NOT_READY, id="image"
        ),
        pytest.param(
            job(), [waiting("CreateContainerConfigError")], "", ("cannot_start", "configuration"),
            Code.PODS_NOT_READY, id="configuration",
        ),
        pytest.param(
            job(), [waiting("RunContainerError")], "", ("cannot_start", "command"), Code.PODS_NOT_READY, id="command"
        ),
        pytest.param(
            job(), [waiting("OfANewerNode")], "", ("cannot_start", "other"), Code.PODS_NOT_READY, id="unknown-reason"
        ),
        pytest.param(
            job(), [waiting("CrashLoopBackOff", phase="Running")], "", ("backing_off", "crash"), Code.PODS_NOT_READY,
            id="crash-loop",
        ),
        pytest.param(
            job(completions=2, parallelism=2), [pod("pi-2"), waiting("ErrImagePull")], "", ("running", ""),
            Code.PODS_NOT_READY, id="one-of-two",
        ),
        pytest.param(job(), [], QUOTA, ("cannot_start", "quota"), Code.REFUSED, id="quota"),
        pytest.param(job(), [], RIGHT, ("cannot_start", "rights"), Code.REFUSED, id="rights"),
        pytest.param(job(), [], SECURITY, ("cannot_start", "policy"), Code.REFUSED, id="policy"),
        pytest.param(
            job(completions=2, parallelism=2), [pod()], QUOTA, ("running", "quota"), Code.REFUSED, id="partly-refused"
        ),
        pytest.param(job(suspend=True), [pod()], "", ("suspended", ""), Code.WAITING, id="suspended"),
        pytest.param(job(parallelism=0), [], "", ("pending", "parallelism"), Code.WAITING, id="parallelism"),
        pytest.param(job(deleted=True), [pod()], "", ("terminating", "deleted"), Code.TERMINATING, id="deleted"),
        pytest.param(
            interim("FailureTarget", "DeadlineExceeded"), [pod()], "", ("terminating", "DeadlineExceeded"),
            Code.WAITING, id="failing",
        ),
        pytest.param(
            interim("SuccessCriteriaMet", "SuccessPolicy"), [pod()], "", ("terminating", "SuccessPolicy"),
            Code.WAITING, id="succeeding",
        ),
        pytest.param(
            interim("Complete", "CompletionsReached"), [], "", ("complete", "CompletionsReached"), Code.FINISHED,
            id="complete",
        ),
        pytest.param(
            interim("Failed", "BackoffLimitExceeded"), [], "", ("failed", "BackoffLimitExceeded"), Code.FAILED,
            id="failed",
        ),
    ],
)  # fmt: skip
def test_situation_agrees_with_the_explanation(
    what: Job, pods: list[Pod], refusal: str, expected: tuple[str, str], code: Code
) -> None:
    assert situation_of(what, pods, refusal=refusal) == JobSituation(*expected)
    events = (Event(reason="FailedCreate", message=f"Error creating: {refusal}", last_timestamp=NOW),)
    known = Evidence(pods=tuple(pods), events=events if refusal else (), is_own=True)
    assert explain(snapshot(what, *pods, limits=Limits(take_over=True)), known).code is code


def test_job_between_two_tries_is_backing_off() -> None:
    seen = snapshot(job(), backoff=Backoff(2, ago(5)))
    assert decide(seen).delayed
    assert situation_of(seen.job, (), in_backoff=True) == JobSituation("backing_off", "failures")
    assert situation_of(seen.job, [pod()], in_backoff=True) == JobSituation("running")


def test_decided_end_precedes_its_condition() -> None:
    assert situation_of(job(), [pod()], ending="PodFailurePolicy") == JobSituation("terminating", "PodFailurePolicy")
