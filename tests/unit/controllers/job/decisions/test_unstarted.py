"""When a Job gives up on pods that do not start (`kcr.dev/start-deadline`)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job
from kcr.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
)
from kcr.api.meta import PodCondition
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.plan import Ending, Hold, Terminate
from kcr.controllers.job.decisions.unstarted import cause_of, waiting_since
from tests.kit.builders import NOW, ago, job, pod, snapshot


def wants(text: str, **fields: Any) -> Job:
    found = job(**fields)
    return replace(found, metadata=replace(found.metadata, annotations={"kcr.dev/start-deadline": text}))


def waiting(reason: str, message: str = "") -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))


def pending(
    name: str = "pi-1",
    *,
    age: float = 700,
    state: ContainerState | None = None,
    scheduled: datetime | None = None,
    unscheduled: str = "",
    inits: Sequence[ContainerStatus] = (),
    sidecar: bool = False,
) -> Pod:
    found = pod(name, "Pending", created=ago(age), node="n1" if scheduled else "")
    scheduling = PodCondition(
        type="PodScheduled",
        status="True" if scheduled else "False",
        last_transition_time=scheduled,
        reason=unscheduled,
        message="0/3 nodes are available" if unscheduled else "",
    )
    conditions = (scheduling,) if scheduled or unscheduled else ()
    statuses = () if state is None else (ContainerStatus(name="c", state=state),)
    spec = replace(found.spec, init_containers=(Container(name="proxy", restart_policy="Always"),) if sidecar else ())
    status = replace(
        found.status, conditions=conditions, container_statuses=statuses, init_container_statuses=tuple(inits)
    )
    return replace(found, spec=spec, status=status)


def init(name: str = "init", *, ended: datetime | None = None) -> ContainerStatus:
    if ended is None:
        return ContainerStatus(name=name, state=ContainerState(running=ContainerStateRunning()))
    return ContainerStatus(name=name, state=ContainerState(terminated=ContainerStateTerminated(finished_at=ended)))


IMAGE = waiting("ImagePullBackOff", "Back-off pulling image")


def test_pod_that_does_not_start_fails_its_job_with_the_cause() -> None:
    late = pending(state=IMAGE, scheduled=ago(650))
    plan = decide(snapshot(wants("10m"), late))
    assert plan.ending == Ending(
        "Failed",
        "PodsNeverStarted",
        "No start within 10m0s (kcr.dev/start-deadline), cause image: pod pi-1: container c waits: "
        "ImagePullBackOff: Back-off pulling image",
    )
    assert plan.work == Terminate((late,))
    assert plan.requeue_after is None


def test_other_late_pods_are_counted_and_the_first_is_named() -> None:
    pods = [pending(name, age=age, unscheduled="Unschedulable") for name, age in (("b", 700), ("a", 800), ("c", 10))]
    ending = decide(snapshot(wants("10m", parallelism=3, completions=3), *pods)).ending
    assert ending is not None
    assert ending.message == (
        "No start within 10m0s (kcr.dev/start-deadline), cause unschedulable: pod a is not scheduled: Unschedulable: "
        "0/3 nodes are available; 1 more pod did not start either"
    )


def test_job_is_judged_again_when_the_first_deadline_is_over() -> None:
    pods = [pending(name, age=age) for name, age in (("a", 100), ("b", 300))]
    plan = decide(snapshot(wants("10m", parallelism=2, completions=2), *pods))
    assert (plan.ending, plan.requeue_after) == (None, timedelta(seconds=300))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("10m", pod(created=ago(9000)), id="runs"),
        pytest.param("10m", pending(unscheduled="SchedulingGated"), id="gates-are-not-named"),
        pytest.param("10m image", pending(unscheduled="Unschedulable"), id="cause-is-not-named"),
        pytest.param("10m", pending(age=9000, state=IMAGE, scheduled=ago(30)), id="scheduled-lately"),
        pytest.param("10m", pending(age=9000, inits=[init()]), id="init-container-runs"),
        pytest.param("10m", pending(age=9000, inits=[init(ended=ago(20))]), id="init-container-ended-lately"),
        pytest.param("10m", pod("a", "Pending", created=ago(9000), deleted=ago(1)), id="terminating"),
    ],
)
def test_pod_that_makes_its_way_fails_no_job(text: str, found: Pod) -> None:
    assert decide(snapshot(wants(text), found)).ending is None


def test_end_waits_until_the_controllers_own_deletions_are_seen() -> None:
    # Else the pods would be deleted without a record of the reason, and no later reconcile would find it.
    plan = decide(snapshot(wants("10m"), pending(state=IMAGE, scheduled=ago(650)), expectations_met=False))
    assert (plan.ending, plan.work, plan.requeue_after) == (None, Hold(), None)


def test_sidecar_that_runs_is_no_step_towards_the_start() -> None:
    found = pending(age=700, inits=[init("proxy")], sidecar=True)
    assert waiting_since(found) == ago(700)


def test_gates_count_where_they_are_named() -> None:
    ending = decide(snapshot(wants("10m gates"), pending(unscheduled="SchedulingGated"))).ending
    assert ending is not None
    assert "cause gates" in ending.message


def test_suspended_job_and_one_without_annotation_wait_on() -> None:
    late = pending(age=9000)
    assert decide(snapshot(wants("10m", suspend=True), late)).ending is None
    plan = decide(snapshot(job(), late))
    assert (plan.ending, plan.requeue_after) == (None, None)


def test_success_comes_before_the_deadline() -> None:
    # The last rule of all: no other end is overruled.
    ended = pod("a", "Failed", finished=ago(1), exit_code=1)
    plan = decide(snapshot(wants("10m", backoff_limit=0, parallelism=2, completions=2), ended, pending("b")))
    assert plan.ending is not None
    assert plan.ending.reason == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("ErrImagePull", "image"), ("CreateContainerConfigError", "configuration"),
        ("RunContainerError", "command"), ("ContainerCreating", "other"), ("Newer", "other"),
    ],
)  # fmt: skip
def test_cause_follows_from_the_reason_of_the_kubelet(reason: str, cause: str) -> None:
    assert cause_of(pending(state=waiting(reason), scheduled=NOW)) == cause
