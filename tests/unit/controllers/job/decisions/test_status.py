from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import COMPLETION_INDEX, JobStatus, UncountedTerminatedPods
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.plan import Limits, Outcome, Snapshot, StatusUpdate
from kcr.controllers.job.decisions.status import compute_status, finalize_status, interim_status, is_start
from tests.kit.builders import NOW, ago, indexed, job, pod, snapshot


def settled(seen: Snapshot, **outcome: object) -> StatusUpdate:
    return compute_status(seen, decide(seen), Outcome(**outcome))  # type: ignore[arg-type]  # fields by name


def types(status: JobStatus) -> list[tuple[str, str]]:
    return [(condition.type, condition.reason) for condition in status.conditions]


def test_first_status_says_that_somebody_has_looked() -> None:
    # Row 1.
    status = settled(snapshot(job(status=JobStatus())), created=1).status
    assert status == JobStatus(
        active=1, ready=0, terminating=0, start_time=NOW, uncounted_terminated_pods=UncountedTerminatedPods()
    )


@pytest.mark.parametrize(
    ("before", "change", "only_starts"),
    [
        pytest.param({}, {}, True, id="first"),
        pytest.param({}, {"ready": 2}, True, id="ready"),
        pytest.param({}, {"failed": 1}, False, id="failed"),
        pytest.param({}, {"conditions": (Condition(type="Suspended", status="False"),)}, False, id="condition"),
        pytest.param({}, {"uncounted_terminated_pods": UncountedTerminatedPods(failed=("a",))}, False, id="listed"),
        pytest.param({"start_time": NOW}, {}, False, id="not-the-first"),
    ],
)
def test_status_that_says_only_that_the_job_has_started_is_known(
    before: dict[str, Any], change: dict[str, Any], only_starts: bool
) -> None:
    first = settled(snapshot(job(status=JobStatus())), created=2).status
    assert is_start(JobStatus(**before), replace(first, **change)) is only_starts


def test_start_is_that_of_the_pass_that_put_it_off() -> None:
    seen = snapshot(job(status=JobStatus()), started=ago(1))
    assert settled(seen, created=1).status.start_time == ago(1)


def test_job_that_was_suspended_since_starts_anew() -> None:
    resumed = JobStatus(conditions=(Condition(type="Suspended", status="False"),))
    assert settled(snapshot(job(status=resumed), started=ago(1)), created=1).status.start_time == NOW


def test_ended_pods_are_listed_before_they_are_let_go() -> None:
    # job-controller §15, steps 5 to 9.
    pods = (pod("a", "Succeeded", finished=ago(1)), pod("b", "Failed", finished=ago(1)), pod("c"))
    update = settled(snapshot(job(parallelism=3, completions=9), *pods))
    assert update.status.uncounted_terminated_pods == UncountedTerminatedPods(succeeded=("uid-a",), failed=("uid-b",))
    assert (update.status.succeeded, update.status.failed) == (0, 0)
    assert update.untrack == pods[:2]


