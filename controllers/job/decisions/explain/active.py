"""A Job whose pods are wanted as they are: they run, or wait to be started."""

from collections.abc import Sequence

from kcr.api.core import Pod
from kcr.api.explanation import Step, counted
from kcr.controllers.job.decisions import failures
from kcr.controllers.job.decisions.explain.evidence import NAMED, Case, Evidence
from kcr.controllers.job.decisions.explain.pods import lingering_text
from kcr.controllers.job.decisions.explain.steps import pod_ends, replacements, terminating_texts
from kcr.controllers.job.decisions.explain.troubles import Trouble, alike, not_ready_text, text_of, trouble_of
from kcr.controllers.job.decisions.plan import Plan, Snapshot
from kcr.controllers.job.decisions.pod_template import restart_policy


def running(seen: Snapshot, plan: Plan, known: Evidence) -> Case | None:
    """It waits for its pods."""
    active = sorted(plan.counts.active, key=lambda pod: pod.metadata.name)
    found = [(pod, trouble_of(pod, known.pod_events, seen.now)) for pod in active]
    started = [pod for pod, trouble in found if trouble is None]
    troubles = [trouble for _, trouble in found if trouble is not None]
    groups = alike(troubles)
    facts = [text_of(group) for group in groups[:NAMED]]
    facts += not_ready_text(started, seen.now)
    facts += terminating_texts(seen.pods, seen.now)
    facts += [text for pod in known.pods if (text := lingering_text(pod))][:NAMED]
    steps = [pod_ends(seen, plan), *replacements(seen, plan), *_restarts_left(seen, active)]
    return Case(_headline(len(started), groups), facts, steps, _remedies(seen, groups))


def _headline(started: int, groups: Sequence[Sequence[Trouble]]) -> str:
    """Return how many pods run, and what most of the others wait for."""
    runs = f"runs {counted(started, 'pod')}"
    if not groups:
        return runs
    main = next((group for group in groups if group[0].clause), None)
    count = len(main) if main is not None else sum(map(len, groups))
    clause = main[0].clause if main is not None else "to start"
    if not started:
        return f"waits for {counted(count, 'pod')} {clause}"
    return f"{runs}, and waits for {counted(count, 'more pod')} {clause}"


def _remedies(seen: Snapshot, groups: Sequence[Sequence[Trouble]]) -> list[str]:
    metadata = seen.job.metadata
    remedies = {
        one.remedy.format(namespace=metadata.namespace, job=metadata.name, pod=one.pod.metadata.name): None
        for one, *_ in groups[:NAMED]
        if one.remedy
    }
    return list(remedies)


def _restarts_left(seen: Snapshot, active: Sequence[Pod]) -> list[Step]:
    """Return at how many restarts the Job fails, once there are some: under OnFailure they count as failures do."""
    if restart_policy(seen.job) != "OnFailure":
        return []
    statuses = (one for pod in active for one in (*pod.status.init_container_statuses, *pod.status.container_statuses))
    count = sum(one.restart_count for one in statuses)
    limit = failures.DEFAULT_LIMIT if seen.job.spec.backoff_limit is None else seen.job.spec.backoff_limit
    text = f"at {counted(max(limit, 1), 'restart')}: fails (backoffLimit), {count} so far"
    return [Step(text)] if count else []
