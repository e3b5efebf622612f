"""What the policies of a Job say, worked out a second time and in another way."""

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.indexset import IndexSet
from kcr.controllers.job.decisions.pods import failures_before, ignored_failures_before, replaces_only_failed
from tests.chaos.laws.history import JobTrail, PodTrail

_ANY = 1_000_000


def action_on(job: Job, pod: Pod) -> str:
    """What the podFailurePolicy does about a pod that has failed; `Count` when no rule matches."""
    codes = [
        status.state.terminated.exit_code
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    conditions = {(condition.type, condition.status) for condition in pod.status.conditions}
    for rule in job.spec.pod_failure_policy.rules if job.spec.pod_failure_policy else ():
        if rule.on_exit_codes is not None:
            values, wants = set(rule.on_exit_codes.values), rule.on_exit_codes.operator == "In"
            if any((code in values) == wants for code in codes):
                return rule.action
        elif conditions & {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}:
            return rule.action
    return "Count"


def actions_on(job: Job, trail: PodTrail) -> set[str]:
    """What the policy does about a pod: more than one thing when the pod was marked only after it had failed."""
    return {action_on(job, pod) for pod in trail.finals if pod.status.phase == "Failed"}


def completed(job: Job) -> IndexSet:
    return IndexSet.parse(job.status.completed_indexes, _ANY)


def failed(job: Job) -> IndexSet:
    return IndexSet.parse(job.status.failed_indexes or "", _ANY)


def known_completed(job: Job, trail: JobTrail) -> IndexSet:
    """The indexes that have succeeded, those included that are not on record because the lists are full."""
    return completed(job) | IndexSet.of(
        pod.index for pod in trail.pods.values()
        if pod.ended is not None and pod.ended.status.phase == "Succeeded" and pod.index is not None
    )  # fmt: skip


def known_failed(job: Job, trail: JobTrail) -> IndexSet:
    """The indexes that have failed, those included that the condition of the end comes before."""
    return failed(job) | IndexSet.of(
        pod.index for pod in trail.pods.values()
        if pod.ended is not None and pod.index is not None and pod.is_tracked and failure_counts(job, pod)
    )  # fmt: skip


def has_index(job: Job, trail: PodTrail) -> bool:
    """Whether the pod's end is any of the Job's business."""
    if job.spec.completion_mode != "Indexed":
        return True
    return trail.index is not None and trail.index < (job.spec.completions or 0)


def failure_counts(job: Job, trail: PodTrail) -> bool:
    """Whether a pod has failed, and that counts."""
    if trail.ended is not None:
        return bool(actions_on(job, trail) - {"Ignore"})
    return trail.told_to_go_by is not None and not replaces_only_failed(job)


def failures_of(trail: JobTrail, index: int) -> tuple[int, int] | None:
    """How often an index has failed so far, and how often without counting; None when that cannot be told.

    What is let go uncounted, or taken away, takes what was known of the index with it.
    """
    mine = [pod for pod in trail.pods.values() if pod.index == index]
    actions = [actions_on(trail.job, pod) for pod in mine]
    if trail.shrunk or any(pod.disturbed or pod.spared or _changed_its_mind(pod) for pod in mine):
        return None
    if any(len(found) > 1 for found in actions):
        return None
    return sum(failure_counts(trail.job, pod) for pod in mine), actions.count({"Ignore"})


def _changed_its_mind(pod: PodTrail) -> bool:
    """Whether it was told to go, which may have counted as a failure, and has succeeded after that."""
    return pod.told_early and pod.ended is not None and pod.ended.status.phase == "Succeeded"


def said_of(pod: Pod) -> tuple[int, int]:
    return failures_before(pod), ignored_failures_before(pod)


def success_policy_met(job: Job, done: IndexSet) -> bool:
    """Whether enough indexes have succeeded by one of the rules."""
    for rule in job.spec.success_policy.rules if job.spec.success_policy else ():
        wanted = IndexSet.parse(rule.succeeded_indexes, _ANY) if rule.succeeded_indexes is not None else done
        have = len(wanted & done)
        enough = rule.succeeded_count if rule.succeeded_count is not None else len(wanted)
        if have >= enough and have > 0:
            return True
    return False
