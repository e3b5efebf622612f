"""The situations of a Job, each with its text and the user's remedies."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from kcr.api.batch import finished_type
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, counted
from kcr.api.meta import ObjectMeta
from kcr.api.pods import is_terminal
from kcr.controllers.job.decisions import failures, lifecycle
from kcr.controllers.job.decisions.directives import time_to_live
from kcr.controllers.job.decisions.explain import pods as texts
from kcr.controllers.job.decisions.explain.pods import (
    NAMED,
    Evidence,
    Rule,
    failures_left,
    refused,
    replacements,
    running,
    scaling,
    terminating_texts,
)
from kcr.controllers.job.decisions.indexed import as_backoff
from kcr.controllers.job.decisions.plan import Plan, ScaleDown, ScaleUp, Snapshot, Terminate
from kcr.controllers.job.decisions.pod_template import restart_policy
from kcr.controllers.job.decisions.pod_troubles.failures import digest_of
from kcr.controllers.job.decisions.pod_troubles.problems import PATIENCE
from kcr.controllers.job.decisions.pods import finish_time, is_tracked, replaces_only_failed

_REMEDY_KCR = "see whether the one that runs is ready (GET /readyz), or run one: kcr run --controllers job"
_REMEDY_ANY = (
    "see whether kube-controller-manager runs, or kcr with --take-over; kcr without it reconciles only Jobs with "
    f"spec.managedBy: {lifecycle.KCR}"
)
# Without rights it can write no event that would say so.
_RIGHTS = "if one runs, see its log: it may lack rights, which kcr check names"

_LOGS = "see the output of its pods: kcr logs -n {0.namespace} job/{0.name}"
_COMMAND = "its container cannot be started: delete it, and create it anew with a command that the image has"
_ANEW = "run it again, as a new Job: kcr rerun -n {0.namespace} job/{0.name}"
_REPLACED = Step("creates a replacement when the pod has ended")
_LONGER = "allow more time: delete it, and create it anew with a higher activeDeadlineSeconds"


def no_controller(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """Something is due, and no controller does it."""
    due = _due(seen, plan)
    since = max((moment for moment in _signs(seen, plan, known) if moment <= seen.now), default=seen.now)
    if known.is_own or not due or seen.now - since < PATIENCE:
        return None
    remedy = _REMEDY_KCR if seen.job.spec.managed_by == lifecycle.KCR else _REMEDY_ANY
    never = seen.job.status.start_time is None and not seen.job.spec.suspend
    headline = "no controller has taken it up" if never else "no controller is at work on it"
    idle = human_duration(seen.now - since)
    fact = f"it was created {idle} ago, and has no startTime" if never else f"nothing has happened for {idle}"
    step = Step(f"a controller would {due}")
    return Explanation(Code.NO_CONTROLLER, headline, (step,), (fact,), (remedy, _RIGHTS))


def _due(seen: Snapshot, plan: Plan) -> str:
    ended = len(plan.counts.newly_succeeded) + len(plan.counts.newly_failed)
    match plan.work:
        case ScaleUp(members):
            return f"create {counted(len(members), 'pod')}"
        case ScaleDown(pods) | Terminate(pods):
            return f"delete {counted(len(pods), 'pod')}"
    if ended:
        return f"count {counted(ended, 'pod')} that {_has(ended)} ended"
    if plan.ending is not None and not plan.counts.terminating:
        return f"write that the Job is {plan.ending.condition}"
    suspension = lifecycle.with_suspension(seen.job, seen.job.status, seen.now)
    return "note that the Job is suspended or resumed" if suspension is not seen.job.status else ""


def _signs(seen: Snapshot, plan: Plan, known: Evidence) -> Iterator[datetime]:
    """Yield when something happened to the Job, and when something became due."""
    job = seen.job
    moments = [job.metadata.creation_timestamp, job.metadata.deletion_timestamp, job.status.start_time, known.changed]
    moments += [condition.last_transition_time for condition in job.status.conditions]
    moments += [event.last_seen for event in known.events]
    for pod in known.pods or seen.pods:
        moments += [pod.metadata.creation_timestamp, finish_time(pod) if is_terminal(pod) else None]
        if pod.metadata.deletion_timestamp is not None:
            grace = timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
            moments += [pod.metadata.deletion_timestamp, pod.metadata.deletion_timestamp - grace]
    yield from (moment for moment in moments if moment is not None)
    if job.status.start_time is not None and job.spec.active_deadline_seconds is not None:
        yield job.status.start_time + timedelta(seconds=job.spec.active_deadline_seconds)
    delayed = plan.counts.indexes.delayed.values() if plan.counts.indexes is not None else ()
    base, most = seen.limits.backoff_base_seconds, seen.limits.backoff_max_seconds
    for record in (plan.backoff, *map(as_backoff, delayed)):
        if record.last is not None:
            yield record.last + failures.time_left(record, record.last, base, most)


def finished(seen: Snapshot, _: Plan, known: Evidence) -> Explanation | None:
    """Nothing changes a finished Job any more."""
    end = finished_type(seen.job)
    condition = find_condition(seen.job.status.conditions, end)
    if condition is None or lifecycle.is_being_deleted(seen.job):
        return None
    when = ago(condition.last_transition_time, seen.now)
    if end == "Complete":
        when = when.removesuffix(" ago").removeprefix("at ")
        headline, facts = f"Complete for {when}", [_clause(condition.reason, condition.message)]
        remedies: list[str] = []
    else:
        headline = f"Failed {when}: {condition.reason}" if condition.reason else f"Failed {when}"
        facts = [condition.message, *_digest(seen, known)]
        remedies = [_look_at_failures(seen, known)] if any(pod.status.phase == "Failed" for pod in known.pods) else []
        if not remedies and restart_policy(seen.job) == "OnFailure" and condition.reason == "BackoffLimitExceeded":
            facts.append(
                "its containers were restarted too often; with restartPolicy OnFailure the pod is deleted then"
            )
            remedies.append("restartPolicy Never keeps the pods that have failed, and their output")
        if remedies != [_COMMAND]:
            remedies.append(_LONGER if condition.reason == "DeadlineExceeded" else _ANEW.format(seen.job.metadata))
    since, ttl = condition.last_transition_time or seen.now, time_to_live(seen.job)
    late = seen.now - since - ttl.duration if ttl is not None else timedelta()
    if ttl is not None and late > PATIENCE:
        headline = f"{headline}; it should have been deleted {human_duration(late)} ago ({ttl.source})"
        remedies.insert(
            0, "see whether a TTL controller runs: kube-controller-manager, or kcr run --controllers job,ttl"
        )
    tracked = sum(map(is_tracked, seen.pods))
    if tracked and seen.now - since > PATIENCE:
        verb = "carries" if tracked == 1 else "carry"
        facts.append(
            f"{counted(tracked, 'pod')} still {verb} the tracking finalizer, which the Job's controller removes"
        )
    code = Code.FINISHED if end == "Complete" else Code.FAILED
    reasons = (*filter(None, facts), *_lingering(known))
    return Explanation(code, headline, reasons=reasons, remedies=tuple(remedies))


def _digest(seen: Snapshot, known: Evidence) -> list[str]:
    """Return the failed pods by cause, how the latest of them failed, and its last output."""
    digest = digest_of(seen.job, known.pods)
    facts = [digest.counts] if sum(len(cause.pods) for cause in digest.causes) > 1 else []
    facts += texts.latest_failures(known.pods, seen.now, NAMED)
    if digest.last is not None and known.output:
        facts.append(f"last output of pod {digest.last.metadata.name}: {known.output}")
    return facts


def managed_by_another(seen: Snapshot, _: Plan, known: Evidence) -> Explanation | None:
    """Another controller reconciles the Job, as its spec says."""
    name, created = seen.job.spec.managed_by, seen.job.metadata.creation_timestamp
    if lifecycle.is_ours(seen.job, take_over=seen.limits.take_over):
        return None
    if name in (None, lifecycle.RESERVED):
        headline = "left to kube-controller-manager: it is not a Job of this controller"
        fact = f"spec.managedBy is {name or 'not set'}, and this controller runs without --take-over"
        remedy = f"create the Job with spec.managedBy: {lifecycle.KCR}, or run kcr with --take-over"
        return Explanation(Code.MANAGED_BY_ANOTHER, headline, (), (fact,), (remedy,))
    facts = [f"spec.managedBy is {name}: kcr and kube-controller-manager reconcile no such Job"]
    if seen.job.status.start_time is None and created is not None and seen.now - created > PATIENCE:
        facts.append(f"{name} has not started it since it was created, {ago(created, seen.now)}")
    remedies = (
        f"see whether {name} runs, and its logs",
        "the field is immutable: to have it run here delete it, and create it anew without managedBy",
    )
    return Explanation(Code.MANAGED_BY_ANOTHER, f"left to the controller {name}", (), tuple(facts), remedies)


_COLLECT = "see whether a garbage collector runs: kube-controller-manager has one, kcr run has none"
# The garbage collector's work by the finalizer that it removes.
_COLLECTOR: Mapping[str, str] = {
    "foregroundDeletion": "the garbage collector deletes its pods, and removes foregroundDeletion when they are gone",
    "orphan": "the garbage collector takes the Job's owner references off its pods, and removes orphan then",
}


def being_deleted(seen: Snapshot, _: Plan, known: Evidence) -> Explanation | None:
    """The Job has a deletionTimestamp."""
    metadata = seen.job.metadata
    if not lifecycle.is_being_deleted(seen.job):
        return None
    others = [name for name in metadata.finalizers if name not in _COLLECTOR]
    steps = [Step(_COLLECTOR[name]) for name in metadata.finalizers if name in _COLLECTOR]
    for_long = seen.now - (metadata.deletion_timestamp or seen.now) > PATIENCE
    remedies: list[str] = []
    left = list(known.pods or seen.pods) if "foregroundDeletion" in metadata.finalizers else []
    headline = f"is being deleted, asked for {ago(metadata.deletion_timestamp, seen.now)}"
    facts = [*terminating_texts(left, seen.now)]
    if left:
        headline = f"{headline}: {counted(len(left), 'pod')} of it to go first"
        facts += _holding(left)
        steps += texts.kill_steps(left, seen.now)
        remedies += _give_up(seen, known)
        untouched = for_long and any(pod.metadata.deletion_timestamp is None for pod in left)
        remedies += [_COLLECT] if untouched else []
    elif not others and steps and for_long:
        remedies.append(_COLLECT)
    if others:
        names = ", ".join(others)
        headline = f"{headline}: held by {names}" if not left else headline
        facts.append(f"it stays until the finalizers are removed by those who set them: {names}")
        remedies.append(
            f"see the controllers that set them; or give up what they guard: {_unfinalize('job', metadata)}"
        )
    return Explanation(Code.TERMINATING, headline, tuple(steps), tuple(facts), tuple(remedies) if for_long else ())


def _holding(left: Sequence[Pod]) -> list[str]:
    held = [text for pod in left if (text := texts.lingering_text(pod))]
    return [text.removesuffix(", and the Job does not wait for it") for text in held[:NAMED]]


def _unfinalize(kind: str, metadata: ObjectMeta) -> str:
    patch = '{"metadata":{"finalizers":null}}'
    return f"kubectl -n {metadata.namespace} patch {kind} {metadata.name} -p '{patch}'"


def unknown_mode(seen: Snapshot, _: Plan, __: Evidence) -> Explanation | None:
    """A newer server may know more completion modes."""
    mode = seen.job.spec.completion_mode
    if mode in (None, "NonIndexed", "Indexed"):
        return None
    headline = f"is skipped: this version of kcr knows no completion mode {mode}"
    return Explanation(Code.NOT_READY, headline, remedies=("upgrade kcr",))


def ending(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """The outcome of the Job is decided; its pods are deleted first."""
    if plan.ending is None:
        return None
    condition, reason, message = plan.ending
    left = len(plan.counts.active) + plan.counts.terminating
    verb = "fails" if condition == "Failed" else "completes"
    headline = f"{verb} with {reason} " + (f"once {counted(left, 'pod')} {_has(left)} ended" if left else "now")
    steps = [Step(f"becomes {condition} when its pods have ended and are counted")] if left else []
    if isinstance(plan.work, Terminate):
        steps.insert(0, Step(f"deletes {counted(len(plan.work.pods), 'pod')}", seen.now))
    facts = [message, *terminating_texts(seen.pods, seen.now)]
    facts += texts.latest_failures(known.pods, seen.now, NAMED) if condition == "Failed" else []
    steps += texts.kill_steps(seen.pods, seen.now)
    return Explanation(Code.WAITING, headline, tuple(steps), tuple(facts), _give_up(seen, known))


def suspended(seen: Snapshot, plan: Plan, _: Evidence) -> Explanation | None:
    """`spec.suspend` is true."""
    if not seen.job.spec.suspend:
        return None
    condition, since = find_condition(seen.job.status.conditions, lifecycle.SUSPENDED), ""
    if condition is not None and condition.status == "True":
        since = f" for {ago(condition.last_transition_time, seen.now).removesuffix(' ago')}"
    steps: tuple[Step, ...] = ()
    if isinstance(plan.work, ScaleDown):
        steps = (Step(f"deletes {counted(len(plan.work.pods), 'pod')}", seen.now),)
    facts = ("spec.suspend is true", *terminating_texts(seen.pods, seen.now))
    resume = patch_command(seen, '{"spec":{"suspend":false}}')
    return Explanation(Code.WAITING, f"suspended{since}", steps, facts, (f"to resume it: {resume}",))


def complete(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """All that is wanted has succeeded, and the condition is still to come."""
    if not lifecycle.is_complete(seen.job, plan.counts.succeeded, len(plan.counts.active)):
        return None
    left = plan.counts.terminating
    if not left:
        return Explanation(Code.WAITING, "has succeeded: becomes Complete once its pods are counted")
    headline = f"has succeeded, and becomes Complete once {counted(left, 'pod')} {_has(left)} ended"
    facts = terminating_texts(seen.pods, seen.now)
    return Explanation(Code.WAITING, headline, texts.kill_steps(seen.pods, seen.now), facts, _give_up(seen, known))


def in_backoff(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """A failed pod is replaced after a while."""
    if not plan.delayed or isinstance(plan.work, ScaleUp):
        return None
    waits = replacements(seen, plan)
    left = min((step.at for step in waits if step.at is not None), default=seen.now) - seen.now
    headline = f"waits {human_duration(left)} before it replaces a failed pod (backoff)"
    if left < timedelta(seconds=1):
        headline = "replaces a failed pod now: its backoff is over"
    if plan.counts.active:
        headline = f"has {counted(len(plan.counts.active), 'active pod')}, and {headline}"
    facts = texts.latest_failures(known.pods, seen.now, NAMED)
    steps = (*waits, *failures_left(seen, plan))
    return Explanation(Code.WAITING, headline, steps, facts, (_look_at_failures(seen, known),))


def _look_at_failures(seen: Snapshot, known: Evidence) -> str:
    return _COMMAND if texts.never_started(known.pods, seen.now) else _LOGS.format(seen.job.metadata)


def stuck(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """A terminating pod keeps its place, and its grace period is over."""
    overdue = [pod for pod in seen.pods if texts.is_overdue(pod, seen.now)]
    if not overdue or not replaces_only_failed(seen.job) or isinstance(plan.work, ScaleUp | ScaleDown):
        return None
    policy = seen.job.spec.pod_replacement_policy == "Failed"
    why = "spec.podReplacementPolicy is Failed" if policy else "it has a podFailurePolicy"
    fact = f"a terminating pod is replaced only when it has ended: {why}"
    facts = (*terminating_texts(seen.pods, seen.now), fact)
    headline = f"waits for {counted(len(overdue), 'pod')} stuck terminating"
    return Explanation(Code.PODS_NOT_READY, headline, (_REPLACED,), facts, _give_up(seen, known))


def unobserved(seen: Snapshot, plan: Plan, _: Evidence) -> Explanation | None:
    """The controller has to see its own writes before it counts pods."""
    if seen.expectations_met or plan.ending is not None:
        return None
    step, facts = Step("decides again once it sees them"), terminating_texts(seen.pods, seen.now)
    return Explanation(Code.WAITING, "waits to see what it has written itself", (step,), facts)


def _give_up(seen: Snapshot, known: Evidence) -> tuple[str, ...]:
    """Return the remedies for a pod whose node does not report its end.

    To delete it by force does not help: the tracking finalizer keeps it until it is counted, and only an ended pod is.
    """
    pod = next((pod for pod in seen.pods if texts.is_overdue(pod, seen.now)), None)
    if pod is None:
        return ()
    node, nodes, remedies = pod.spec.node_name, known.context.nodes, []
    if node and nodes.get(node, ...) is None:
        remedies.append(f"its node {node} is deleted: the pod garbage collector ends its pods")
    elif node:
        remedies.append(f"see whether its node is ready: kubectl describe node {node}")
        remedies.append(f"if the node is lost for good, its pods end with it: kubectl delete node {node}")
    patch = f'patch pod {pod.metadata.name} --subresource=status -p \'{{"status":{{"phase":"Failed"}}}}\''
    remedies.append(f"if the pod runs no more for certain, say so: kubectl -n {pod.metadata.namespace} {patch}")
    return tuple(remedies)


def patch_command(seen: Snapshot, patch: str) -> str:
    """Return the command that patches the Job."""
    metadata = seen.job.metadata
    return f"kubectl -n {metadata.namespace} patch job {metadata.name} -p '{patch}'"


def waiting_for_end(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """No pod is active, and those that are terminating keep their places; or none is wanted."""
    if plan.counts.active:
        return None
    facts = (*terminating_texts(seen.pods, seen.now), *_lingering(known))
    if seen.job.spec.parallelism == 0:
        remedy = "to have it run a pod: " + patch_command(seen, '{"spec":{"parallelism":1}}')
        return Explanation(Code.WAITING, "has nothing to do: its parallelism is 0", (), facts, (remedy,))
    if not plan.counts.terminating:
        return Explanation(Code.WAITING, "waits for a change", (), facts)
    headline = f"waits for {counted(plan.counts.terminating, 'terminating pod')} to end"
    return Explanation(Code.WAITING, headline, (_REPLACED, *texts.kill_steps(seen.pods, seen.now)), facts)


# The first to hold is the headline, so order is contract. The last one always holds.
CASES: tuple[Rule, ...] = (
    being_deleted, finished, managed_by_another, unknown_mode, refused, no_controller, ending, suspended, complete,
    unobserved, in_backoff, stuck, scaling, waiting_for_end, running,
)  # fmt: skip


def _lingering(known: Evidence) -> list[str]:
    return [text for pod in known.pods if (text := texts.lingering_text(pod))][:NAMED]


def _clause(reason: str, message: str) -> str:
    return ": ".join(filter(None, (reason, message)))


def _has(count: int) -> str:
    return "has" if count == 1 else "have"