@pytest.mark.parametrize(("limit", "released"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_indexes_are_recorded_at_once_though_their_pods_are_let_go_in_turn(limit: int, released: int) -> None:
    # §34.19: what bounds the lists of UIDs does not keep `succeeded` behind.
    pods = tuple(pod(f"pi-{index}", "Succeeded", index=index, finished=ago(1)) for index in range(3))
    update = settled(snapshot(indexed(5, parallelism=3), *pods, limits=Limits(max_uncounted=limit)))
    assert (update.status.completed_indexes, update.status.succeeded) == ("0-2", 3)
    assert update.untrack == pods[:released]
    assert update.capped is (released < 3)
    assert update.requeue is update.capped


def test_all_pods_of_recorded_indexes_are_let_go_in_turn() -> None:
    pods = tuple(pod(f"pi-{index}", "Succeeded", index=index, finished=ago(1)) for index in range(5))
    one, seen, passes = indexed(9, parallelism=5), pods, 0
    while seen:
        update = settled(snapshot(one, *seen, limits=Limits(max_uncounted=2)))
        one, passes = replace(one, status=update.status), passes + 1
        seen = tuple(pod for pod in seen if pod not in update.untrack)
        assert update.capped is bool(seen)
        assert (update.status.completed_indexes, update.status.succeeded) == ("0-4", 5)
    assert passes == 3


def test_listed_pods_are_counted_when_they_were_let_go() -> None:
    # job-controller §15, step 12.
    one = job(parallelism=3, completions=9)
    pods = (pod("a", "Succeeded", finished=ago(1)), pod("b", "Failed", finished=ago(1)))
    update = settled(snapshot(one, *pods))
    recorded = replace(one, status=update.status)
    half = finalize_status(update, recorded, frozenset({"uid-a"}), NOW)
    assert (half.succeeded, half.failed) == (1, 0)
    assert half.uncounted_terminated_pods == UncountedTerminatedPods(failed=("uid-b",))
    whole = finalize_status(update, recorded, frozenset({"uid-a", "uid-b"}), NOW)
    assert (whole.succeeded, whole.failed) == (1, 1)
    assert whole.uncounted_terminated_pods == UncountedTerminatedPods()


def test_success_is_recorded_in_two_steps() -> None:
    # Row 3 and §11.3, §11.4.
    one = job()
    update = settled(snapshot(one, pod("a", "Succeeded", finished=ago(1))))
    assert types(update.status) == [("SuccessCriteriaMet", "CompletionsReached")]
    final = finalize_status(update, replace(one, status=update.status), frozenset({"uid-a"}), NOW)
    assert types(final) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
    assert (final.succeeded, final.active, final.ready, final.terminating) == (1, 0, 0, 0)
    assert final.completion_time == NOW
    assert final.conditions[1].message == "Reached expected number of succeeded pods"


def test_terminal_condition_waits_for_pods_that_are_going() -> None:
    # Rows 35 and 42: the deleted pod counts as failed at once, Failed comes when it is gone.
    one = job(backoff_limit=0)
    failed, running = pod("a", "Failed", finished=ago(1)), pod("b")
    update = settled(snapshot(one, failed, running), deleted=(running,))
    assert (update.status.active, update.status.terminating) == (0, 1)
    final = finalize_status(update, replace(one, status=update.status), frozenset({"uid-a", "uid-b"}), NOW)
    assert types(final) == [("FailureTarget", "BackoffLimitExceeded")]
    assert final.failed == 2


def test_terminal_condition_waits_for_finalizers_that_would_not_go() -> None:
    # §15, step 13: the success of an index is on record at once, and in no list that would tell of its pod.
    one = job(completion_mode="Indexed")
    done = pod("a", "Succeeded", finished=ago(1))
    done = replace(done, metadata=replace(done.metadata, annotations={COMPLETION_INDEX: "0"}))
    update = settled(snapshot(one, done))
    final = finalize_status(update, replace(one, status=update.status), frozenset(), NOW)
    assert types(final) == [("SuccessCriteriaMet", "CompletionsReached")]
    assert final.succeeded == 1


def test_failed_job_has_no_completion_time() -> None:
    one = job(backoff_limit=0)
    update = settled(snapshot(one, pod("a", "Failed", finished=ago(1))))
    final = finalize_status(update, replace(one, status=update.status), frozenset({"uid-a"}), NOW)
    assert types(final) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert final.completion_time is None


def test_end_is_not_recorded_before_every_pod_is_known() -> None:
    # §10 step 14, row 40.
    failed, running = pod("a", "Failed", finished=ago(1)), pod("b")
    seen = snapshot(job(backoff_limit=0), failed, running, expectations_met=False)
    assert interim_status(seen, decide(seen)) is None
    update = settled(seen, deleted=(running,))
    assert update.ending is None
    assert types(update.status) == []
    assert update.untrack == (failed,)


def test_pod_that_could_not_be_deleted_is_active_and_not_counted() -> None:
    failed, kept, gone = pod("a", "Failed", finished=ago(1)), pod("b", ready_since=ago(5)), pod("c", ready_since=ago(5))
    one = job(backoff_limit=0, parallelism=3, completions=3)
    seen = snapshot(one, failed, kept, gone)
    interim = interim_status(seen, decide(seen))
    assert interim is not None
    assert types(interim) == [("FailureTarget", "BackoffLimitExceeded")]
    assert (interim.active, interim.ready, interim.terminating) == (2, 2, 0)
    update = settled(seen, deleted=(gone,))
    assert types(update.status) == types(interim)
    assert (update.status.active, update.status.ready, update.status.terminating) == (1, 1, 1)
    assert update.status.uncounted_terminated_pods == UncountedTerminatedPods(failed=("uid-a", "uid-c"))
    assert update.untrack == (failed, gone)
    # Once the other pod is gone nothing holds the terminal condition back but the one that runs.
    status = replace(update.status, terminating=0, uncounted_terminated_pods=UncountedTerminatedPods())
    final = finalize_status(update, replace(one, status=status), frozenset({"uid-a", "uid-c"}), NOW)
    assert types(final) == types(interim)


def test_interim_write_has_the_reason_and_nothing_of_it_is_taken_back() -> None:
    # Found by the laws: the failed index is on record with the end, and a full list keeps what it had.
    running, *ended = pod("b", index=0), *(pod(f"a{n}", "Failed", index=n, finished=ago(1)) for n in (1, 2))
    one = indexed(4, parallelism=3, backoff_limit_per_index=0, max_failed_indexes=1, backoff_limit=2**31 - 1)
    seen = snapshot(one, running, *ended, limits=Limits(max_uncounted=2))
    interim = interim_status(seen, decide(seen))
    assert interim is not None
    assert types(interim) == [("FailureTarget", "MaxFailedIndexesExceeded")]
    assert interim.failed_indexes == "1,2"
    assert interim.uncounted_terminated_pods == UncountedTerminatedPods(failed=("uid-a1", "uid-a2"))
    assert settled(seen, deleted=(running,)).status.uncounted_terminated_pods == interim.uncounted_terminated_pods


@pytest.mark.parametrize("work", ["holds", "is-ending"])
def test_no_interim_write_where_nothing_is_deleted_or_the_end_is_on_record(work: str) -> None:
    interim = Condition(type="FailureTarget", status="True", reason="R", message="M")
    status = JobStatus(start_time=ago(5), conditions=(interim,) if work == "is-ending" else ())
    pods = (pod("a", "Failed", finished=ago(1)), *((pod("b"),) if work == "is-ending" else ()))
    seen = snapshot(job(backoff_limit=0, status=status), *pods)
    assert interim_status(seen, decide(seen)) is None


FAILING = Condition(type="FailureTarget", status="True", reason="R", message="M")
SUSPENDED = Condition(type="Suspended", status="True", reason="JobSuspended", message="Job suspended")
RESTED = JobStatus(ready=0, terminating=1, uncounted_terminated_pods=UncountedTerminatedPods(), conditions=(SUSPENDED,))


@pytest.mark.parametrize(
    ("deleted", "conditions"), [(True, (SUSPENDED,)), (False, (SUSPENDED, FAILING))], ids=["deleted", "failing"]
)
def test_start_is_not_written_alone(deleted: bool, conditions: tuple[Condition, ...]) -> None:
    # §10 step 11: the start time of a Job that is resumed when it starts no pod any more.
    one = job(deleted=deleted, completions=5, status=replace(RESTED, conditions=conditions))
    ending = pod("a", deleted=ago(1), tracked=False)
    assert settled(snapshot(one, ending)).status == one.status
    # It comes with the next change, at the latest with the end, which requires it.
    assert settled(snapshot(one)).status == replace(one.status, terminating=0, start_time=NOW)


def test_running_pods_of_a_complete_job_are_let_go_uncounted() -> None:
    interim = Condition(type="SuccessCriteriaMet", status="True", reason="R", message="M")
    status = JobStatus(start_time=ago(5), succeeded=1, conditions=(interim,))
    running = pod("b")
    update = settled(snapshot(job(status=status), running), deleted=(running,))
    assert update.untrack == (running,)
    assert update.require_version == set()
    assert update.status.uncounted_terminated_pods == UncountedTerminatedPods()


def test_job_being_deleted_lets_all_its_pods_go() -> None:
    # §28: ended ones counted, running ones not.
    pods = (pod("a", "Succeeded", finished=ago(1)), pod("b"))
    update = settled(snapshot(job(deleted=True, completions=5), *pods))
    assert update.untrack == pods
    assert update.status.uncounted_terminated_pods == UncountedTerminatedPods(succeeded=("uid-a",))
    # One that has ended unseen keeps its finalizer, and is counted when it is seen.
    assert update.require_version == {"uid-b"}


def test_no_more_pods_are_listed_than_the_cap_allows() -> None:
    # Row 138.
    pods = [pod(f"p{n}", "Succeeded", finished=ago(1)) for n in range(5)]
    one = job(parallelism=5, completions=5)
    update = settled(snapshot(one, *pods, limits=Limits(max_uncounted=3)))
    assert update.capped
    assert update.requeue
    assert len(update.untrack) == 3
    gone = frozenset(pod.metadata.uid for pod in update.untrack)
    assert "Complete" not in dict(types(finalize_status(update, replace(one, status=update.status), gone, NOW)))


def test_full_lists_let_their_own_pods_go() -> None:
    # A crash after the status was written: nothing but these pods' finalizers can empty the lists.
    listed = UncountedTerminatedPods(succeeded=("uid-b",))
    status = JobStatus(start_time=ago(5), uncounted_terminated_pods=listed)
    pods = (pod("a", "Succeeded", finished=ago(1)), pod("b", "Succeeded", finished=ago(1)), pod("c"))
    update = settled(snapshot(job(completions=9, status=status), *pods, limits=Limits(max_uncounted=1)))
    assert update.untrack == pods[1:2]
    assert update.capped


def test_job_never_completes_before_it_started() -> None:
    # The clock was put back, or another's clock started it.
    one = job(status=JobStatus(start_time=ago(-30)))
    update = settled(snapshot(one, pod("a", "Succeeded", finished=ago(1))))
    final = finalize_status(update, replace(one, status=update.status), frozenset({"uid-a"}), NOW)
    assert final.completion_time == final.start_time == ago(-30)


@pytest.mark.parametrize(("completions", "start"), [pytest.param(1, NOW, id="some"), pytest.param(0, None, id="none")])
def test_suspended_job_that_ends_has_started_unless_it_never_had_to(completions: int, start: object) -> None:
    # Row 8; and a pod that was told to go before the suspension, and succeeded after it.
    one = job(suspend=True, completions=completions, pod_replacement_policy="Failed", status=JobStatus())
    pods = (pod("a", "Succeeded", finished=ago(1), deleted=ago(3)),) * completions
    update = settled(snapshot(one, *pods))
    final = finalize_status(update, replace(one, status=update.status), frozenset({"uid-a"}), NOW)
    assert types(final)[-1] == ("Complete", "CompletionsReached")
    assert final.start_time == start


def test_listed_pod_keeps_its_place_whatever_it_does_later() -> None:
    # Row 140: listed as failed, then seen to have succeeded.
    listed = UncountedTerminatedPods(failed=("uid-a",))
    status = JobStatus(start_time=ago(5), uncounted_terminated_pods=listed)
    update = settled(snapshot(job(completions=3, status=status), pod("a", "Succeeded", finished=ago(1))))
    assert update.status.uncounted_terminated_pods == listed


def test_pods_gone_without_a_trace_are_counted_from_the_list() -> None:
    # Row 139.
    listed = UncountedTerminatedPods(succeeded=("x", "y"), failed=("z",))
    status = JobStatus(start_time=ago(5), uncounted_terminated_pods=listed)
    update = settled(snapshot(job(completions=9, status=status)))
    assert (update.status.succeeded, update.status.failed) == (2, 1)
    assert update.status.uncounted_terminated_pods == UncountedTerminatedPods()


def test_suspension_is_told_with_the_status() -> None:
    running = pod("a")
    update = settled(snapshot(job(suspend=True), running), deleted=(running,))
    assert update.announcements == (("Suspended", "Job suspended"),)
    assert update.status.start_time is None
    assert update.status.active == 0
