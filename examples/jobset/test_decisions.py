"""What the controller decides, with values alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from examples.jobset.api import (
    FailurePolicy,
    FailurePolicyRule,
    JobSet,
    JobSetSpec,
    JobSetStatus,
    JobTemplate,
    ReplicatedJob,
    StartupPolicy,
    SuccessPolicy,
)
from examples.jobset.decisions import ATTEMPT, REPLICATED_JOB, Plan, decide, job_name
from examples.jobset.explanation import explain
from kcr.api.batch import Job, JobStatus
from kcr.testing import build

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = JobTemplate(spec={})
IN_ORDER = StartupPolicy(startup_policy_order="InOrder")
RESTARTS = FailurePolicy(max_restarts=1)


def jobset(**fields: Any) -> JobSet:
    """Return a JobSet of one leader and two workers; fields of its spec or status by name."""
    replicated = (
        ReplicatedJob(name="leader", template=TEMPLATE),
        ReplicatedJob(name="workers", replicas=2, template=TEMPLATE),
    )
    status = {name: fields.pop(name) for name in JobSetStatus.__struct_fields__ if name in fields}
    spec = JobSetSpec(**{"replicated_jobs": replicated, **fields})
    return JobSet(metadata=build.metadata("set"), spec=spec, status=JobSetStatus(**status))


def job(name: str, state: str = "", *, attempt: int = 0, reason: str = "", minute: int = 0, **fields: Any) -> Job:
    """Return a Job such as `workers-1`: active, `Ready`, `Complete` or `Failed`."""
    labels = {REPLICATED_JOB: name.rpartition("-")[0], ATTEMPT: str(attempt)}
    found = build.job(f"set-{name}", labels=labels, **fields)
    ended = state in ("Complete", "Failed")
    at = NOW + timedelta(minutes=minute)
    condition = kcr.Condition(type=state, status="True", reason=reason, last_transition_time=at)
    status = JobStatus(active=int(not ended), ready=int(state == "Ready"), conditions=(condition,) if ended else ())
    return replace(found, status=status)


def names(plan: Plan, of: JobSet) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the Jobs that are created, deleted, and suspended or resumed, without the JobSet's."""
    made = [job_name(of, one, index) for one, index in plan.create]
    lists = (made, [job.metadata.name for job in plan.delete], [job.metadata.name for job in plan.toggle])
    created, deleted, toggled = ([name.removeprefix("set-") for name in one] for one in lists)
    return created, deleted, toggled


ALL = ["leader-0", "workers-0", "workers-1"]


@pytest.mark.parametrize(
    ("spec", "jobs", "created", "toggled"),
    [
        pytest.param({}, [], ALL, [], id="all-at-once"),
        pytest.param({}, [job("leader-0", "Complete")], ALL[1:], [], id="ended-one-is-kept"),
        pytest.param({"startup_policy": IN_ORDER}, [], ALL[:1], [], id="in-order"),
        pytest.param({"startup_policy": IN_ORDER}, [job("leader-0")], [], [], id="first-is-not-ready"),
        pytest.param({"startup_policy": IN_ORDER}, [job("leader-0", "Ready")], ALL[1:], [], id="first-is-ready"),
        pytest.param({"startup_policy": IN_ORDER}, [job("leader-0", "Complete")], ALL[1:], [], id="first-has-ended"),
        pytest.param({"startup_policy": IN_ORDER, "suspend": True}, [], ALL, [], id="suspended-all-are-created"),
        pytest.param({"suspend": True}, [job("leader-0"), job("workers-0", "Complete")], ALL[2:], ALL[:1], id="stop"),
        pytest.param({}, [job(name, suspend=True) for name in ALL], [], ALL, id="resume"),
        pytest.param(
            {"startup_policy": IN_ORDER}, [job(name, suspend=True) for name in ALL], [], ALL[:1], id="resume-in-order"
        ),
    ],
)  # fmt: skip
def test_jobs_start_when_the_spec_lets_them(
    spec: dict[str, Any], jobs: list[Job], created: list[str], toggled: list[str]
) -> None:
    of = jobset(**spec)
    assert names(decide(of, jobs, NOW), of) == (created, [], toggled)


