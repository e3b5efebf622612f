"""What an explanation is made of, and the parts of it about pods: next steps, failures, deletions, refused creates."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, counted
from kcr.api.indexset import IndexSet
from kcr.api.pods import is_terminal, is_terminating
from kcr.controllers.job.decisions import failures
from kcr.controllers.job.decisions.indexed import as_backoff
from kcr.controllers.job.decisions.plan import Plan, ScaleDown, ScaleUp, Snapshot
from kcr.controllers.job.decisions.pod_template import restart_policy
from kcr.controllers.job.decisions.pod_troubles.failures import failed_container
from kcr.controllers.job.decisions.pod_troubles.problems import (
    PATIENCE,
    PodContext,
    PodProblem,
    alike,
    joined,
    masked,
    not_ready_since,
    problem_of,
    statuses_of,
    text_of,
)
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER, finish_time
from kcr.refusals import refusal_of

# So many pods, indexes and events are named; of the others the counts say enough.
NAMED = 3
# How a user gets other pods: a Job's template cannot be changed.
CHANGE = "create the Job anew with"


class Evidence(NamedTuple):
    """Facts about a Job beyond the inputs of a reconcile.

    Attributes:
        pods: All its pods, those that are counted already included.
        events: The events about it, in the order in which they were last seen.
        writers: The field managers that have written its status lately, when there are several.
        duplicate_event: The message that two controllers reported lately, each in its own event; empty for one.
        context: Warnings about those of its pods that have not started, and the nodes.
        changed: When it was last written, by any client; None when the server does not say.
        output: The last line that the pod that failed last has written; empty when that is not known.
        gang: The state of the gang of its pods; empty for none, or one that is scheduled.
        pending: Writes for it that are not observed, as its controller knows.
        is_own: Whether this is its controller's own evidence, or its controller may be silent: silence is fine then.
    """

    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    writers: tuple[str, ...] = ()
    duplicate_event: str = ""
    context: PodContext = PodContext(change=CHANGE)
    changed: datetime | None = None
    output: str = ""
    gang: str = ""
    pending: tuple[str, ...] = ()
    is_own: bool = False


Rule = Callable[[Snapshot, Plan, Evidence], Explanation | None]

# Reasons that nodes report when a container could not be started: its command or image is wrong.
_UNSTARTED = ("StartError", "ContainerCannotRun")
# Between two tries, at most. Source: kubernetes/pkg/controller/job/job_controller.go, MaxJobApiBackOff.
_MOST = timedelta(seconds=60)
_CHANGE = f"{CHANGE} a template"


def failure_text(pod: Pod, now: datetime) -> str:
    """Return how a pod failed: when, and the container or reason that made it fail."""
    return f"pod {pod.metadata.name} failed {ago(finish_time(pod), now)}{_text(_failure(pod))}"


def _failure(pod: Pod) -> str:
    container = failed_container(pod)
    if container is not None and (ended := container.state.terminated) is not None:
        named = f"{ended.reason}, " if ended.reason else ""
        return f"container {container.name}: {named}exit code {ended.exit_code}{_text(ended.message)}"
    return joined(pod.status.reason, pod.status.message)


def latest_failures(pods: Iterable[Pod], now: datetime, count: int) -> tuple[str, ...]:
    """Return how the latest failed pods failed, the newest first; those that failed alike share a text."""
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    failed.sort(key=lambda pod: finish_time(pod) or now, reverse=True)
    alike: dict[str, list[Pod]] = {}
    for pod in failed:
        alike.setdefault(masked(_failure(pod), pod), []).append(pod)
    return tuple(
        failure_text(first, now) + (f"; {counted(len(rest), 'more pod')} failed alike" if rest else "")
        for first, *rest in list(alike.values())[:count]
    )


def never_started(pods: Iterable[Pod], now: datetime) -> bool:
    """Return whether the latest of the failed pods has no output, for its container could not be started at all."""
    failed = sorted((pod for pod in pods if pod.status.phase == "Failed"), key=lambda pod: finish_time(pod) or now)
    ends = (status.state.terminated for pod in failed[-1:] for status in statuses_of(pod))
    return any(end is not None and end.reason in _UNSTARTED for end in ends)


def is_overdue(pod: Pod, now: datetime) -> bool:
    """Return whether a terminating pod should have ended: its deletionTimestamp, grace period included, is over."""
    deadline = pod.metadata.deletion_timestamp
    return is_terminating(pod) and deadline is not None and now > deadline + PATIENCE


def terminating_text(pod: Pod, now: datetime) -> str:
    """Return since when a pod is terminating, and the obstacle after its grace period."""
    deadline = pod.metadata.deletion_timestamp or now
    asked = deadline - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    text = f"pod {pod.metadata.name} has been terminating for {human_duration(max(now - asked, timedelta()))}"
    if not is_overdue(pod, now):
        return text
    late = f"grace period over for {ago(deadline, now).removesuffix(' ago')}"
    node = f"its node {pod.spec.node_name} has" if pod.spec.node_name else "no node has"
    finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
    held = f"; it has finalizers, too: {', '.join(finalizers)}" if finalizers else ""
    return f"{text}: {late}, and {node} not reported its end{held}"


def kill_steps(pods: Iterable[Pod], now: datetime) -> tuple[Step, ...]:
    """Return when the node ends the containers of terminating pods by force, if they do not end before: the last."""
    ends = [pod.metadata.deletion_timestamp for pod in pods if is_terminating(pod) and not is_overdue(pod, now)]
    last = max((end for end in ends if end is not None), default=None)
    return (Step("the node kills what has not ended: the grace period is over", last),) if last and last > now else ()


def lingering_text(pod: Pod) -> str:
    """Return the obstacle that keeps a finished and deleted pod; empty for others."""
    finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
    if not finalizers or not is_terminal(pod) or pod.metadata.deletion_timestamp is None:
        return ""
    held = ", ".join(finalizers)
    return f"pod {pod.metadata.name} has ended; it stays for its finalizers ({held}), and the Job does not wait for it"


def _text(detail: str) -> str:
    return f": {' '.join(detail.split())}" if detail else ""


def refused(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """The API server does not let its pods in."""
    tries = [event for event in known.events if event.reason in ("FailedCreate", "SuccessfulCreate")]
    if not isinstance(plan.work, ScaleUp) or not tries or tries[-1].reason != "FailedCreate":
        return None
    event = tries[-1]
    namespace = seen.job.metadata.namespace
    refusal = refusal_of(event.message, namespace=namespace, resource="pods", change=_CHANGE, plugin="job")
    times = f", {event.times} times" if event.times > 1 else ""
    return Explanation(
        Code.REFUSED,
        f"cannot create pods: {refusal.cause}",
        steps=(_next_try(tries, counted(len(plan.work.members), "pod"), seen.now),),
        reasons=(f"{ago(event.last_seen, seen.now)}{times}: {event.message}",),
        remedies=(refusal.remedy,),
        webhook=refusal.webhook,
    )


def _next_try(tries: Sequence[Event], pods: str, now: datetime) -> Step:
    """Return when the controller tries again: each wait is twice as long as the one before it.

    Events have the last tries to the second: one each, or one that counts the same message from the first try on.
    An event that was combined from several messages does not have the last wait, nor has a series, which is written
    now and then.
    """
    text, last = f"tries again to create {pods}", tries[-1]
    first, latest, wait = last.first_timestamp, last.last_seen, None
    earlier = [event.last_seen for event in tries[:-1] if event.last_seen and event.last_seen != latest]
    if latest is not None and last.count > 1 and first is not None and not last.message.startswith("(combined"):
        # One second, then two, then four: all waits so far and one second make up the next.
        wait = latest - first + timedelta(seconds=1)
    elif latest is not None and last.times <= 1 and earlier:
        wait = 2 * (latest - max(earlier))
    if latest is not None and wait is not None and (at := latest + min(wait, _MOST)) > now:
        return Step(text, at)
    return Step(f"{text}: 1s after the first refusal, then twice as long each time, 60s at most")


def scaling(_: Snapshot, plan: Plan, __: Evidence) -> Explanation | None:
    """Pods are to be created or removed right now."""
    match plan.work:
        case ScaleUp(members):
            return Explanation(Code.CREATING, f"creates {counted(len(members), 'pod')} now")
        case ScaleDown(pods):
            return Explanation(Code.WAITING, f"removes {counted(len(pods), 'surplus pod')} now")
    return None


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
