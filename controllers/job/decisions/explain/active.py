"""A Job whose pods are wanted as they are: they run, or wait to be started."""

from collections.abc import Sequence

from kcr.api.core import Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, counted
from kcr.api.pod_problems import PodProblem, alike, not_ready_since, problem_of, text_of
from kcr.controllers.job.decisions import failures
from kcr.controllers.job.decisions.explain.evidence import NAMED, Evidence
from kcr.controllers.job.decisions.explain.pods import lingering_text
from kcr.controllers.job.decisions.explain.steps import pod_ends, replacements, terminating_texts
from kcr.controllers.job.decisions.plan import Plan, Snapshot
from kcr.controllers.job.decisions.pod_template import restart_policy


def running(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """It waits for its pods."""
    active = sorted(plan.counts.active, key=lambda pod: pod.metadata.name)
    found = [(pod, problem_of(pod, known.context, seen.now)) for pod in active]
    started = [pod for pod, problem in found if problem is None]
    problems = [problem for _, problem in found if problem is not None]
    groups = alike(problems)
    facts = [text_of(group) for group in groups[:NAMED]]
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
    return [f"pod {pod.metadata.name} is not ready for {late}; a Job counts ends, and needs no readiness{more}"]


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
