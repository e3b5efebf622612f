"""A Job whose pods are wanted as they are, and the next steps of its pods: replacements, retries, terminations."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, counted
from kcr.api.indexset import IndexSet
from kcr.api.pods import is_terminating
from kcr.controllers.job.decisions import failures
from kcr.controllers.job.decisions.explain.pods import NAMED, Evidence, lingering_text, terminating_text
from kcr.controllers.job.decisions.indexed import as_backoff
from kcr.controllers.job.decisions.plan import Plan, Snapshot
from kcr.controllers.job.decisions.pod_template import restart_policy
from kcr.controllers.job.decisions.pod_troubles.problems import PodProblem, alike, not_ready_since, problem_of, text_of

_SECOND = timedelta(seconds=1)


def running(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """It waits for its pods."""
    active = sorted(plan.counts.active, key=lambda pod: pod.metadata.name)
    found = [(pod, problem_of(pod, known.context, seen.now)) for pod in active]
    started = [pod for pod, problem in found if problem is None]
    problems = [problem for _, problem in found if problem is not None]
    groups = alike(problems)
    facts = [known.gang] if known.gang else []
    facts += [text_of(group) for group in groups[:NAMED]]
    facts += _not_ready(started, seen)
    facts += terminating_texts(seen.pods, seen.now)
    facts += [text for pod in known.pods if (text := lingering_text(pod))][:NAMED]
    steps = [pod_ends(seen, plan), *replacements(seen, plan), *_restarts_left(seen, active)]
    code = Code.PODS_NOT_READY if any(group[0].symptom.clause for group in groups) else Code.RUNNING
    headline, remedies = _headline(len(started), groups), tuple(_remedies(groups))
    return Explanation(code, headline, steps=tuple(steps), reasons=tuple(facts), remedies=remedies)


def _headline(started: int, groups: Sequence[Sequence[PodProblem]]) -> str:
    """Return the number of running pods, and the most common obstacle of the others."""
    runs = f"runs {counted(started, 'pod')}"
    if not groups:
        return runs
    main = next((group for group in groups if group[0].symptom.clause), None)
    count = len(main) if main is not None else sum(map(len, groups))
    clause = main[0].symptom.clause if main is not None else "to start"
    if not started:
        return f"waits for {counted(count, 'pod')} {clause}"
    return f"{runs}, and waits for {counted(count, 'more pod')} {clause}"


def _not_ready(started: Sequence[Pod], seen: Snapshot) -> list[str]:
    """Return which running pods have not been ready for a while, if any: a Job does not wait for readiness."""
    found = list(not_ready_since(started, seen.now))
    if not found:
        return []
    (pod, since), others = found[0], len(found) - 1
    more = f"; the same holds for {counted(others, 'more pod')}" if others else ""
    late = human_duration(seen.now - since)
    return [f"pod {pod.metadata.name} has not been ready for {late}; a Job counts ends, and needs no readiness{more}"]


def _remedies(groups: Sequence[Sequence[PodProblem]]) -> list[str]:
    return list(dict.fromkeys(remedy for one, *_ in groups[:NAMED] for remedy in one.remedies))


def _restarts_left(seen: Snapshot, active: Sequence[Pod]) -> list[Step]:
    """Return at how many restarts the Job fails, once there are some: under OnFailure they count as failures do."""
    if restart_policy(seen.job) != "OnFailure":
        return []
    statuses = (one for pod in active for one in (*pod.status.init_container_statuses, *pod.status.container_statuses))
    count = sum(one.restart_count for one in statuses)
    limit = failures.DEFAULT_LIMIT if seen.job.spec.backoff_limit is None else seen.job.spec.backoff_limit
    text = f"at {counted(max(limit, 1), 'restart')}: fails (backoffLimit), {count} so far"
    return [Step(text)] if count else []


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
        Step(
            f"creates {_pods_of(again)} again: {counted(count, 'failure')}{' each' if len(again) > 1 else ''}",
            seen.now + wait,
        )
        for (wait, count), again in sorted(alike.items())[:NAMED]
    )


def _pods_of(indexes: Iterable[int]) -> str:
    found = IndexSet.of(indexes)
    return f"a pod of index {found}" if len(found) == 1 else f"pods of indexes {found}"


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
    return plan.counts.succeeded if plan.counts.indexes is None else len(plan.counts.indexes.over)


def terminating_texts(pods: Iterable[Pod], now: datetime) -> tuple[str, ...]:
    """Return since when pods are terminating, those deleted first, first."""
    going = sorted(filter(is_terminating, pods), key=lambda pod: str(pod.metadata.deletion_timestamp))
    return tuple(terminating_text(pod, now) for pod in going[:NAMED])
