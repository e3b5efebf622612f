from datetime import timedelta

import pytest

from kcr.api.batch import JobStatus, UncountedTerminatedPods
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.failures import Backoff
from kcr.controllers.job.decisions.plan import Hold, Outcome, ScaleDown, ScaleUp, Terminate
from kcr.controllers.job.decisions.pod_template import IndexedPod
from kcr.controllers.job.decisions.status import compute_status
from tests.kit.builders import NOW, ago, indexed, job, pod, snapshot, template


def test_new_job_starts_now_and_gets_its_pods() -> None:
    # Rows 1 and 5.
    plan = decide(snapshot(job(parallelism=5, completions=3, status=JobStatus())))
    assert plan.work == ScaleUp((IndexedPod(),) * 3)
    assert plan.started == NOW


def test_success_makes_room_for_the_next_pod() -> None:
    # Row 4.
    pods = (pod("a", "Succeeded", finished=ago(1)), pod("b"))
    assert decide(snapshot(job(parallelism=2, completions=4), *pods)).work == ScaleUp((IndexedPod(),))


def test_surplus_pods_go_before_any_is_created() -> None:
    # Row 10: two have succeeded, three run, two are wanted.
    pods = [pod(name, created=ago(age)) for name, age in (("a", 30), ("b", 10), ("c", 20))]
    plan = decide(snapshot(job(parallelism=3, completions=4, status=JobStatus(start_time=ago(9), succeeded=2)), *pods))
    assert plan.work == ScaleDown((pods[1],))


def test_work_queue_is_left_alone_after_its_first_success() -> None:
    # Rows 21 and 25.
    queue = job(parallelism=5, completions=None)
    assert decide(snapshot(queue, pod("a", "Succeeded", finished=ago(1)), pod("b"))).work == Hold()


def test_replacement_waits_for_the_backoff() -> None:
    # Row 27.
    plan = decide(snapshot(job(), pod("a", "Failed", finished=ago(4))))
    assert plan.work == Hold()
    assert plan.requeue_after == timedelta(seconds=6)
    assert plan.backoff == Backoff(1, ago(4), frozenset({"uid-a"}))


def test_terminating_pods_hold_their_place_under_policy_failed() -> None:
    # Row 112: nothing is created while four are going.
    going = [pod(f"t{n}", deleted=ago(1)) for n in range(4)]
    lenient, strict = (job(pod_replacement_policy=policy) for policy in ("TerminatingOrFailed", "Failed"))
    assert decide(snapshot(strict, *going)).work == Hold()
    assert decide(snapshot(lenient, *going)).requeue_after is not None


def test_nothing_is_managed_while_expectations_are_open() -> None:
    plan = decide(snapshot(job(parallelism=5, completions=5), expectations_met=False))
    assert plan.work == Hold()
    assert not plan.managed


def test_job_being_deleted_gets_no_pods() -> None:
    assert decide(snapshot(job(deleted=True))).work == Hold()


def test_suspended_job_loses_all_its_pods() -> None:
    # Row 59.
    pods = (pod("a"), pod("b"))
    plan = decide(snapshot(job(suspend=True, parallelism=2, completions=4), *pods))
    assert plan.work == ScaleDown(pods)


def test_job_fails_when_more_pods_failed_than_allowed() -> None:
    # Row 31; the pods that still run are deleted.
    pods = (pod("a", "Failed", finished=ago(1)), pod("b"))
    plan = decide(snapshot(job(backoff_limit=0, parallelism=2, completions=2), *pods))
    assert plan.ending is not None
    assert plan.ending.reason == "BackoffLimitExceeded"
    assert plan.ending.message == "Job has reached the specified backoff limit"
    assert plan.work == Terminate((pods[1],))


def test_restart_that_reaches_the_limit_ends_the_job() -> None:
    # Row 42: the fourth run has just begun.
    plan = decide(snapshot(job(backoff_limit=3, template=template("OnFailure")), pod(restarts=3)))
    assert plan.ending is not None
    assert plan.ending.reason == "BackoffLimitExceeded"