@pytest.mark.parametrize(
    ("parallelism", "completions", "ready", "starts"),
    [
        pytest.param(3, None, 2, False, id="work-queue"),
        pytest.param(3, 2, 2, True, id="as-many-as-complete"),
        pytest.param(2, 5, 1, False, id="one-of-two"),
        pytest.param(2, 5, 2, True, id="as-many-as-run-at-a-time"),
        pytest.param(0, 5, 0, True, id="none-run"),
    ],
)
def test_job_is_ready_when_all_pods_that_run_at_a_time_are(
    parallelism: int, completions: int | None, ready: int, starts: bool
) -> None:
    of, leader = jobset(startup_policy=IN_ORDER), job("leader-0", parallelism=parallelism, completions=completions)
    plan = decide(of, [replace(leader, status=JobStatus(active=ready, ready=ready))], NOW)
    assert plan.status.replicated_jobs_status[0].ready == int(starts)
    assert names(plan, of)[0] == (ALL[1:] if starts else [])


@pytest.mark.parametrize(
    ("policy", "complete", "ends"),
    [
        pytest.param(SuccessPolicy(), ALL[:2], False, id="all-but-one"),
        pytest.param(SuccessPolicy(), ALL, True, id="all"),
        pytest.param(SuccessPolicy(target_replicated_jobs=("workers",)), ALL[1:], True, id="all-of-the-target"),
        pytest.param(SuccessPolicy(operator="Any"), ALL[:1], True, id="any"),
        pytest.param(SuccessPolicy(operator="Any"), [], False, id="any-and-none-is-complete"),
        pytest.param(
            SuccessPolicy(operator="Any", target_replicated_jobs=("workers",)), ALL[:1], False, id="any-of-the-target"
        ),
    ],
)
def test_success_policy_ends_the_set_and_deletes_the_rest(
    policy: SuccessPolicy, complete: list[str], ends: bool
) -> None:
    of = jobset(success_policy=policy)
    jobs = [job(name, "Complete" if name in complete else "Ready") for name in ALL]
    plan = decide(of, jobs, NOW)
    assert plan.status.terminal_state == ("Completed" if ends else "")
    assert names(plan, of)[1] == ([name for name in ALL if name not in complete] if ends else [])


def rule(action: Any, *targets: str, reasons: tuple[str, ...] = ()) -> FailurePolicyRule:
    """Return a rule of a failure policy."""
    return FailurePolicyRule(action=action, target_replicated_jobs=targets, on_job_failure_reasons=reasons)


IGNORE = "RestartJobSetAndIgnoreMaxRestarts"


