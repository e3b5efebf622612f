"""Jobs, CronJobs and pods as the debug port of `kcr dev` shows them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from kcr.api.explanation import Code, Explanation, Step
from kcr_devcluster.dev.cluster_state import (
    ClusterOverview,
    ConditionOverview,
    CronJobOverview,
    DeploymentOverview,
    JobOverview,
    PodOverview,
    WarningOverview,
)

NOW = datetime(2026, 5, 4, 3, 12, 9, tzinfo=UTC)


def moments_ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def job_overview(name: str, state: str = "Running", **changes: Any) -> JobOverview:
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "state": state,
        "why": "",
        "is_troubled": False,
        "warning": None,
        "completions": 1,
        "parallelism": 1,
        "active": 0,
        "ready": 0,
        "succeeded": 0,
        "failed": 0,
        "created_at": moments_ago(64),
        "started_at": moments_ago(63),
        "ended_at": None,
        "conditions": (),
        "owner": "",
        "indexed": False,
    }
    return JobOverview(**{**values, **changes})


def pod_overview(name: str, phase: str = "Running", **changes: Any) -> PodOverview:
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "job": "",
        "deployment": "",
        "index": None,
        "phase": phase,
        "reason": "",
        "exit_code": None,
        "restarts": 0,
        "node": "kcr-dev",
        "created_at": moments_ago(60),
        "started_at": moments_ago(59),
        "ended_at": None,
        "containers": ("main",),
    }
    return PodOverview(**{**values, **changes})


def warning_overview(reason: str, message: str, **changes: Any) -> WarningOverview:
    values: dict[str, Any] = {"about": "", "count": 1, "last_seen": moments_ago(4)}
    return WarningOverview(reason=reason, message=message, **{**values, **changes})


def deployment_overview(name: str, **changes: Any) -> DeploymentOverview:
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "state": "Available",
        "why": "",
        "is_troubled": False,
        "warning": None,
        "replicas": 2,
        "ready": 2,
        "updated": 2,
        "created_at": moments_ago(60),
    }
    return DeploymentOverview(**{**values, **changes})


def cron_job_overview(name: str, **changes: Any) -> CronJobOverview:
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "schedule": "*/5 * * * *",
        "time_zone": "",
        "suspended": False,
        "active": 0,
        "last_schedule": moments_ago(129),
        "last_success": moments_ago(121),
        "next_schedule": NOW + timedelta(seconds=171),
        "error": "",
    }
    return CronJobOverview(**{**values, **changes})


def pods_of_render() -> Iterator[PodOverview]:
    """Yield the pods of an Indexed Job in the middle of its work: 14 succeeded, 2 failed, 3 run, 3 wait."""
    for i in range(20):
        begun = 61.0 - 13 * (i // 4) - i % 4
        shared: dict[str, Any] = {"job": "render", "index": i}
        if i in (6, 13):
            end: dict[str, Any] = {"ended_at": moments_ago(begun - 3), "exit_code": 137, "reason": "OOMKilled"}
            times: dict[str, Any] = {"created_at": moments_ago(begun), "started_at": moments_ago(begun - 1)}
            yield pod_overview(f"render-{i}-f2x9q", "Failed", **shared, **times, **end)
            begun -= 4
        times = {"created_at": moments_ago(begun), "started_at": moments_ago(begun - 1)}
        if i < 14:
            end = {"ended_at": moments_ago(begun - 8 - i % 5), "exit_code": 0}
            yield pod_overview(f"render-{i}-k7m2p", "Succeeded", **shared, **times, **end)
        elif i < 17:
            yield pod_overview(f"render-{i}-k7m2p", **shared, **times)
        else:
            waits: dict[str, Any] = {
                "started_at": None,
                "node": "",
                "created_at": moments_ago(4),
                "reason": "ContainerCreating",
            }
            yield pod_overview(f"render-{i}-k7m2p", "Pending", **shared, **waits)


def cluster_overview(**changes: Any) -> ClusterOverview:
    """Return a cluster with Jobs of all states, CronJobs and other pods."""
    limit = "Job has reached the specified backoff limit"
    done = ConditionOverview(
        type="Complete", reason="CompletionsReached", message="Reached expected number of succeeded pods"
    )
    jobs = (
        job_overview(
            "render",
            completions=20,
            parallelism=6,
            active=6,
            ready=3,
            succeeded=14,
            failed=2,
            indexed=True,
            why="runs 3 pods, and waits for 3 more pods to start",
        ),
        job_overview(
            "train",
            "Waiting",
            active=1,
            started_at=moments_ago(38),
            why="waits for 1 pod that cannot be scheduled",
            is_troubled=True,
            warning=warning_overview(
                "FailedScheduling",
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
                "available: 1 Preemption is not helpful for scheduling.",
                about="pod/train-9vxwk",
                count=3,
            ),
        ),
        job_overview("crawl", completions=None, parallelism=4, active=4, ready=4, started_at=moments_ago(12)),
        job_overview(
            "paused-import",
            "Suspended",
            completions=8,
            parallelism=2,
            started_at=None,
            succeeded=3,
            conditions=(ConditionOverview(type="Suspended", reason="JobSuspended", message="Job suspended"),),
        ),
        job_overview("pi", "Complete", succeeded=1, ended_at=moments_ago(41), conditions=(done,)),
        job_overview(
            "report-29631667",
            "Complete",
            completions=3,
            succeeded=3,
            ended_at=moments_ago(20),
            owner="report",
            conditions=(done,),
        ),
        job_overview(
            "migrate",
            "Failed",
            completions=5,
            succeeded=1,
            failed=7,
            ended_at=moments_ago(30),
            conditions=(ConditionOverview(type="Failed", reason="BackoffLimitExceeded", message=limit),),
        ),
    )
    values: dict[str, Any] = {
        "now": NOW,
        "jobs": jobs,
        "jobs_left_out": 0,
        "pods_left_out": 0,
        "explanation": None,
        "deployments": (
            deployment_overview(
                "web",
                replicas=3,
                ready=2,
                updated=3,
                state="Waiting",
                is_troubled=True,
                why="is not available for 51s: MinimumReplicasUnavailable",
                warning=warning_overview(
                    "BackOff", "Back-off restarting failed container main", about="pod/web-5d9c-x8x2f", count=5
                ),
            ),
        ),
        "cron_jobs": (
            cron_job_overview("report"),
            cron_job_overview(
                "backup",
                schedule="0 3 * * *",
                time_zone="Europe/Zurich",
                suspended=True,
                next_schedule=None,
                last_success=None,
            ),
            cron_job_overview(
                "rotate", time_zone="Mars/Olympus", next_schedule=None, error='unknown time zone "Mars/Olympus"'
            ),
        ),
        "pods": (
            pod_overview("web-5d9c-4jq2m", deployment="web"),
            pod_overview("web-5d9c-r7w8t", deployment="web"),
            pod_overview("web-5d9c-x8x2f", deployment="web", reason="CrashLoopBackOff", restarts=4),
            pod_overview("debug", "Pending", reason="ImagePullBackOff", started_at=None),
        ),
    }
    return ClusterOverview(**{**values, **changes})


def job_pods(*pods: PodOverview, left_out: int = 0) -> ClusterOverview:
    """Return the answer to the question for one Job."""
    explanation = Explanation(
        Code.WAITING,
        "runs 3 pods, and waits for 3 more pods to start",
        steps=(Step("creates no pod before one of them ends"), Step("at 5 more failures: fails (backoffLimit)")),
        reasons=("pod render-17-k7m2p has not started on kcr-dev yet; the same holds for 2 more pods",),
        wanted="20 completions, by index, 6 pods at once, backoffLimit 6",
        present="14 succeeded, 2 failed, 6 active (3 ready)",
    )
    return cluster_overview(pods=pods or tuple(pods_of_render()), pods_left_out=left_out, explanation=explanation)
