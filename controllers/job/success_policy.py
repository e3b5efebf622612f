"""When an Indexed Job has succeeded before all its indexes have (`spec.successPolicy`)."""

from kcr.api.batch import Job, SuccessPolicyRule
from kcr.api.indexset import IndexSet


def met(job: Job, succeeded: IndexSet) -> int | None:
    """Return the position of the first rule that the succeeded indexes meet, or None.

    Source: kubernetes/pkg/controller/job/success_policy.go, matchSuccessPolicy.
    """
    policy, completions = job.spec.success_policy, job.spec.completions or 0
    if policy is None or not succeeded.intervals:
        return None
    holding = (place for place, rule in enumerate(policy.rules) if _holds(rule, succeeded, completions))
    return next(holding, None)


def _holds(rule: SuccessPolicyRule, succeeded: IndexSet, completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    named = IndexSet.parse(rule.succeeded_indexes, completions)
    have = len(named & succeeded)
    enough = rule.succeeded_count is not None and have >= rule.succeeded_count
    return len(named) > 0 and (enough or have == len(named))