def test_deadline_ends_the_job_and_counts_down_before() -> None:
    # Rows 49 and 50.
    running = decide(snapshot(job(active_deadline_seconds=100), pod()))
    assert running.ending is None
    assert running.requeue_after == timedelta(seconds=40)
    over = decide(snapshot(job(active_deadline_seconds=60), pod()))
    assert over.ending is not None
    assert over.ending.message == "Job was active longer than specified deadline"


def test_backoff_limit_is_named_before_the_deadline() -> None:
    # Row 51.
    plan = decide(snapshot(job(active_deadline_seconds=1, backoff_limit=0), pod("a", "Failed", finished=ago(1))))
    assert plan.ending is not None
    assert plan.ending.reason == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("interim", "terminal"), [("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")]
)  # fmt: skip
def test_recorded_interim_condition_is_never_reconsidered(interim: str, terminal: str) -> None:
    # Rows 106, 120 and 121.
    condition = Condition(type=interim, status="True", reason="R", message="M")
    status = JobStatus(start_time=ago(5), conditions=(condition,))
    plan = decide(snapshot(job(backoff_limit=0, status=status), pod("a", "Failed", finished=ago(1))))
    assert plan.ending == (terminal, "R", "M")


def test_interim_condition_that_does_not_hold_is_ignored() -> None:
    # Row 141.
    condition = Condition(type="FailureTarget", status="False")
    assert decide(snapshot(job(status=JobStatus(conditions=(condition,))), pod())).ending is None


def test_listed_pods_count_once_whatever_the_store_shows() -> None:
    # job-controller §15.1, rows 139 and 140: between the first status write and the second.
    listed = UncountedTerminatedPods(succeeded=("uid-a",), failed=("uid-gone",))
    status = JobStatus(start_time=ago(5), succeeded=1, failed=2, uncounted_terminated_pods=listed)
    counts = decide(snapshot(job(status=status), pod("a", "Succeeded", finished=ago(1)))).counts
    assert (counts.succeeded, counts.failed) == (2, 3)
    assert counts.newly_succeeded == ()


def test_pod_that_fails_after_it_was_listed_as_succeeded_is_no_failure() -> None:
    # Source: kubernetes/kubernetes#125410, where both lists had it, and the server refused the status.
    listed = UncountedTerminatedPods(succeeded=("uid-a",))
    status = JobStatus(start_time=ago(5), uncounted_terminated_pods=listed)
    seen = snapshot(job(completions=2, backoff_limit=0, status=status), pod("a", "Failed", finished=ago(1)))
    plan = decide(seen)
    assert (plan.counts.succeeded, plan.counts.failed, plan.ending) == (1, 0, None)
    assert compute_status(seen, plan, Outcome()).status.uncounted_terminated_pods == listed


def test_pod_without_finalizer_is_not_counted_again() -> None:
    # The status has it already, or another client removed it.
    plan = decide(snapshot(job(), pod("a", "Succeeded", finished=ago(1)), untracked=frozenset({"uid-a"})))
    assert plan.counts.newly_succeeded == ()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("0-99999999999999999999,5", "5", id="end-out-of-range"),
        pytest.param("3,99999999999999999999,5", "3,5", id="start-out-of-range"),
        pytest.param("0-2-4,6", "0-2,6", id="two-dashes"),
        pytest.param("3-1,5", "3,5", id="end-before-start"),
        pytest.param(f"0-{'9' * 5000}", "", id="more-digits-than-python-reads"),
    ],
)
def test_indexes_that_are_not_understood_complete_no_job(written: str, read: str) -> None:
    # §19.3: an older server, or a restored backup, may have stored them.
    seen = snapshot(indexed(7, parallelism=7, status=JobStatus(completed_indexes=written, start_time=ago(5))))
    plan = decide(seen)
    assert plan.ending is None
    assert isinstance(plan.work, ScaleUp)
    update = compute_status(seen, plan, Outcome(created=len(plan.work.members)))
    assert update.ending is None
    assert (update.status.completed_indexes, len(plan.work.members) + update.status.succeeded) == (read, 7)
