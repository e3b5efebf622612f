"""The effects of failures: `spec.podFailurePolicy`, `spec.backoffLimit`, and the backoff before a retry."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.batch import Job, OnExitCodes, PodFailurePolicyRule
from kcr.api.core import ContainerStatus, Pod
from kcr.controllers.job.decisions.pods import finish_time, index_unsettled

DEFAULT_LIMIT = 6


class Backoff(NamedTuple):
    """The failures since the last success, and when the latest of them ended. Lives in memory only.

    `counted` has the UIDs of the pods that were counted last: they come again until they are on record.
    """

    failures: int = 0
    last: datetime | None = None
    counted: frozenset[str] = frozenset()


def advanced(record: Backoff, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Backoff:
    """Return the record after these pods have ended, each counted once however often it comes.

    A success wipes out all failures that did not end after it.

    Source: kubernetes/pkg/controller/job/backoff_utils.go, newBackoffRecord.
    """
    succeeded, failed = tuple(succeeded), tuple(failed)
    # Only those at hand: a pod that is on record does not come again, so the set does not grow.
    counted = frozenset(pod.metadata.uid for pod in (*succeeded, *failed))
    successes = _ends(pod for pod in succeeded if pod.metadata.uid not in record.counted)
    failures = _ends(pod for pod in failed if pod.metadata.uid not in record.counted)
    if not successes and not failures:
        return record if counted == record.counted else record._replace(counted=counted)
    if successes:
        # By when the pods ended, not by when that was observed: a late watch must not make an older failure follow a
        # success.
        later = [end for end in failures if end > max(successes)]
        return Backoff(len(later), max(later, default=None), counted)
    return Backoff(record.failures + len(failures), max(failures), counted)


def _ends(pods: Iterable[Pod]) -> list[datetime]:
    return [end for pod in pods if (end := finish_time(pod)) is not None]


def time_left(record: Backoff, now: datetime, base_seconds: float, max_seconds: float) -> timedelta:
    """Return how long to wait before the next pod may be created; zero when there is nothing to wait for.

    The n-th failure in a row is answered after `base · 2ⁿ⁻¹`, at most `max`, counted from its end.

    Source: kubernetes/pkg/controller/job/backoff_utils.go, getBackoff and getRemainingTimeForFailuresCount.
    """
    if record.failures == 0 or record.last is None:
        return timedelta()
    # The exponent is bounded because a float overflows long after the cap has been reached.
    delay = min(base_seconds * 2 ** min(record.failures - 1, 64), max_seconds)
    return max(timedelta(), record.last + timedelta(seconds=delay) - now)


def limit_exceeded(job: Job, failed: int) -> bool:
    """Return whether more pods have failed than the limit allows; strictly more."""
    return failed > _limit(job)


def restarts_exceeded(job: Job, pods: Iterable[Pod], restart_policy: str) -> bool:
    """Return whether containers have been restarted in place as often as the limit allows.

    Applies to restartPolicy OnFailure only. Counts the pods that have not finished, terminating ones included.
    The last retry is therefore always cut short: it has begun when the limit is found to be reached.

    Source: kubernetes/pkg/controller/job/job_controller.go, pastBackoffLimitOnFailure.
    """
    if restart_policy != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = _limit(job)
    return restarts > 0 if limit == 0 else restarts >= limit


def _limit(job: Job) -> int:
    return DEFAULT_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit


FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
IGNORE = "Ignore"
COUNT = "Count"

# A rule with an action that this version does not know is passed over.
_KNOWN = (FAIL_JOB, FAIL_INDEX, IGNORE, COUNT)


class Judgement(NamedTuple):
    """The policy's decision about one failure; empty if no rule matches.

    Attributes:
        action: The action of the rule that matched, or empty.
        message: Why, for the condition of a Job that fails for it.
    """

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts, in `status.failed` and towards the limits."""
        return self.action != IGNORE


def match_rule(job: Job, pod: Pod) -> Judgement:
    """Return the policy's decision about a failed pod. The first matching rule decides.

    Source: kubernetes/pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy.
    """
    policy = job.spec.pod_failure_policy
    # The first rule that matches decides, also when its action is Count: users put exceptions first.
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        if rule.action in _KNOWN and (fact := _matched(rule, pod)):
            return Judgement(rule.action, f"{fact} matching {rule.action} rule at index {position}")
    return Judgement()


def has_fatal_rule(job: Job) -> bool:
    """Return whether a failure of a single pod may fail the Job."""
    policy = job.spec.pod_failure_policy
    return policy is not None and any(rule.action == FAIL_JOB for rule in policy.rules)


def concerns(job: Job, pod: Pod) -> bool:
    """Return whether one of the Job's pods bears on the next decision: it is unsettled, or its failure fails the Job.

    A pod that was let go before it ended, by a scale-down or a suspension, is never counted. A FailJob rule judges it
    all the same, as upstream does.

    Source: kubernetes/pkg/controller/job/job_controller.go, getFailJobMessage.
    """
    is_unsettled = job.metadata.uid in index_unsettled(pod)
    return is_unsettled or (pod.status.phase == "Failed" and match_rule(job, pod).action == FAIL_JOB)


def _matched(rule: PodFailurePolicyRule, pod: Pod) -> str:
    if rule.on_exit_codes is not None:
        return _exit(rule.on_exit_codes, pod)
    patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"Pod {pod.key} has condition {condition.type}"
    return ""


def _exit(wanted: OnExitCodes, pod: Pod) -> str:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if _is_match(wanted, status):
            terminated = status.state.terminated
            code = terminated.exit_code if terminated is not None else 0
            return f"Container {status.name} for pod {pod.key} failed with exit code {code}"
    return ""


def _is_match(wanted: OnExitCodes, status: ContainerStatus) -> bool:
    """Return whether a container has ended badly, and with a code that is wanted."""
    ended = status.state.terminated
    if ended is None or ended.exit_code == 0:
        return False
    if wanted.container_name is not None and wanted.container_name != status.name:
        return False
    listed = ended.exit_code in wanted.values
    return listed if wanted.operator == "In" else not listed if wanted.operator == "NotIn" else False