@pytest.mark.parametrize(
    ("policy", "counted", "result"),
    [
        pytest.param(None, 0, "FailedJobs", id="no-policy"),
        pytest.param(RESTARTS, 0, (1, 1), id="restart-by-default"),
        pytest.param(RESTARTS, 1, "ReachedMaxRestarts", id="restarts-are-used-up"),
        pytest.param(FailurePolicy(), 0, "ReachedMaxRestarts", id="no-restarts"),
        pytest.param(
            FailurePolicy(max_restarts=1, rules=(rule("FailJobSet"),)), 0, "FailJobSetFailurePolicyAction", id="fail"
        ),
        pytest.param(FailurePolicy(max_restarts=1, rules=(rule(IGNORE),)), 1, (2, 1), id="not-counted"),
        pytest.param(
            FailurePolicy(max_restarts=1, rules=(rule("FailJobSet", "leader"),)), 0, (1, 1), id="another-target"
        ),
        pytest.param(
            FailurePolicy(max_restarts=1, rules=(rule("FailJobSet", reasons=("DeadlineExceeded",)),)), 0, (1, 1),
            id="another-reason",
        ),
        pytest.param(
            FailurePolicy(rules=(rule("FailJobSet", "leader"), rule(IGNORE, reasons=("BackoffLimitExceeded",)))), 0,
            (1, 0), id="second-rule",
        ),
    ],
)  # fmt: skip
def test_failure_policy_ends_or_restarts_the_set(
    policy: FailurePolicy | None, counted: int, result: str | tuple[int, int]
) -> None:
    of = jobset(failure_policy=policy, restarts=counted, restarts_count_towards_max=counted)
    failed = job("workers-0", "Failed", attempt=counted, reason="BackoffLimitExceeded", minute=2)
    later = job("workers-1", "Failed", attempt=counted, reason="BackoffLimitExceeded", minute=3)
    plan = decide(of, [job("leader-0", "Ready", attempt=counted), later, failed], NOW)
    if isinstance(result, str):
        ended = kcr.find_condition(plan.status.conditions, "Failed")
        assert ended is not None
        assert (ended.reason, plan.status.terminal_state) == (result, "Failed")
        assert "(first failed job: set-workers-0)" in ended.message
        assert names(plan, of) == ([], ["leader-0"], [])
    else:
        assert (plan.status.restarts, plan.status.restarts_count_towards_max) == result
        restarted = kcr.find_condition(plan.status.conditions, "Restarted")
        assert restarted is not None
        assert restarted.message == f"jobset restarted as attempt {result[0]} (first failed job: set-workers-0)"
        assert names(plan, of) == ([], ["leader-0", "workers-1", "workers-0"], [])


@pytest.mark.parametrize(
    ("strategy", "created"),
    [pytest.param("Recreate", ALL[1:2], id="recreate"), pytest.param("BlockingRecreate", [], id="blocking")],
)
def test_restart_deletes_old_jobs_before_new_ones_get_their_names(strategy: Any, created: list[str]) -> None:
    of = jobset(failure_policy=FailurePolicy(max_restarts=1, restart_strategy=strategy), restarts=1)
    leader = job("leader-0", "Ready")
    terminating = job("workers-1", "Failed")
    terminating = replace(terminating, metadata=replace(terminating.metadata, deletion_timestamp=NOW))
    plan = decide(of, [leader, terminating], NOW)
    assert names(plan, of) == (created, ["leader-0"], [])
    assert plan.status.terminal_state == ""


def test_job_of_another_attempt_counts_for_nothing() -> None:
    of = jobset(restarts=1)
    plan = decide(of, [job(name, "Complete") for name in ALL], NOW)
    assert plan.status.terminal_state == ""
    assert {one.succeeded for one in plan.status.replicated_jobs_status} == {0}


def test_ended_set_deletes_what_a_crash_has_left_and_expires() -> None:
    done = kcr.Condition(type="Completed", status="True", last_transition_time=NOW)
    of = jobset(terminal_state="Completed", conditions=(done,), ttl_seconds_after_finished=60)
    plan = decide(of, [job("leader-0", "Ready"), job("workers-0", "Complete")], NOW + timedelta(seconds=20))
    assert names(plan, of) == ([], ["leader-0"], [])
    assert plan.expires_in == timedelta(seconds=40)


@pytest.mark.parametrize(
    ("fields", "jobs", "headline"),
    [
        pytest.param({}, [], "waits until all Jobs of leader are ready", id="not-ready"),
        pytest.param({}, [job(name, "Ready") for name in ALL], "runs", id="runs"),
        pytest.param({"suspend": True}, [], "is suspended", id="suspended"),
        pytest.param(
            {"restarts": 1}, [job("leader-0", "Failed")], "is restarted when 1 old Job and the pods are deleted",
            id="restarted",
        ),
        pytest.param({}, [job("leader-0", "Failed")], "has failed", id="failed"),
    ],
)  # fmt: skip
def test_explanation_follows_from_the_decision(fields: dict[str, Any], jobs: list[Job], headline: str) -> None:
    assert explain(jobset(**fields), jobs, NOW).headline == headline
