"""The decision about a Job: returns a plan for a snapshot."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from kcr.api.batch import COMPLETE, FAILED, UncountedTerminatedPods
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.meta import whole_seconds
from kcr.api.pods import is_active, is_terminating
from kcr.controllers.job.decisions import failures, indexed, lifecycle, unstarted
from kcr.controllers.job.decisions.failures import FAIL_JOB, match_rule
from kcr.controllers.job.decisions.lifecycle import INTERIM, is_being_deleted
from kcr.controllers.job.decisions.plan import (
    Ending,
    Hold,
    Plan,
    PodCounts,
    ScaleDown,
    ScaleUp,
    Snapshot,
    Terminate,
    Work,
)
from kcr.controllers.job.decisions.pod_template import IndexedPod, restart_policy
from kcr.controllers.job.decisions.pods import replaces_only_failed
from kcr.controllers.job.decisions.status import newly_ended, tracked_uids

Rule = Callable[[Snapshot, PodCounts], Ending | None]

_NOW = timedelta()


def decide(seen: Snapshot) -> Plan:
    """Return the plan for a Job that has not ended.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob.
    """
    # One snapshot and one moment: all rules below judge the same pods by the same clock, so no two of them can
    # contradict each other.
    counts = count_pods(seen)
    # From here on the Job has started, though no write says so yet: its deadline counts from this reconcile.
    seen = _started(seen)
    record = failures.advanced(seen.backoff, counts.newly_succeeded, counts.newly_failed)
    ending = next((found for rule in ENDINGS if (found := rule(seen, counts)) is not None), None)
    # While a create has no answer or a deletion is unseen, the number of pods is unknown, and one more create could
    # make a surplus pod. All the rest continues: pods are counted, and Jobs end.
    managed = ending is None and seen.expectations_met and not is_being_deleted(seen.job)
    # A Job that ends keeps no active pod. Finished pods stay: their finalizers hold them until they are counted.
    end = Terminate(counts.active) if ending is not None and counts.active else Hold()
    work, wait = _manage(seen, counts, record) if managed else (end, None)
    # A Job that waits for a backoff must not miss its deadline, nor the reverse; an end makes both void.
    left = None if ending is not None else lifecycle.time_to_deadline(seen.job, seen.now)
    start = None if ending is not None else unstarted.time_left(seen, counts.active)
    waits = [moment for moment in (wait, left, start) if moment is not None]
    return Plan(
        work=work,
        counts=counts,
        ending=ending,
        managed=managed,
        delayed=wait is not None,
        started=seen.job.status.start_time,
        backoff=record,
        requeue_after=min(waits, default=None),
    )


def count_pods(seen: Snapshot) -> PodCounts:
    """Sort the pods and add up the totals, the pods listed and not yet counted included.

    Source: kubernetes/pkg/controller/job/job_controller.go, getStatus.
    """
    status = seen.job.status
    # Invariant: a pod is in exactly one of the three summands below: counted in the status, listed there, or newly
    # ended.
    tracked = tracked_uids(seen.pods, seen.untracked)
    succeeded, failed = newly_ended(seen.job, seen.pods, tracked)
    listed = status.uncounted_terminated_pods or UncountedTerminatedPods()
    indexes = indexed.sort(seen.job, seen.pods, tracked)
    # An Indexed Job does not use this number: an index counts once, however many of its pods succeeded.
    counted = status.succeeded + len(listed.succeeded) + len(succeeded)
    return PodCounts(
        tracked=tracked,
        active=tuple(pod for pod in seen.pods if is_active(pod)),
        terminating=sum(map(is_terminating, seen.pods)),
        newly_succeeded=succeeded,
        newly_failed=failed,
        succeeded=counted if indexes is None else len(indexes.succeeded),
        # A rule of the podFailurePolicy may ignore a failure. Listed pods passed the rules when they were listed.
        failed=status.failed + len(listed.failed) + sum(match_rule(seen.job, pod).counts for pod in failed),
        indexes=indexes,
    )


def already_succeeding(seen: Snapshot, _: PodCounts) -> Ending | None:
    """An interim success stands; nothing turns it into a failure."""
    return _recorded(seen, COMPLETE)


def already_failing(seen: Snapshot, _: PodCounts) -> Ending | None:
    """An interim failure stands, with the reason it was recorded with."""
    return _recorded(seen, FAILED)


def failed_by_policy(seen: Snapshot, _: PodCounts) -> Ending | None:
    """A pod has failed in a way that no other one would mend."""
    if seen.job.spec.pod_failure_policy is None:
        return None
    found = (match_rule(seen.job, pod) for pod in seen.pods if pod.status.phase == "Failed")
    fatal = next((judgement for judgement in found if judgement.action == FAIL_JOB), None)
    return Ending(FAILED, "PodFailurePolicy", fatal.message) if fatal is not None else None


def past_backoff_limit(seen: Snapshot, counts: PodCounts) -> Ending | None:
    """Too many pods have failed, or too many containers were restarted."""
    job = seen.job
    if not failures.limit_exceeded(job, counts.failed) and not failures.restarts_exceeded(
        job, seen.pods, restart_policy(job)
    ):
        return None
    return Ending(FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")


def past_deadline(seen: Snapshot, _: PodCounts) -> Ending | None:
    """The Job has been active for too long."""
    left = lifecycle.time_to_deadline(seen.job, seen.now)
    if left is None or left > _NOW:
        return None
    return Ending(FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")


def too_many_failed_indexes(seen: Snapshot, counts: PodCounts) -> Ending | None:
    """More indexes have failed permanently than the Job allows."""
    failed, most = counts.indexes.failed if counts.indexes is not None else None, seen.job.spec.max_failed_indexes
    if failed is None or most is None or len(failed) <= most:
        return None
    message = "Job has exceeded the specified maximal number of failed indexes"
    return Ending(FAILED, "MaxFailedIndexesExceeded", message)


def all_indexes_done(seen: Snapshot, counts: PodCounts) -> Ending | None:
    """Every index has ended, and not all of them well."""
    indexes = counts.indexes
    if indexes is None or not indexes.failed or len(indexes.over) < (seen.job.spec.completions or 0):
        return None
    return Ending(FAILED, "FailedIndexes", "Job has failed indexes")


def met_success_policy(seen: Snapshot, counts: PodCounts) -> Ending | None:
    """Enough indexes have succeeded, or those that matter."""
    rule = lifecycle.met_rule(seen.job, counts.indexes.succeeded) if counts.indexes is not None else None
    return Ending(COMPLETE, "SuccessPolicy", f"Matched rules at index {rule}") if rule is not None else None


# A Job may satisfy several rules at once. The first to hold names the end, so order is contract.
ENDINGS: tuple[Rule, ...] = (
    already_succeeding, already_failing, failed_by_policy, past_backoff_limit,
    past_deadline, too_many_failed_indexes, all_indexes_done, met_success_policy, unstarted.never_started,
)  # fmt: skip


def _recorded(seen: Snapshot, terminal: str) -> Ending | None:
    condition = find_condition(seen.job.status.conditions, INTERIM[terminal])
    if condition is None or condition.status != "True":
        return None
    return Ending(terminal, condition.reason, condition.message)


def _started(seen: Snapshot) -> Snapshot:
    """A Job starts with the first reconcile that finds it not suspended."""
    status = seen.job.status
    if status.start_time is not None or seen.job.spec.suspend:
        return seen
    # One that was suspended meanwhile has a condition, and starts anew.
    earlier = None if status.conditions else seen.started
    status = replace(status, start_time=earlier or whole_seconds(seen.now))
    return replace(seen, job=replace(seen.job, status=status))


def _manage(seen: Snapshot, counts: PodCounts, record: failures.Backoff) -> tuple[Work, timedelta | None]:
    """Return how the number of pods is put right, and how long that has to wait."""
    job = seen.job
    # Suspension deletes active pods only. Finished ones keep their finalizers, and are counted as ever.
    if job.spec.suspend:
        return (ScaleDown(counts.active) if counts.active else Hold()), None
    active = len(counts.active)
    wanted = lifecycle.wanted_active(job, active, counts.succeeded)
    # One kind of work in a round: until deletions are observed the number of pods is unknown, and a create beside them
    # could be one too many.
    if too_many := _surplus(seen, counts, active - wanted):
        return ScaleDown(too_many), None
    # Under the policy Failed a terminating pod still holds its place.
    missing = wanted - active - (counts.terminating if replaces_only_failed(job) else 0)
    return _missing(seen, counts, record, missing) if missing > 0 else (Hold(), None)


def _surplus(seen: Snapshot, counts: PodCounts, at_least: int) -> tuple[Pod, ...]:
    most = seen.limits.max_changes
    if counts.indexes is not None:
        # Also when there are not too many: of two pods of one index one is deleted.
        return indexed.surplus(seen.job, counts.active, at_least)[:most]
    return lifecycle.surplus(counts.active, min(at_least, most))


def _missing(seen: Snapshot, counts: PodCounts, record: failures.Backoff, count: int) -> tuple[Work, timedelta | None]:
    """Return the creation of so many pods, or how long it has to wait: the Job as a whole, or each index for itself."""
    job, limits = seen.job, seen.limits
    base, most = limits.backoff_base_seconds, limits.backoff_max_seconds
    time_left = partial(failures.time_left, now=seen.now, base_seconds=base, max_seconds=most)
    # With limits per index each index backs off by itself, so that one that fails does not delay the others: `members`
    # leaves out those that must wait.
    if job.spec.backoff_limit_per_index is None and (wait := time_left(record)) > _NOW:
        return Hold(), wait
    count = min(count, limits.max_changes)
    if counts.indexes is None:
        return ScaleUp((IndexedPod(),) * count), None
    # An index is taken while its pod is active, and under the policy Failed until that pod is finished.
    terminating = filter(is_terminating, seen.pods) if replaces_only_failed(job) else ()
    members, left = indexed.members(job, counts.indexes, (*counts.active, *terminating), count, time_left)
    return (ScaleUp(members) if members else Hold()), left
