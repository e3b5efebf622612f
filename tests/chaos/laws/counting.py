"""Every pod that has ended is counted exactly once, and keeps its finalizer until then (job-controller §15)."""

from collections.abc import Callable, Iterator

from kcr.api.batch import COMPLETE, Job, is_finished
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import Pod
from kcr.api.pods import is_terminal
from kcr.controllers.job.decisions.lifecycle import (
    COMPLETIONS_REACHED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    is_being_deleted,
)
from kcr.controllers.job.decisions.pod_template import restart_policy
from kcr.controllers.job.decisions.pods import is_tracked
from tests.chaos.authors import CONTROLLER, LATE
from tests.chaos.laws.conditions import restarts
from tests.chaos.laws.history import JobStep, JobTrail, PodStep, PodTrail, fits, owner_of, uids
from tests.chaos.laws.policies import action_on, actions_on, completed, failed, has_index

KINDS = ("succeeded", "failed")


def counts_add_up(step: JobStep) -> Iterator[str]:
    """Counters and lists together are what was ever listed; the successes of Indexed Jobs are their indexes."""
    job = step.new
    if job is None:
        return
    for kind in KINDS:
        counted, listed = getattr(job.status, kind), uids(job, kind)
        ever = sum(step.trail.listed[kind].values()) + len(step.fresh(kind))
        if kind == "succeeded" and job.spec.completion_mode == "Indexed":
            if counted != len(completed(job)) or listed:
                yield f"{counted} have succeeded, {listed} listed, of the indexes {job.status.completed_indexes}"
        elif counted + len(listed) != ever:
            yield f"{kind}: {counted} counted and {len(listed)} listed, but {ever} were ever listed"


def lists_name_pods_once(step: JobStep) -> Iterator[str]:
    """A pod is entered once, in the list it belongs in; and leaves it when its finalizer has gone."""
    for kind in KINDS:
        for uid in step.fresh(kind):
            pod = step.trail.pods.get(uid)
            if pod is None:
                yield f"{kind}: {uid} was never its pod"
                continue
            if not pod.moved and any(uid in ever for ever in step.trail.listed.values()):
                yield f"{kind}: pod {pod.pod.metadata.name} is listed again"
            yield from _belongs(step, pod, kind)
        for uid in set(uids(step.old, kind)) - set(uids(step.new, kind)) if step.new is not None else ():
            pod = step.trail.pods.get(uid)
            if pod is not None and not pod.moved and pod.is_tracked:
                yield f"{kind}: pod {pod.pod.metadata.name} is counted and keeps its finalizer"


def _belongs(step: JobStep, pod: PodTrail, kind: str) -> Iterator[str]:
    job, name = step.new, pod.pod.metadata.name
    assert job is not None  # a Job that is gone lists nothing
    phase = pod.ended.status.phase if pod.ended is not None else ""
    fails = is_condition_true(job.status.conditions, FAILURE_TARGET)
    if kind == "succeeded" and phase != "Succeeded":
        yield f"pod {name} {phase} is listed as succeeded"
    if kind == "succeeded" or fails:
        return
    if phase != "Failed" and (pod.told_to_go_by is None or step.trail.always_replaces_only_failed):
        yield f"pod {name} {phase} is listed as failed"
    if pod.spared and not pod.disturbed:
        yield f"pod {name} was let go and is listed as failed"
    yield from _policy_is_honoured(job, pod)


def _policy_is_honoured(job: Job, pod: PodTrail) -> Iterator[str]:
    actions, name = actions_on(job, pod), pod.pod.metadata.name
    if actions == {"Ignore"}:
        yield f"pod {name} is listed as failed, and its failure is to be ignored"
    if is_condition_true(job.status.conditions, SUCCESS_CRITERIA_MET) or is_being_deleted(job):
        return
    if actions == {"FailJob"}:
        yield f"pod {name} is listed, and the Job does not fail for it"
    over = completed(job) | failed(job)
    if actions == {"FailIndex"} and has_index(job, pod) and pod.index is not None and pod.index not in over:
        yield f"pod {name} is listed, and its index does not fail for it"


