"""What Deployments, StatefulSets and DaemonSets wait for, on values."""

from datetime import timedelta
from typing import Any

import pytest

from kcr.api import codec
from kcr.api.core import Event
from kcr.api.explanation import Code, Explanation
from kcr.api.unstructured import unstructured
from kcr.controllers.job.decisions.pod_troubles.problems import DetailedPod, PodContext
from kcr.controllers.job.decisions.pod_troubles.workload import ObservedWorkload, explain_workload
from tests.kit.builders import NOW

DEPLOYMENT = unstructured("apps/v1", "Deployment", plural="deployments")
STATEFULSET = unstructured("apps/v1", "StatefulSet", plural="statefulsets")
DAEMONSET = unstructured("apps/v1", "DaemonSet", plural="daemonsets")
SINCE = (NOW - timedelta(seconds=60)).isoformat().replace("+00:00", "Z")


def pod(name: str, ready: str = "True", *, deleted: bool = False) -> DetailedPod:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": SINCE}]
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": SINCE}
    made = {
        "metadata": metadata | ({"deletionTimestamp": SINCE} if deleted else {}),
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "conditions": conditions},
    }  # fmt: skip
    return codec.decode(DetailedPod, codec.encode(made))


def explained(
    *pods: DetailedPod, kind: Any = DEPLOYMENT, tries: tuple[Event, ...] = (), status: Any = None, **spec: Any
) -> Explanation:
    metadata = {"name": "web", "namespace": "default", "generation": 2, "creationTimestamp": SINCE}
    observed = {"observedGeneration": 2, **(status or {})}
    obj = kind.of({"metadata": metadata, "spec": {"replicas": 2, **spec}, "status": observed})
    return explain_workload(ObservedWorkload(obj, pods, tries, PodContext(), NOW))


def event(reason: str, message: str = "") -> Event:
    return Event(reason=reason, message=message, last_timestamp=NOW - timedelta(seconds=3))


REFUSED = event("FailedCreate", 'admission webhook "policy.example.com" denied the request: image is not signed')
CREATED = event("SuccessfulCreate", "Created pod: web-a")


@pytest.mark.parametrize(
    ("found", "headline", "code"),
    [
        pytest.param(
            explained(pod("a"), pod("b")), "is available: 2 of 2 pods ready", Code.HEALTHY, id="available"
        ),
        pytest.param(
            explained(pod("a"), pod("b", "False")), "has 1 of 2 pods whose containers are not ready",
            Code.PODS_NOT_READY, id="unready",
        ),
        pytest.param(explained(pod("a")), "waits for 1 pod to become ready", Code.RUNNING, id="waits"),
        pytest.param(
            explained(pod("a"), pod("b"), pod("c")), "is being rolled out or scaled down: 1 pod more than wanted",
            Code.WAITING, id="surplus",
        ),
        pytest.param(
            explained(tries=(CREATED, REFUSED)), "cannot create pods: an admission webhook denies them", Code.REFUSED,
            id="refused",
        ),
        pytest.param(
            explained(tries=(REFUSED, CREATED)), "waits for 2 pods to become ready", Code.RUNNING, id="refused-before"
        ),
        pytest.param(explained(replicas=0), "has nothing to do: it wants 0 pods", Code.HEALTHY, id="none-wanted"),
        pytest.param(
            explained(pod("a"), pod("b"), paused=True, status={"updatedReplicas": 1}), "its roll-out is paused",
            Code.WAITING, id="paused",
        ),
        pytest.param(
            explained(pod("a"), pod("b"), paused=True, status={"updatedReplicas": 2}),
            "is available: 2 of 2 pods ready", Code.HEALTHY, id="paused-and-done",
        ),
        pytest.param(
            explained(status={"observedGeneration": 1}),
            "waits for its controller, which has not observed generation 2", Code.NO_CONTROLLER, id="unobserved",
        ),
        pytest.param(
            explained(kind=DAEMONSET, status={"desiredNumberScheduled": 0}),
            "has nothing to do: no node fits its pods", Code.WAITING, id="no-node",
        ),
        pytest.param(
            explained(pod("a"), kind=DAEMONSET, status={"desiredNumberScheduled": 3}),
            "waits for 2 pods to become ready", Code.RUNNING, id="daemons",
        ),
    ],
)  # fmt: skip
def test_headline_names_what_is_missing(found: Explanation, headline: str, code: Code) -> None:
    assert (found.headline, found.code) == (headline, code)


def test_ordered_pods_wait_for_the_first() -> None:
    (step,) = explained(pod("web-0", "False"), kind=STATEFULSET).steps
    assert step.text == "creates 1 more when web-0 is ready"
    assert explained(pod("web-0", "False"), kind=STATEFULSET, podManagementPolicy="Parallel").steps == ()
    assert explained(pod("web-0", "False")).steps == ()


def test_remedies_name_the_workload() -> None:
    assert explained(tries=(REFUSED,)).remedies[0].startswith("change deployment/web to a template that it accepts")
    assert "kubectl -n default rollout resume deployment/web" in explained(paused=True).remedies[0]
    assert "scale statefulset/web --replicas=1" in explained(kind=STATEFULSET, replicas=0).remedies[0]


def test_terminating_pods_and_a_stuck_roll_out_are_told() -> None:
    progress = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}
    found = explained(pod("a"), pod("b", deleted=True), status={"conditions": [progress]})
    assert found.present == "1 pod, 1 ready, 1 terminating"
    assert found.reasons == ("its roll-out is stuck, at an unknown time: ProgressDeadlineExceeded: late",)
