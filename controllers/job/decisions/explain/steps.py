"""The next steps of a Job's pods: replacements of failed ones, remaining retries, terminating ones."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.explanation import Step, counted
from kcr.api.indexset import IndexSet
from kcr.api.pods import is_terminating
from kcr.controllers.job.decisions import failures
from kcr.controllers.job.decisions.explain.evidence import NAMED
from kcr.controllers.job.decisions.explain.pods import terminating_text
from kcr.controllers.job.decisions.indexed import as_backoff
from kcr.controllers.job.decisions.plan import Plan, Snapshot

_SECOND = timedelta(seconds=1)


def replacements(seen: Snapshot, plan: Plan) -> tuple[Step, ...]:
    """Return when failed pods are replaced: of the Job as a whole, or of each index for itself."""
    limits, indexes = seen.limits, plan.counts.indexes

    def left(record: failures.Backoff) -> timedelta:
        return failures.time_left(record, seen.now, limits.backoff_base_seconds, limits.backoff_max_seconds)

    if seen.job.spec.backoff_limit_per_index is None or indexes is None:
        wait = left(plan.backoff)
        text = f"replaces what failed: {counted(plan.backoff.failures, 'failure')} in a row"
        return (Step(text, seen.now + wait),) if wait > timedelta() and plan.delayed else ()
    alike: dict[tuple[timedelta, int], list[int]] = {}
    for index, pod in indexes.delayed.items():
        record = as_backoff(pod)
        if (wait := left(record)) > timedelta():
            # Pods that ended within the same second are replaced together.
            alike.setdefault((wait // _SECOND * _SECOND, record.failures), []).append(index)
    return tuple(
        Step(f"creates {_pods_of(again)} again: {counted(count, 'failure')}{_each(again)}", seen.now + wait)
        for (wait, count), again in sorted(alike.items())[:NAMED]
    )


def _pods_of(indexes: Iterable[int]) -> str:
    found = IndexSet.of(indexes)
    return f"a pod of index {found}" if len(found) == 1 else f"pods of indexes {found}"


def _each(indexes: list[int]) -> str:
    return " each" if len(indexes) > 1 else ""


def failures_left(seen: Snapshot, plan: Plan) -> tuple[Step, ...]:
    """Return how many more pods may fail before the Job does; nothing where each index has a limit of its own."""
    job = seen.job
    if job.spec.backoff_limit_per_index is not None:
        return ()
    limit = failures.DEFAULT_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    more = max(limit + 1 - plan.counts.failed, 1)
    left = f"{counted(more, 'more pod')} {'has' if more == 1 else 'have'}"
    return (Step(f"when {left} failed: the Job fails (backoffLimit)"),)


def pod_ends(seen: Snapshot, plan: Plan) -> Step:
    """Return the step after the end of an active pod."""
    job, active = seen.job, len(plan.counts.active)
    if job.spec.completions is None:
        return Step("when a pod has succeeded: creates no more, and becomes Complete when the others have ended")
    more = job.spec.completions - _over(job, plan) - active
    if more > 0:
        return Step(f"when a pod ends: counts it, and creates the next ({more} still to come)")
    return Step(f"when {'it has' if active == 1 else 'all have'} succeeded: becomes Complete")


def _over(job: Job, plan: Plan) -> int:
    """Return how many completions need no pod any more."""
    return plan.counts.succeeded if plan.counts.indexes is None else len(plan.counts.indexes.over)


def terminating_texts(pods: Iterable[Pod], now: datetime) -> tuple[str, ...]:
    """Return since when pods are terminating, those deleted first, first."""
    going = sorted(filter(is_terminating, pods), key=lambda pod: str(pod.metadata.deletion_timestamp))
    return tuple(terminating_text(pod, now) for pod in going[:NAMED])
