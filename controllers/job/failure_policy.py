"""What a pod's failure means for its Job (`spec.podFailurePolicy`)."""

from typing import NamedTuple

from kcr.api.batch import Job, OnExitCodes, PodFailurePolicyRule
from kcr.api.core import ContainerStatus, Pod

FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
IGNORE = "Ignore"
COUNT = "Count"

# A rule with an action that this version does not know is passed over.
_KNOWN = (FAIL_JOB, FAIL_INDEX, IGNORE, COUNT)


class Judgement(NamedTuple):
    """What the policy says of one failure; nothing at all when no rule matches.

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
    """Return what the policy says of a pod that has failed. The first rule that matches decides.

    Source: kubernetes/pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy.
    """
    policy = job.spec.pod_failure_policy
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        if rule.action in _KNOWN and (fact := _matched(rule, pod)):
            return Judgement(rule.action, f"{fact} matching {rule.action} rule at index {position}")
    return Judgement()


def _matched(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return the fact that makes the rule match, or nothing."""
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
