"""Why pods are refused, wait, failed or are stuck, on values alone."""

import pytest
from msgspec.structs import replace

from kcr.api.core import ContainerState, ContainerStateWaiting, ContainerStatus, Event, Pod
from kcr.api.meta import PodCondition
from kcr.controllers.job.decisions.explain import explain
from kcr.controllers.job.decisions.explain_cases import Evidence
from kcr.controllers.job.decisions.explain_pods import failure_text, terminating_text, waiting_text
from kcr.controllers.job.decisions.plan import Limits
from tests.kit.builders import NOW, ago, job, pod, snapshot

DENIED = 'admission webhook "policy.example.dev" denied the request: no latest images'
NO_ANSWER = 'Internal error occurred: failed calling webhook "policy.example.dev": connection refused'
ACCOUNT = 'pods "pi-x" is forbidden: error looking up service account default/ci: serviceaccount "ci" not found'
# From outside, the decision is made for Jobs of either controller.
ALL = Limits(take_over=True)
RIGHT = 'pods is forbidden: User "system:serviceaccount:kcr:kcr" cannot create resource "pods"'


def event(reason: str, message: str, *, seconds: float = 5, count: int = 1) -> Event:
    return Event(type="Warning", reason=reason, message=message, count=count, last_timestamp=ago(seconds))


@pytest.mark.parametrize(
    ("message", "cause", "remedy"),
    [
        pytest.param("exceeded quota: q", "a ResourceQuota is used up", "raise the quota", id="quota"),
        pytest.param("failed quota: q: must specify cpu", "a ResourceQuota needs values", "state requests", id="must"),
        pytest.param(DENIED, "an admission webhook denies them", "change the pod template", id="webhook-denies"),
        pytest.param(NO_ANSWER, "an admission webhook does not answer", "see its service", id="webhook-silent"),
        pytest.param("violates PodSecurity", "the namespace's Pod Security level", "change their", id="pod-security"),
        pytest.param(ACCOUNT, "their service account is not there", "create the one", id="service-account"),
        pytest.param('Pod "pi-x" is invalid: spec', "the pod template is invalid", "create the Job anew", id="invalid"),
        pytest.param(RIGHT, "the API server forbids them", "grant what the message names", id="forbidden"),
        pytest.param("etcd is full", "the API server refuses them", "see the message", id="anything-else"),
    ],
)
def test_refused_pods_have_cause_and_remedy(message: str, cause: str, remedy: str) -> None:
    known = Evidence(events=(event("FailedCreate", f"Error creating: {message}", count=3),))
    found = explain(snapshot(job(), limits=ALL), known)
    assert found.headline.startswith(f"cannot create pods: {cause}")
    assert found.reasons == (f"5s ago, 3 times: Error creating: {message}",)
    assert found.remedies[0].startswith(remedy)


def test_refusal_is_over_once_a_pod_was_created() -> None:
    events = (event("FailedCreate", "Error creating: no", seconds=9), event("SuccessfulCreate", "Created pod: pi-x"))
    assert explain(snapshot(job(), limits=ALL), Evidence(events=events)).headline == "creates 1 pod now"


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        pytest.param(
            pod(phase="Failed", finished=ago(90), exit_code=137),
            "pod pi-1 failed 90s ago: container c: exit code 137", id="exit-code",
        ),
        pytest.param(
            replace(pod(), status=replace(pod().status, phase="Failed", reason="Evicted", message="low on\nmemory")),
            "pod pi-1 failed 2m ago: Evicted: low on memory", id="evicted",
        ),
    ],
)  # fmt: skip
def test_failure_names_container_or_reason(what: Pod, expected: str) -> None:
    assert failure_text(what, NOW) == expected


def waiting(reason: str, message: str = "") -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    made = pod(phase="Pending")
    return replace(made, status=replace(made.status, container_statuses=(ContainerStatus(name="c", state=state),)))


def unscheduled() -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes fit")
    made = pod(phase="Pending", node="")
    return replace(made, status=replace(made.status, conditions=(condition,)))


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        pytest.param(pod(), "", id="running"),
        pytest.param(waiting("ContainerCreating"), "pod pi-1 is pending", id="starting"),
        pytest.param(
            waiting("ImagePullBackOff", "no such image"),
            "pod pi-1: container c waits: ImagePullBackOff: no such image", id="image",
        ),
        pytest.param(unscheduled(), "pod pi-1 is not scheduled: Unschedulable: 0/1 nodes fit", id="unschedulable"),
    ],
)  # fmt: skip
def test_pod_that_waits_says_why(what: Pod, expected: str) -> None:
    assert waiting_text(what) == expected


def test_finalizers_that_hold_a_pod_up_are_named() -> None:
    held = pod(deleted=ago(60))
    held = replace(held, metadata=replace(held.metadata, finalizers=(*held.metadata.finalizers, "example.dev/backup")))
    assert terminating_text(held, NOW) == (
        "pod pi-1 is terminating for 60s: grace period over for 60s; finalizers are left: example.dev/backup"
    )