def lists_stay_short(limit: int) -> Callable[[JobStep], Iterator[str]]:
    """The law of the cap: no write lists more than so many pods, unless it found them listed."""

    def lists_stay_within_the_cap(step: JobStep) -> Iterator[str]:
        listed = sum(len(uids(step.new, kind)) for kind in KINDS)
        if any(step.fresh(kind) for kind in KINDS) and listed > limit:
            yield f"{listed} pods are listed, of at most {limit}"

    return lists_stay_within_the_cap


def finalizers_go_after_the_count(step: PodStep) -> Iterator[str]:
    """A pod that the controller lets go is on record, or need not be."""
    old, new, trail = step.old, step.new, step.job
    if old is None or not is_tracked(old) or (new is not None and is_tracked(new)):
        return
    if step.author not in (CONTROLLER, LATE) or trail is None or not trail.here:
        return
    # One that is told to go vanishes with its last finalizer, whatever else is taken from it.
    released = new is None or owner_of(new) != owner_of(old)
    if not fits(trail.job, old) or (released and step.trail.moved):
        # The selector did not fit a moment ago, at least.
        return
    if is_finished(trail.job):
        # All that were its own have been let go by then; this one came later.
        if not step.trail.disturbed:
            yield "was not let go before its Job ended"
    elif not _may_go(trail, step.trail, old):
        yield "loses its finalizer and is not on record"


def _may_go(trail: JobTrail, pod: PodTrail, state: Pod) -> bool:
    job = trail.job
    if any(pod.uid in ever for ever in trail.listed.values()) or not _was_its_business(trail, pod):
        return True
    ends_well = is_condition_true(job.status.conditions, SUCCESS_CRITERIA_MET) or is_being_deleted(job)
    if ends_well and pod.told_to_go_by is not None:
        # It was not needed any more; the Job does not depend on how it ends.
        return True
    if not is_terminal(state):
        # Too many; whether it had to be this one is for other laws to say. Another client may delete it in the moment
        # in which the controller removes it. Of a Job that fails it need not be listed if its failure is ignored.
        is_ignored = is_condition_true(job.status.conditions, FAILURE_TARGET) and action_on(job, state) == "Ignore"
        return ends_well or is_ignored or state.metadata.deletion_timestamp is None or trail.ever_wanted_fewer
    if state.status.phase == "Failed":
        return "Ignore" in actions_on(job, pod)
    if job.spec.completion_mode != "Indexed" or pod.index is None:
        return False
    return pod.index in completed(job) or pod.index in failed(job)


def _was_its_business(trail: JobTrail, pod: PodTrail) -> bool:
    """Whether its index was one of the Job's all the time."""
    if trail.job.spec.completion_mode != "Indexed":
        return True
    return pod.index is not None and pod.index < trail.least("completions")


def _restarted_too_often(trail: JobTrail) -> bool:
    """Whether the Job was about to fail for the restarts of its containers.

    While a deletion is not seen yet that is not put on record, and with the end of the pod it is no longer so; but its
    pods were told to go. Upstream does the same.
    """
    limit = trail.least("backoff_limit", default=6)
    return restart_policy(trail.job) == "OnFailure" and restarts(trail.pods.values()) >= max(limit, 1)


def nothing_is_left(trail: JobTrail) -> Iterator[str]:
    """At the end of all things: nothing outlives its Job, and what was one too many has not failed it."""
    if not is_finished(trail.job):
        return
    for pod in trail.present():
        if pod.is_active and not pod.disturbed:
            yield f"pod {pod.pod.metadata.name} outlives its Job"
    complete = find_condition(trail.job.status.conditions, COMPLETE)
    limits = {(spec.backoff_limit, spec.active_deadline_seconds) for spec in trail.specs}
    if complete is None or complete.reason != COMPLETIONS_REACHED or len(limits) > 1 or _restarted_too_often(trail):
        return
    for uid in trail.listed["failed"]:
        found = trail.pods.get(uid)
        # A pod of another client that is adopted while the Job ends counts as it ends if the reply to its deletion is
        # lost: it may as well have been refused.
        if found is not None and found.told_to_go_by == CONTROLLER and found.told_early and not found.disturbed:
            yield f"pod {found.pod.metadata.name} was one too many, and counts as failed"
