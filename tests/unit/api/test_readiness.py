"""When an object is ready, by kind."""

from datetime import UTC, datetime
from typing import Any

import pytest

import kcr
from kcr.api import apps, core
from kcr.api.full import core_v1
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition

Widget = kcr.unstructured("example.dev/v1", "Widget", plural="widgets")
Stateful = kcr.unstructured("apps/v1", "StatefulSet", plural="statefulsets")
Daemon = kcr.unstructured("apps/v1", "DaemonSet", plural="daemonsets")
Job = kcr.unstructured("batch/v1", "Job", plural="jobs")
Claim = kcr.unstructured("v1", "PersistentVolumeClaim", plural="persistentvolumeclaims")
Role = kcr.unstructured("rbac.authorization.k8s.io/v1", "Role", plural="roles")
Deployment = kcr.unstructured("apps/v1", "Deployment", plural="deployments")
Pod = kcr.unstructured("v1", "Pod", plural="pods")
Service = kcr.unstructured("v1", "Service", plural="services")
Definition = kcr.unstructured("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural="customresourcedefinitions")


class Plain(kcr.Resource, api_version="example.dev/v1", plural="plains"):
    """A kind of one's own without a status."""


def of(kind: type[Any], status: dict[str, Any], generation: int = 0, **spec: Any) -> Any:
    metadata = kcr.ObjectMeta(name="a", namespace="default", generation=generation or None)
    return kind(metadata=metadata).changed(spec=spec, status=status)


def condition(kind: str, status: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


def rolled(updated: int, available: int, total: int, observed: int = 2, **more: Any) -> dict[str, Any]:
    counts = {"updatedReplicas": updated, "availableReplicas": available, "replicas": total}
    return {"observedGeneration": observed, **{name: count for name, count in counts.items() if count}, **more}


READY = ("ready", "")


@pytest.mark.parametrize(
    ("obj", "state", "message"),
    [
        pytest.param(None, "pending", "does not exist", id="none"),
        pytest.param(of(Deployment, {}, 1), "pending", "its spec is not observed yet", id="deployment-new"),
        pytest.param(
            of(Deployment, rolled(3, 3, 3, observed=1), 2, replicas=3),
            "pending",
            "its spec is not observed yet",
            id="deployment-changed",
        ),
        pytest.param(
            of(Deployment, rolled(1, 3, 4), 2, replicas=3),
            "pending",
            "1 of 3 replicas are up to date and available",
            id="deployment-rolling",
        ),
        pytest.param(
            of(Deployment, rolled(3, 2, 3), 2, replicas=3),
            "pending",
            "2 of 3 replicas are up to date and available",
            id="deployment-starting",
        ),
        pytest.param(
            of(Deployment, rolled(3, 3, 4), 2, replicas=3), "pending", "1 old replicas are left", id="deployment-old"
        ),
        pytest.param(of(Deployment, rolled(3, 3, 3), 2, replicas=3), *READY, id="deployment"),
        pytest.param(of(Deployment, rolled(1, 1, 1), 2), *READY, id="deployment-default"),
        pytest.param(of(Deployment, {"observedGeneration": 2}, 2, replicas=0), *READY, id="deployment-of-none"),
        pytest.param(
            of(
                Deployment,
                rolled(
                    1, 0, 1, **condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="too late")
                ),
                2,
            ),
            "failed",
            "Progressing is False: too late",
            id="deployment-failed",
        ),
        pytest.param(
            of(Stateful, rolled(2, 2, 3), 2, replicas=3), "pending", "2 of 3 replicas are available", id="stateful"
        ),
        pytest.param(
            of(Stateful, rolled(1, 3, 3), 2, replicas=3),
            "pending",
            "1 of 3 replicas are up to date",
            id="stateful-rolling",
        ),
        pytest.param(
            of(
                Stateful,
                rolled(1, 3, 3),
                2,
                replicas=3,
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
            ),
            *READY,
            id="stateful-partition",
        ),
        pytest.param(
            of(Stateful, rolled(0, 3, 3), 2, replicas=3, updateStrategy={"type": "OnDelete"}),
            *READY,
            id="stateful-on-delete",
        ),
        pytest.param(
            of(
                Daemon,
                {
                    "observedGeneration": 2,
                    "desiredNumberScheduled": 2,
                    "numberAvailable": 2,
                    "updatedNumberScheduled": 1,
                },
                2,
            ),
            "pending",
            "1 of 2 replicas are up to date and available",
            id="daemon",
        ),
        pytest.param(
            of(
                Daemon,
                {"observedGeneration": 2, "desiredNumberScheduled": 2, "numberAvailable": 2},
                2,
                updateStrategy={"type": "OnDelete"},
            ),
            *READY,
            id="daemon-on-delete",
        ),
        pytest.param(of(Daemon, {"observedGeneration": 2}, 2), *READY, id="daemon-without-nodes"),
        pytest.param(of(Job, {}), "pending", "0 of 1 pods are ready or have succeeded", id="job-new"),
        pytest.param(
            of(Job, {"ready": 1, "succeeded": 1}, parallelism=3, completions=2),
            "running",
            "2 of 2 pods are ready or have succeeded",
            id="job-running",
        ),
        pytest.param(of(Job, {}, suspend=True), "pending", "it is suspended", id="job-suspended"),
        pytest.param(of(Job, condition("Complete", "True")), *READY, id="job"),
        pytest.param(
            of(Job, condition("Failed", "True", reason="BackoffLimitExceeded")),
            "failed",
            "Failed is True: BackoffLimitExceeded",
            id="job-failed",
        ),
        pytest.param(
            of(Pod, condition("Ready", "False", reason="ContainersNotReady")),
            "pending",
            "Ready is False: ContainersNotReady",
            id="pod-starting",
        ),
        pytest.param(of(Pod, {"phase": "Pending"}), "pending", "it has no condition Ready yet", id="pod-pending"),
        pytest.param(of(Pod, condition("Ready", "True")), *READY, id="pod"),
        pytest.param(of(Pod, {"phase": "Succeeded"}), *READY, id="pod-succeeded"),
        pytest.param(of(Pod, {"phase": "Failed", "reason": "Evicted"}), "failed", "Evicted", id="pod-failed"),
        pytest.param(of(Service, {}), *READY, id="service"),
        pytest.param(
            of(Service, {}, type="LoadBalancer"),
            "pending",
            "its load balancer has no address yet",
            id="load-balancer-new",
        ),
        pytest.param(
            of(Service, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, type="LoadBalancer"),
            *READY,
            id="load-balancer",
        ),
        pytest.param(of(Claim, {}), "pending", "it is Pending", id="claim-new"),
        pytest.param(of(Claim, {"phase": "Lost"}), "failed", "it is Lost", id="claim-lost"),
        pytest.param(of(Claim, {"phase": "Bound"}), *READY, id="claim"),
        pytest.param(of(Definition, {}), "pending", "it has no condition Established yet", id="definition-new"),
        pytest.param(of(Definition, condition("Established", "True")), *READY, id="definition"),
        pytest.param(of(Widget, {}), "pending", "it has no condition Ready yet", id="own-new"),
        pytest.param(of(Widget, condition("Ready", "Unknown"), 3), "pending", "Ready is Unknown", id="own-unknown"),
        pytest.param(
            of(Widget, condition("Ready", "True", observedGeneration=2), 3),
            "pending",
            "its spec is not observed yet",
            id="own-changed",
        ),
        pytest.param(
            of(Widget, {"observedGeneration": 2, **condition("Ready", "True")}, 3),
            "pending",
            "its spec is not observed yet",
            id="own-status-behind",
        ),
        pytest.param(of(Widget, condition("Ready", "True", observedGeneration=3), 3), *READY, id="own"),
        pytest.param(
            of(Widget, condition("Stalled", "True", message="no quota")),
            "failed",
            "Stalled is True: no quota",
            id="own-stalled",
        ),
        pytest.param(Plain(metadata=kcr.ObjectMeta(name="a")), *READY, id="own-without-status"),
        pytest.param(of(Role, {}), *READY, id="other"),
        pytest.param(core.ConfigMap(metadata=kcr.ObjectMeta(name="a")), *READY, id="config-map"),
        pytest.param(
            apps.Deployment(metadata=kcr.ObjectMeta(name="a", generation=1)),
            "pending",
            "its spec is not observed yet",
            id="typed",
        ),
        pytest.param(core_v1.Service(metadata=kcr.ObjectMeta(name="a")), *READY, id="typed-service"),
        pytest.param(
            core.Pod(metadata=kcr.ObjectMeta(name="a"), status=core.PodStatus(phase="Succeeded")), *READY, id="view"
        ),
    ],
)
def test_state_follows_the_rules_of_the_kind(obj: Any, state: str, message: str) -> None:
    assert kcr.readiness(obj) == (state, message)
    assert kcr.is_ready(obj) == (state == "ready")


@pytest.mark.parametrize("kind", [Widget, Deployment, Pod, Role])
def test_object_that_is_being_deleted_is_not_ready(kind: type[Any]) -> None:
    metadata = kcr.ObjectMeta(name="a", deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert kcr.readiness(kind(metadata=metadata)) == ("pending", "is being deleted")


def test_wait_for_a_ready_object_says_so() -> None:
    wait = kcr.WaitFor(CustomResourceDefinition, kcr.Key("", "a"), kcr.is_ready)
    assert str(wait) == "customresourcedefinitions.apiextensions.k8s.io a: is_ready"
