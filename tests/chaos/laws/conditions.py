"""How a Job ends, and what its conditions and times say meanwhile (job-controller §§2.5, 10, 11, 25)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta

from kcr.api.batch import COMPLETE, FAILED, Job, UncountedTerminatedPods, is_finished
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.durations import bounded_duration
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.lifecycle import FAILURE_TARGET, INTERIM, SUCCESS_CRITERIA_MET, SUSPENDED
from kcr.controllers.job.decisions.pod_template import restart_policy
from tests.chaos.authors import CONTROLLER, LATE
from tests.chaos.laws.history import JobStep, JobTrail, PodTrail, now, uids
from tests.chaos.laws.policies import (
    actions_on,
    completed,
    failed,
    failure_counts,
    known_completed,
    known_failed,
    success_policy_met,
)

KNOWN = (COMPLETE, FAILED, *INTERIM.values(), SUSPENDED)
STAYS = (COMPLETE, FAILED, *INTERIM.values())


def conditions_stay(step: JobStep) -> Iterator[str]:
    """What is true of the end stays, word for word; what another client has written stays as well."""
    old, new = step.old, step.new
    if old is None or new is None:
        return
    for before in old.status.conditions:
        after = find_condition(new.status.conditions, before.type)
        if before.type in STAYS and before.status == "True" and after != before:
            yield f"{before.type} was {before}, now {after}"
        if before.type not in KNOWN and step.author in (CONTROLLER, LATE) and after != before:
            yield f"{before.type} was written by another client, now {after}"
    if step.author in (CONTROLLER, LATE) and old.metadata.annotations != new.metadata.annotations:
        yield f"annotations were {old.metadata.annotations}, now {new.metadata.annotations}"
    if is_finished(old) and _told(old) != _told(new):
        yield "the status changed after the end"
    kinds = [condition.type for condition in new.status.conditions]
    if len(kinds) != len(set(kinds)):
        yield f"a condition is there twice: {kinds}"


def _told(job: Job) -> tuple[object, ...]:
    status = job.status
    known = [condition for condition in status.conditions if condition.type in KNOWN]
    lists = (status.uncounted_terminated_pods, status.completed_indexes, status.failed_indexes)
    counts = (status.active, status.ready, status.terminating, status.succeeded, status.failed)
    return known, lists, counts, status.start_time, status.completion_time


def end_has_nothing_open(step: JobStep) -> Iterator[str]:
    """The status that ends a Job has nothing active, terminating or uncounted."""
    if step.new is None or not is_finished(step.new):
        return
    status = step.new.status
    if status.active or status.terminating or status.uncounted_terminated_pods != UncountedTerminatedPods():
        yield f"ended: {status.active} active, {status.terminating} terminating, {status.uncounted_terminated_pods}"


def end_comes_last(step: JobStep) -> Iterator[str]:
    """The terminal condition says what the interim one said, when no pod is active, terminating or held."""
    job = step.new
    if job is None or not is_finished(job) or (step.old is not None and is_finished(step.old)):
        return
    for terminal, interim in INTERIM.items():
        end, before = (
            find_condition(job.status.conditions, terminal),
            step.old and find_condition(step.old.status.conditions, interim),
        )
        if end is not None and end.status == "True" and (not before or _words(end) != _words(before)):
            yield f"ended with {end}, after {before}"
    for pod in step.trail.present():
        if not pod.disturbed and (pod.is_active or pod.is_terminating or pod.is_tracked):
            yield f"ended before pod {pod.pod.metadata.name} {pod.pod.status.phase} did"


def _words(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def start_time_follows_suspension(step: JobStep) -> Iterator[str]:
    """The start time stays while the Job is not suspended, and is a new one when it is resumed."""
    old, new = step.old, step.new
    if old is None or new is None or is_finished(new):
        return
    was, suspended = (is_condition_true(job.status.conditions, SUSPENDED) for job in (old, new))
    before, after = old.status.start_time, new.status.start_time
    if was and not suspended and (after is None or now() - after > timedelta(seconds=30)):
        yield f"resumed, and started {after}"
    if not was and suspended and after is not None:
        yield f"suspended, and started {after}"
    if was == suspended and before is not None and after != before:
        yield f"started {before}, now {after}"


def numbers_only_grow(step: JobStep) -> Iterator[str]:
    """Failures never become fewer, and indexes stay where they are, unless the Job has fewer of them now."""
    old, new = step.old, step.new
    if old is None or new is None:
        return
    if new.status.failed < old.status.failed:
        yield f"{old.status.failed} had failed, now {new.status.failed}"
    if step.trail.shrunk or (new.spec.completions or 0) < (old.spec.completions or 0):
        return
    if new.status.succeeded < old.status.succeeded:
        yield f"{old.status.succeeded} had succeeded, now {new.status.succeeded}"
    for name, before, after in (("completed", completed(old), completed(new)), ("failed", failed(old), failed(new))):
        if (before | after) != after:
            yield f"the {name} indexes were {before}, now {after}"


def indexes_have_witnesses(step: JobStep) -> Iterator[str]:
    """An index has succeeded when one of its pods has, and failed when one has for the last time; never both."""
    job = step.new
    if job is None or job.spec.completion_mode != "Indexed":
        return
    if (completed(job) & failed(job)).intervals:
        yield f"indexes {completed(job) & failed(job)} have both succeeded and failed"
    # One that was told to go counts as failed, and may succeed after all.
    listed = step.trail.listed["failed"].keys() | step.fresh("failed")
    good = {
        pod.index for pod in step.trail.pods.values()
        if pod.ended and pod.ended.status.phase == "Succeeded" and (pod.uid not in listed or pod.disturbed)
    }  # fmt: skip
    bad = {pod.index for pod in step.trail.pods.values() if failure_counts(job, pod) or pod.uid in listed}
    for index in range(max(job.spec.completions or 0, step.trail.most("completions"))):
        if index in completed(job) and index not in good:
            yield f"index {index} is complete, and none of its pods has succeeded"
        if index in failed(job) and index not in bad:
            yield f"index {index} has failed, and none of its pods has"


def ending_has_a_reason(step: JobStep) -> Iterator[str]:
    """The reason that an interim condition gives holds."""
    job = step.new
    if job is None:
        return
    for kind in (FAILURE_TARGET, SUCCESS_CRITERIA_MET):
        found = find_condition(job.status.conditions, kind)
        is_new = found is not None and (step.old is None or not is_condition_true(step.old.status.conditions, kind))
        if found is not None and is_new and not _holds(found.reason, job, step.trail):
            yield f"{kind} for {found.reason}, which is not so"


def _holds(reason: str, job: Job, trail: JobTrail) -> bool:
    match reason:
        case "BackoffLimitExceeded":
            return _failed_too_often(job, trail)
        case "DeadlineExceeded":
            start = job.status.start_time
            return start is not None and now() - start >= timedelta(seconds=trail.least("active_deadline_seconds"))
        case "PodFailurePolicy":
            return any("FailJob" in actions_on(job, pod) for pod in trail.pods.values())
        case "MaxFailedIndexesExceeded":
            return len(known_failed(job, trail)) > trail.least("max_failed_indexes")
        case "FailedIndexes":
            if len(failed(job)) > trail.most("max_failed_indexes", len(failed(job))):
                # That would have been the reason, and sooner.
                return False
            return len(known_completed(job, trail) | known_failed(job, trail)) >= trail.least("completions")
        case "SuccessPolicy":
            return success_policy_met(job, known_completed(job, trail))
        case "PodsNeverStarted":
            limit = bounded_duration(job.metadata.annotations["kcr.dev/start-deadline"].split()[0])
            made = (pod.pod.metadata.creation_timestamp for pod in trail.pods.values())
            return any(moment is not None and now() - moment >= limit for moment in made)
        case "CompletionsReached":
            return _is_complete(job, trail)
        case _:
            return False


def _failed_too_often(job: Job, trail: JobTrail) -> bool:
    limit = trail.least("backoff_limit", 6)
    listed = trail.listed["failed"] | Counter(uids(job, "failed"))
    # Those that the controller itself has told to go before they ended do not make it give up. Those that another
    # client has may, in the moment before they turn out to have succeeded. Those that were taken away and adopted again
    # count again.
    waits = trail.always_replaces_only_failed
    bad = sum(
        max(listed[uid] + pod.disturbed, failure_counts(job, pod), pod.told_early and not waits)
        for uid, pod in trail.pods.items() if pod.told_to_go_by not in (CONTROLLER, LATE) or not pod.told_early
    )  # fmt: skip
    if bad > limit:
        return True
    return restart_policy(job) == "OnFailure" and restarts(trail.pods.values()) >= max(limit, 1)


def restarts(pods: Iterable[PodTrail]) -> int:
    """How often containers were restarted in place."""
    return sum(status.restart_count for pod in pods for status in pod.pod.status.container_statuses)


def _is_complete(job: Job, trail: JobTrail) -> bool:
    if any(pod.is_active and not pod.disturbed for pod in trail.present()):
        return False
    if job.spec.completion_mode == "Indexed":
        return len(known_completed(job, trail)) >= trail.least("completions")
    known = sum(trail.listed["succeeded"].values()) + sum(
        (pod.uid not in trail.listed["succeeded"] or pod.disturbed) and pod.ended.status.phase == "Succeeded"
        for pod in trail.pods.values() if pod.ended is not None
    )  # fmt: skip
    return known >= trail.least("completions", 1)
