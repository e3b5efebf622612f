"""The explanation of a Job: the text of a decision.

`cases` has the situations of a Job, in the order in which they are judged. `pods` describes its pods: those that are
wanted, and the creates that are due or refused.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import reduce

from msgspec.structs import replace

from kcr.api.batch import Job, finished_type, is_indexed
from kcr.api.conditions import find_condition
from kcr.api.explanation import Code, Explanation, Step, counted, merged, ordered
from kcr.api.indexset import IndexSet
from kcr.api.meta import controller_of
from kcr.api.pods import is_ready
from kcr.controllers.job.decisions import lifecycle
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.directives import directives_of, texts_of, time_to_live
from kcr.controllers.job.decisions.explain.cases import CASES
from kcr.controllers.job.decisions.explain.pods import CHANGE, Evidence
from kcr.controllers.job.decisions.plan import Plan, Snapshot
from kcr.controllers.job.decisions.pod_troubles.problems import PATIENCE
from kcr.controllers.job.decisions.pods import index_in
from kcr.controllers.job.decisions.unstarted import REASON, unstarted

__all__ = ["CHANGE", "Evidence", "explain"]

# The default of backoffLimit where each index has a limit of its own.
_UNLIMITED = 2**31 - 1


def explain(seen: Snapshot, known: Evidence) -> Explanation:
    """Return why a Job is where it is, from the decision that a reconcile would make now.

    Args:
        seen: The snapshot that a reconcile would read.
        known: All other evidence.
    """
    plan = decide(seen)
    case = next(found for rule in CASES if (found := rule(seen, plan, known)) is not None)
    found = replace(
        case,
        steps=ordered(
            [*case.steps, *_deadline(seen, plan), *_start_deadline(seen, plan), *_removal(seen.job, seen.now)]
        ),
        reasons=(*case.reasons, *directives_of(seen.job).faults, *known.pending),
        wanted=_wanted(seen.job),
        present=_present(seen, plan),
    )
    return reduce(merged, _concurrent_controllers(seen, known), found)


def _concurrent_controllers(seen: Snapshot, known: Evidence) -> Iterator[Explanation]:
    if finished_type(seen.job):
        return
    if known.writers:
        remedy = "stop all but one of them, unless one has just taken over from the other"
        headline = f"several controllers write its status: {', '.join(known.writers)}"
        yield Explanation(Code.CONCURRENT_CONTROLLERS, headline, remedies=(remedy,))
    elif known.duplicate_event:
        fact = f"two of them wrote the same event, each its own: {known.duplicate_event}"
        remedy = "stop all but one; several replicas of kcr run need --leader-elect"
        headline = "several controllers create and delete its pods"
        yield Explanation(Code.CONCURRENT_CONTROLLERS, headline, reasons=(fact,), remedies=(remedy,))


def _deadline(seen: Snapshot, plan: Plan) -> list[Step]:
    left = lifecycle.time_to_deadline(seen.job, seen.now)
    if left is None or left <= timedelta() or plan.ending is not None or finished_type(seen.job):
        return []
    return [Step("fails with DeadlineExceeded, unless it has ended", seen.now + left)]


def _start_deadline(seen: Snapshot, plan: Plan) -> list[Step]:
    first = next(iter(unstarted(seen, plan.counts.active)), None)
    if first is None or plan.ending is not None or finished_type(seen.job):
        return []
    text = f"fails with {REASON}, unless pod {first.pod.metadata.name} has started (cause {first.cause})"
    return [Step(text, first.at)]


def _removal(job: Job, now: datetime) -> list[Step]:
    condition, ttl = find_condition(job.status.conditions, finished_type(job)), time_to_live(job)
    if condition is None:
        return []
    if ttl is None:
        owner = controller_of(job.metadata)
        if owner is not None and owner.kind == "CronJob":
            return [Step(f"stays until CronJob {owner.name} has enough newer ones (its history limits)")]
        return [Step("stays until a user deletes it: it has no ttlSecondsAfterFinished")]
    end = condition.last_transition_time
    at = end + ttl.duration if end is not None else None
    if at is not None and at + PATIENCE < now:
        return [Step(f"a TTL controller would delete it with its pods ({ttl.source})")]
    return [Step(f"is deleted with its pods ({ttl.source})", at)]


def _wanted(job: Job) -> str:
    spec = job.spec
    parts = [
        "one success (no completions are set)" if spec.completions is None else counted(spec.completions, "completion")
    ]
    parts += ["by index"] if is_indexed(job) else []
    parts += ["with a successPolicy"] if spec.success_policy is not None else []
    parts.append(f"{counted(1 if spec.parallelism is None else spec.parallelism, 'pod')} at once")
    for name, value in (
        ("backoffLimit", spec.backoff_limit), ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes), ("activeDeadlineSeconds", spec.active_deadline_seconds),
    ):  # fmt: skip
        parts += [f"{name} {value}"] if value not in (None, _UNLIMITED) else []
    parts += ["with a podFailurePolicy"] if spec.pod_failure_policy is not None else []
    parts += texts_of(job)
    return ", ".join(parts)


def _present(seen: Snapshot, plan: Plan) -> str:
    counts, status = plan.counts, seen.job.status
    if finished_type(seen.job):
        parts = [f"{status.succeeded} succeeded", f"{status.failed} failed"]
    else:
        ready = sum(map(is_ready, counts.active))
        parts = [
            f"{counts.succeeded} succeeded",
            f"{counts.failed} failed",
            f"{len(counts.active)} active ({ready} ready)",
        ]
        parts += [f"{counts.terminating} terminating"] if counts.terminating else []
    if counts.indexes is not None:
        parts += [f"indexes {counts.indexes.succeeded} succeeded"] if counts.indexes.succeeded.intervals else []
        parts += [f"indexes {counts.indexes.failed} failed"] if counts.indexes.failed else []
        here = IndexSet.of(index for pod in counts.active if (index := index_in(seen.job, pod)) is not None)
        parts += [f"indexes {here} active"] if here.intervals else []
    return ", ".join(parts)
