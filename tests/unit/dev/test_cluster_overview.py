"""What the page of `kcr dev` shows of a cluster, from values."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from kcr.api.batch import COMPLETION_INDEX, CronJob, CronJobSpec, Job, JobStatus
from kcr.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Condition, Key, PodCondition
from kcr.testing import build
from kcr_devcluster.dev.cluster_overview import MAX_JOBS, MAX_PODS, ClusterObjects, cluster_overview
from kcr_devcluster.dev.cluster_state import ClusterOverview, ConditionOverview, JobOverview, PodOverview

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PI = build.job("pi")


def before(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def overview(*objects: Job | CronJob | Pod, job: str = "") -> ClusterOverview:
    kinds = [[one for one in objects if isinstance(one, kind)] for kind in (Job, CronJob, Pod)]
    return cluster_overview(ClusterObjects(*kinds), NOW, UTC, Key("default", job) if job else None)  # type: ignore[arg-type]  # sorted by kind


def job_of(status: JobStatus, **fields: Any) -> JobOverview:
    return overview(replace(build.job("pi", **fields), status=status)).jobs[0]


def holds(kind: str, reason: str = "", message: str = "", *, at: datetime = NOW) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message, last_transition_time=at)


def ended(name: str, code: int, seconds: float, reason: str = "") -> ContainerStatus:
    """A container that ran for a minute."""
    end = ContainerStateTerminated(
        exit_code=code, reason=reason, started_at=before(seconds + 60), finished_at=before(seconds)
    )
    return ContainerStatus(name=name, restart_count=1, state=ContainerState(terminated=end))


def waiting(name: str, reason: str) -> ContainerStatus:
    return ContainerStatus(name=name, state=ContainerState(waiting=ContainerStateWaiting(reason=reason)))


def pod_of(phase: str, *main: ContainerStatus, init: tuple[ContainerStatus, ...] = (), **fields: Any) -> PodOverview:
    """A pod whose init container `proxy` is a sidecar."""
    metadata = build.metadata("p", **fields)
    names = [Container(name=one.name, restart_policy="Always" if one.name == "proxy" else None) for one in init]
    spec = PodSpec(node_name="n", init_containers=tuple(names), containers=tuple(Container(name=m.name) for m in main))
    status = PodStatus(phase=phase, init_container_statuses=init, container_statuses=main)
    return overview(Pod(metadata=metadata, spec=spec, status=status)).pods[0]


def test_running_job_has_counts_and_times() -> None:
    status = JobStatus(active=2, ready=1, succeeded=3, failed=1, start_time=before(90))
    assert job_of(status, completions=9, parallelism=2, completion_mode="Indexed") == JobOverview(
        namespace="default",
        name="pi",
        uid="uid-pi",
        state="Waiting",
        why="",
        is_troubled=False,
        warning=None,
        completions=9,
        parallelism=2,
        active=2,
        ready=1,
        succeeded=3,
        failed=1,
        created_at=build.CREATED,
        started_at=before(90),
        ended_at=None,
        conditions=(),
        owner="",
        indexed=True,
    )


def test_job_is_told_as_kcr_explain_tells_it() -> None:
    told = Explanation(Code.WAITING, "waits for 1 pod that cannot be scheduled", remedies=("add a node",))
    objects = ClusterObjects([PI, build.job("other")], [], [], explanations={PI.metadata.uid: told})
    shown, other = cluster_overview(objects, NOW, UTC, PI.key).jobs
    assert (shown.why, shown.is_troubled) == ("waits for 1 pod that cannot be scheduled", True)
    assert (other.why, other.is_troubled) == ("", False)
    assert cluster_overview(objects, NOW, UTC, PI.key).explanation == told
    running = replace(PI, status=JobStatus(active=1, ready=1))
    (fine,) = cluster_overview(objects._replace(jobs=[running]), NOW, UTC).jobs
    assert (fine.why, fine.is_troubled) == ("", False)
    assert cluster_overview(objects, NOW, UTC).explanation is None


def test_failed_job_says_why_and_since_when() -> None:
    conditions = (
        holds("Failed", "BackoffLimitExceeded", "too often", at=before(5)),
        holds("FailureTarget", "BackoffLimitExceeded", "too often", at=before(9)),
        replace(holds("Suspended"), status="False"),
    )
    shown = job_of(JobStatus(failed=7, start_time=before(90), conditions=conditions))
    assert (shown.state, shown.ended_at) == ("Failed", before(5))
    assert shown.conditions == (
        ConditionOverview(type="FailureTarget", reason="BackoffLimitExceeded", message="too often"),
        ConditionOverview(type="Failed", reason="BackoffLimitExceeded", message="too often"),
    )


@pytest.mark.parametrize(
    ("status", "fields", "state"),
    [
        pytest.param(JobStatus(conditions=(holds("Suspended"),)), {}, "Suspended", id="suspended"),
        pytest.param(JobStatus(conditions=(holds("Complete"),)), {}, "Complete", id="complete"),
        pytest.param(JobStatus(conditions=(holds("FailureTarget"),)), {}, "Terminating", id="last-pods-end"),
        pytest.param(JobStatus(active=1), {"deletion_timestamp": NOW}, "Terminating", id="deleted"),
    ],
)
def test_job_has_a_state(status: JobStatus, fields: dict[str, Any], state: str) -> None:
    assert job_of(status, **fields).state == state


def test_job_of_a_cronjob_names_it() -> None:
    owner = CronJob(metadata=build.metadata("nightly"))
    assert job_of(JobStatus(), owner=owner).owner == "nightly"
    assert job_of(JobStatus(), owner=build.config_map("c")).owner == ""


def test_unfinished_jobs_come_first_and_the_oldest_are_left_out() -> None:
    done = JobStatus(conditions=(holds("Complete"),))
    jobs = [
        replace(build.job(f"done-{number}", creation_timestamp=before(number)), status=done)
        for number in range(MAX_JOBS)
    ]
    old = build.job("old", creation_timestamp=before(9999))
    shown = overview(*jobs, old)
    assert [job.name for job in shown.jobs[:3]] == ["old", "done-0", "done-1"]
    assert (len(shown.jobs), shown.jobs_left_out) == (MAX_JOBS, 1)
    assert f"done-{MAX_JOBS - 1}" not in {job.name for job in shown.jobs}


@pytest.mark.parametrize(
    ("spec", "following", "error"),
    [
        pytest.param({"schedule": "30 13 * * *"}, NOW + timedelta(hours=1, minutes=30), "", id="utc"),
        pytest.param(
            {"schedule": "30 13 * * *", "time_zone": "Europe/Berlin"}, NOW + timedelta(minutes=30), "", id="in-its-zone"
        ),
        pytest.param({"schedule": "* * * * *", "suspend": True}, None, "", id="suspended"),
        pytest.param({"schedule": "0 0 31 2 *"}, None, "no time fits its schedule", id="never"),
        pytest.param({"schedule": "@nope"}, None, "unrecognized descriptor: @nope", id="wrong"),
        pytest.param({"schedule": "* * * * *", "time_zone": "Mars"}, None, "unknown time zone Mars", id="no-zone"),
    ],
)
def test_cronjob_says_when_it_runs_next_or_why_not(
    spec: dict[str, Any], following: datetime | None, error: str
) -> None:
    shown = overview(CronJob(metadata=build.metadata("c"), spec=CronJobSpec(**spec))).cron_jobs[0]
    assert (shown.next_schedule, shown.error) == (following, error)
    assert (shown.schedule, shown.time_zone) == (spec["schedule"], spec.get("time_zone", ""))


def test_schedule_without_a_zone_goes_by_the_controllers() -> None:
    cronjob = CronJob(metadata=build.metadata("c"), spec=CronJobSpec(schedule="30 13 * * *"))
    shown = cluster_overview(ClusterObjects((), (cronjob,), ()), NOW, ZoneInfo("Europe/Berlin"))
    assert shown.cron_jobs[0].next_schedule == NOW + timedelta(minutes=30)


def test_failed_pod_has_the_code_of_the_container_that_failed() -> None:
    shown = pod_of("Failed", ended("main", 3, 10, "Error"), init=(ended("proxy", 143, 5, "Error"),))
    assert (shown.exit_code, shown.reason, shown.containers) == (3, "Error", ("proxy", "main"))
    assert (shown.started_at, shown.ended_at) == (before(70), before(10))


def test_sidecar_that_was_told_to_end_is_no_failure() -> None:
    shown = pod_of("Succeeded", ended("main", 0, 10, "Completed"), init=(ended("proxy", 143, 5, "Error"),))
    assert (shown.phase, shown.exit_code, shown.reason) == ("Succeeded", 0, "")


def test_pod_that_runs_has_no_exit_code() -> None:
    running = ContainerState(running=ContainerStateRunning(started_at=before(9)))
    shown = pod_of("Running", ContainerStatus(name="a", state=running, restart_count=2), ended("b", 0, 5))
    assert (shown.phase, shown.exit_code, shown.restarts) == ("Running", None, 3)
    assert (shown.started_at, shown.ended_at) == (before(65), None)


def test_pod_that_waits_says_why() -> None:
    assert pod_of("Pending", waiting("main", "ImagePullBackOff")).reason == "ImagePullBackOff"
    status = PodStatus(
        phase="Pending", conditions=(PodCondition(type="PodScheduled", status="False", reason="Unschedulable"),)
    )
    shown = overview(Pod(metadata=build.metadata("p"), status=status)).pods[0]
    assert (shown.reason, shown.started_at, shown.exit_code) == ("Unschedulable", None, None)


def test_deleted_pod_is_terminating_until_it_has_ended() -> None:
    assert pod_of("Running", deletion_timestamp=NOW).phase == "Terminating"
    assert pod_of("Failed", ended("main", 1, 1), deletion_timestamp=NOW).phase == "Failed"


def test_pods_of_a_job_come_by_index_and_the_others_without_it() -> None:
    pods = [
        build.pod(f"pi-{index}", owner=PI, annotations={COMPLETION_INDEX: str(index)}, creation_timestamp=before(index))
        for index in (10, 2, 1)
    ]
    others = [build.pod("bare"), build.pod("other", owner=build.job("other"))]
    of_pi = overview(*pods, *others, job="pi")
    assert [(pod.name, pod.index, pod.job) for pod in of_pi.pods] == [
        ("pi-1", 1, "pi"),
        ("pi-2", 2, "pi"),
        ("pi-10", 10, "pi"),
    ]
    assert [(pod.name, pod.job) for pod in overview(*pods, *others).pods] == [("bare", "")]
    assert overview(*pods, job="none").pods == ()


def test_succeeded_pods_are_left_out_before_others() -> None:
    done = [build.pod(f"done-{n}", "Succeeded", owner=PI, creation_timestamp=before(n)) for n in range(MAX_PODS)]
    others = [
        build.pod(phase.lower(), phase, owner=PI, creation_timestamp=before(9999)) for phase in ("Running", "Failed")
    ]
    shown = overview(*done, *others, job="pi")
    assert {pod.name for pod in shown.pods[:2]} == {"running", "failed"}
    assert (len(shown.pods), shown.pods_left_out) == (MAX_PODS, 2)
