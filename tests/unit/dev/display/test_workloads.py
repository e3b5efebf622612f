"""The states of Jobs and Deployments, and their last warnings, from values."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.apps import Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet
from kcr.api.batch import JobStatus
from kcr.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    ObjectReference,
    Pod,
    PodStatus,
)
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Condition, Resource
from kcr.testing import build
from kcr_devcluster.dev.display.workloads import Workloads, is_available, is_in_question

PI = build.job("pi")
RUNS = ContainerState(running=ContainerStateRunning())
CRASHED = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
WEB = Deployment(metadata=build.metadata("web"), spec=DeploymentSpec(replicas=2))
REPLICAS = ReplicaSet(metadata=build.metadata("web-5d9c", owner=WEB))


def workloads(*objects: Resource, explanations: dict[str, Explanation] | None = None) -> Workloads:
    pods = [one for one in objects if isinstance(one, Pod)]
    replica_sets = [one for one in objects if isinstance(one, ReplicaSet)]
    events = [one for one in objects if isinstance(one, Event)]
    return Workloads(pods, replica_sets, events, explanations or {})


def pod(name: str, owner: Resource, state: ContainerState = RUNS) -> Pod:
    status = PodStatus(phase="Running", container_statuses=(ContainerStatus(name="main", state=state),))
    return replace(build.pod(name, owner=owner), status=status)


def warning(about: Resource, reason: str, *, seconds: float, kind: str = "Warning", count: int = 1) -> Event:
    reference = ObjectReference(kind=about.resource.kind, name=about.metadata.name, uid=about.metadata.uid)
    return Event(
        metadata=build.metadata(reason.lower()), involved_object=reference, reason=reason, message=f"{reason}\nhere",
        last_timestamp=build.CREATED + timedelta(seconds=seconds), count=count, type=kind,
    )  # fmt: skip


def with_condition(kind: str, **fields: Any) -> JobStatus:
    return JobStatus(conditions=(Condition(type=kind, status="True"),), **fields)


@pytest.mark.parametrize(
    ("status", "fields", "state"),
    [
        pytest.param(with_condition("Failed"), {"managed_by": "example.com/q"}, "Failed", id="ended"),
        pytest.param(with_condition("FailureTarget"), {}, "Terminating", id="last-pods-end"),
        pytest.param(JobStatus(), {"annotations": {"kcr.dev/paused": "true"}}, "Paused", id="paused"),
        pytest.param(JobStatus(), {"managed_by": "kcr.dev/job-controller"}, "Waiting", id="managed-by-kcr"),
        pytest.param(with_condition("Suspended"), {}, "Suspended", id="suspended"),
        pytest.param(JobStatus(active=1), {}, "Waiting", id="pods-do-not-run"),
    ],
)
def test_job_without_running_pods_says_which_way(status: JobStatus, fields: dict[str, Any], state: str) -> None:
    assert workloads().job_state(replace(build.job("pi", **fields), status=status)) == state


def test_job_of_another_controller_has_the_state_of_its_code() -> None:
    explained = {PI.metadata.uid: Explanation(Code.MANAGED_BY_ANOTHER, "left to the controller example.com/q")}
    assert workloads(explanations=explained).job_state(PI) == "Left alone"


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        pytest.param(JobStatus(), {}, True, id="no-pods"),
        pytest.param(JobStatus(active=2, ready=1), {"parallelism": 2, "completions": 2}, True, id="one-not-ready"),
        pytest.param(JobStatus(active=2, ready=2), {"parallelism": 5, "completions": 5}, True, id="some-refused"),
        pytest.param(JobStatus(active=2, ready=2), {"parallelism": 2, "completions": 9}, False, id="all-run"),
        pytest.param(JobStatus(active=1, ready=1, succeeded=8), {"parallelism": 2, "completions": 9}, False, id="last"),
        pytest.param(JobStatus(), {"managed_by": "example.com/q"}, True, id="managed-by-another"),
        pytest.param(with_condition("Suspended"), {}, False, id="suspended"),
        pytest.param(with_condition("Complete", succeeded=1), {}, False, id="complete"),
        pytest.param(with_condition("Failed", failed=1), {}, False, id="failed"),
    ],
)
def test_only_what_the_status_leaves_open_is_in_question(
    status: JobStatus, fields: dict[str, Any], expected: bool
) -> None:
    assert is_in_question(replace(build.job("pi", **fields), status=status)) is expected


def test_job_runs_while_a_container_of_it_does() -> None:
    running = replace(PI, status=JobStatus(active=1))
    assert workloads(pod("a", PI, CRASHED), pod("b", PI)).job_state(running) == "Running"
    assert workloads(pod("a", PI, CRASHED)).job_state(running) == "Waiting"


def test_last_warning_is_that_of_the_job_or_its_pods() -> None:
    own, other = pod("pi-a", PI, CRASHED), pod("other-a", build.job("other"))
    events = (
        warning(PI, "FailedCreate", seconds=5),
        warning(own, "BackOff", seconds=9, count=3),
        warning(own, "Pulled", seconds=11, kind="Normal"),
        warning(other, "OOMKilled", seconds=12),
    )
    found = workloads(own, other, *events).last_warning(PI)
    assert found is not None
    assert (found.about, found.reason, found.message, found.count) == ("pod/pi-a", "BackOff", "BackOff here", 3)
    assert found.last_seen == build.CREATED + timedelta(seconds=9)
    first = workloads(*events[:1]).last_warning(PI)
    assert first is not None
    assert (first.about, first.reason) == ("", "FailedCreate")
    assert workloads(own, *events[2:]).last_warning(PI) is None


def deployment(**status: Any) -> Deployment:
    return replace(WEB, status=DeploymentStatus(**status))


def test_pods_of_a_replica_set_are_the_deployments() -> None:
    own, bare = pod("web-5d9c-a", REPLICAS), build.pod("bare")
    seen = workloads(own, bare, REPLICAS, warning(own, "BackOff", seconds=1))
    assert (seen.deployment_of(own), seen.deployment_of(bare)) == ("web", "")
    shown = seen.deployment(WEB)
    assert (shown.state, shown.replicas, shown.is_troubled) == ("Waiting", 2, True)
    assert shown.warning is not None
    assert shown.warning.about == "pod/web-5d9c-a"


@pytest.mark.parametrize(
    ("status", "available"),
    [
        pytest.param({"replicas": 2, "updated_replicas": 2, "available_replicas": 2}, True, id="all"),
        pytest.param({"replicas": 2, "updated_replicas": 2, "available_replicas": 1}, False, id="one-is-not-ready"),
        pytest.param({"replicas": 3, "updated_replicas": 2, "available_replicas": 2}, False, id="an-old-one-is-left"),
        pytest.param({"replicas": 2, "updated_replicas": 1, "available_replicas": 2}, False, id="roll-out"),
    ],
)
def test_deployment_is_available_with_all_its_new_pods(status: dict[str, Any], available: bool) -> None:
    assert is_available(deployment(**status)) is available
    assert (workloads().deployment(deployment(**status)).state == "Available") is available


@pytest.mark.parametrize(
    ("kind", "status", "troubled"),
    [
        pytest.param("Available", "False", False, id="not-yet"),
        pytest.param("Progressing", "False", True, id="deadline-exceeded"),
        pytest.param("ReplicaFailure", "True", True, id="pods-refused"),
    ],
)
def test_condition_of_a_deployment_may_be_trouble(kind: str, status: str, troubled: bool) -> None:
    conditions = (DeploymentCondition(type=kind, status=status),)
    told = {WEB.metadata.uid: Explanation(Code.WAITING, "is not available")}
    shown = workloads(explanations=told).deployment(deployment(conditions=conditions))
    assert (shown.is_troubled, shown.why) == (troubled, "is not available")
