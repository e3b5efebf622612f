"""The situations that a Job can be in: the words for each, and what a user can do about it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from kcr.api.batch import finished_type
from kcr.api.conditions import find_condition
from kcr.api.core import Event, Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Step, ago, counted
from kcr.api.pods import is_terminating
from kcr.controllers.job.decisions import explain_pods, failures, lifecycle
from kcr.controllers.job.decisions.indexed import as_backoff
from kcr.controllers.job.decisions.plan import Plan, ScaleDown, ScaleUp, Snapshot, Terminate
from kcr.controllers.job.decisions.pods import replaces_only_failed

# So many pods, indexes and events are named; of the others the counts say enough.
_NAMED = 3
# How long a controller may take before its silence is worth a remark.
_PATIENCE = timedelta(seconds=10)


class Evidence(NamedTuple):
    """What is known of a Job beside what a reconcile reads.

    Attributes:
        pods: All its pods, those that are counted already included.
        events: The events about it, in the order in which they were last seen.
        writers: The field managers that have written its status lately, when there are several.
        pending: What was written for it and is not observed, as a controller knows of itself.
    """

    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    writers: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


class Case(NamedTuple):
    """A situation that a Job is in: its headline, the facts behind it, what is next, and what a user can do."""

    headline: str
    reasons: Sequence[str] = ()
    steps: Sequence[Step] = ()
    remedies: Sequence[str] = ()


Rule = Callable[[Snapshot, Plan, Evidence], Case | None]


def finished(seen: Snapshot, _: Plan, known: Evidence) -> Case | None:
    """Nothing changes a finished Job any more."""
    end = finished_type(seen.job)
    condition = find_condition(seen.job.status.conditions, end)
    if condition is None:
        return None
    when = ago(condition.last_transition_time, seen.now)
    if end == "Complete":
        return Case(f"Complete for {when.removesuffix(' ago')}", _clauses(condition.reason, condition.message))
    reasons = explain_pods.latest_failures(known.pods, seen.now, _NAMED)
    return Case(f"Failed {when}: {condition.reason}: {condition.message}", reasons)


def managed_by_another(seen: Snapshot, _: Plan, __: Evidence) -> Case | None:
    """Neither this controller nor the cluster's own looks after the Job."""
    name = seen.job.spec.managed_by
    if lifecycle.is_ours(seen.job, take_over=seen.limits.take_over):
        return None
    if name in (None, lifecycle.RESERVED):
        return Case(
            "left to kube-controller-manager: it is no Job of this controller",
            [f"spec.managedBy is {name or 'not set'}, and this controller runs without --take-over"],
            remedies=[f"create the Job with spec.managedBy: {lifecycle.KCR}, or run kcr with --take-over"],
        )
    return Case(
        f"left to the controller {name}",
        [f"spec.managedBy is {name}: kcr and kube-controller-manager reconcile no such Job"],
        remedies=[f"see the logs of {name}; the field is immutable: create the Job anew to run it here"],
    )


def being_deleted(seen: Snapshot, plan: Plan, _: Evidence) -> Case | None:
    """The Job has a deletionTimestamp."""
    if not lifecycle.is_being_deleted(seen.job):
        return None
    finalizers = ", ".join(seen.job.metadata.finalizers)
    reasons = [f"finalizers are left: {finalizers}"] if finalizers else []
    since = ago(seen.job.metadata.deletion_timestamp, seen.now)
    return Case(f"is being deleted for {since.removesuffix(' ago')}", [*reasons, *_terminating(seen)])


def unknown_mode(seen: Snapshot, _: Plan, __: Evidence) -> Case | None:
    """A newer server may know more completion modes."""
    mode = seen.job.spec.completion_mode
    if mode in (None, "NonIndexed", "Indexed"):
        return None
    return Case(f"is skipped: this version of kcr knows no completion mode {mode}", remedies=["upgrade kcr"])


def ending(seen: Snapshot, plan: Plan, known: Evidence) -> Case | None:
    """It is decided how the Job ends; its pods go first."""
    if plan.ending is None:
        return None
    condition, reason, message = plan.ending
    left = counted(len(plan.counts.active) + plan.counts.terminating, "pod")
    waits = f"waits for the end of {left}" if left != "0 pods" else "is about to be written"
    steps = [Step(f"becomes {condition} once its pods have ended and are counted")]
    if isinstance(plan.work, Terminate):
        steps.insert(0, Step(f"deletes {counted(len(plan.work.pods), 'pod')}"))
    failed = explain_pods.latest_failures(known.pods, seen.now, _NAMED) if condition == "Failed" else []
    return Case(f"{condition} ({reason}) {waits}", [message, *_terminating(seen), *failed], steps)


def suspended(seen: Snapshot, plan: Plan, _: Evidence) -> Case | None:
    """`spec.suspend` is true."""
    if not seen.job.spec.suspend:
        return None
    condition = find_condition(seen.job.status.conditions, lifecycle.SUSPENDED)
    since = ""
    if condition is not None and condition.status == "True":
        since = f" for {ago(condition.last_transition_time, seen.now).removesuffix(' ago')}"
    name, namespace = seen.job.metadata.name, seen.job.metadata.namespace
    resume = f'kubectl -n {namespace} patch job {name} --type merge -p \'{{"spec":{{"suspend":false}}}}\''
    return Case(
        f"suspended{since}", ["spec.suspend is true", *_terminating(seen)], remedies=[f"to resume it: {resume}"]
    )


def complete(seen: Snapshot, plan: Plan, _: Evidence) -> Case | None:
    """All that is wanted has succeeded, and the condition is still to come."""
    if not lifecycle.is_complete(seen.job, plan.counts.succeeded, len(plan.counts.active)):
        return None
    if plan.counts.terminating:
        return Case(
            f"has succeeded, and waits for the end of {counted(plan.counts.terminating, 'pod')}", _terminating(seen)
        )
    return Case("has succeeded: becomes Complete once its pods are counted")


def refused(seen: Snapshot, plan: Plan, known: Evidence) -> Case | None:
    """The API server does not let its pods in."""
    event = next((one for one in reversed(known.events) if one.reason in ("FailedCreate", "SuccessfulCreate")), None)
    if not isinstance(plan.work, ScaleUp) or event is None or event.reason != "FailedCreate":
        return None
    cause, remedy = next(entry[1:] for entry in REFUSALS if entry[0] in event.message)
    times = f", {event.count} times" if event.count > 1 else ""
    reasons = [f"{ago(event.last_timestamp, seen.now)}{times}: {event.message}"]
    missing = counted(len(plan.work.members), "pod")
    step = Step(f"tries again to create {missing}: after 1s, then twice as long each time, 60s at most")
    return Case(f"cannot create pods: {cause}", reasons, [step], [remedy])


def in_backoff(seen: Snapshot, plan: Plan, known: Evidence) -> Case | None:
    """A failed pod is replaced after a while."""
    if not plan.delayed or isinstance(plan.work, ScaleUp):
        return None
    waits = _waits(seen, plan)
    first = min((step.at for step in waits if step.at is not None), default=seen.now)
    wait = human_duration(first - seen.now)
    headline = "replaces a failed pod now (backoff)"
    if wait != "0s":
        headline = f"waits {wait} before it replaces a failed pod (backoff)"
    return Case(headline, explain_pods.latest_failures(known.pods, seen.now, _NAMED), waits)


def stuck(seen: Snapshot, plan: Plan, _: Evidence) -> Case | None:
    """A terminating pod keeps its place, and its grace period is over."""
    overdue = [pod for pod in seen.pods if explain_pods.is_overdue(pod, seen.now)]
    if not overdue or not replaces_only_failed(seen.job) or isinstance(plan.work, ScaleUp | ScaleDown):
        return None
    name, namespace = overdue[0].metadata.name, seen.job.metadata.namespace
    why = (
        "spec.podReplacementPolicy is Failed"
        if seen.job.spec.pod_replacement_policy == "Failed"
        else ("it has a podFailurePolicy")
    )
    return Case(
        f"waits for {counted(len(overdue), 'pod')} stuck terminating",
        [*_terminating(seen), f"a terminating pod is replaced only when it has ended: {why}"],
        [Step("creates a replacement when the pod has ended")],
        [
            "see the pod's node; delete the Node if it is lost for good",
            f"or delete the pod by force: kubectl -n {namespace} delete pod {name} --force --grace-period=0",
        ],
    )


def unobserved(seen: Snapshot, plan: Plan, known: Evidence) -> Case | None:
    """The controller has to see its own writes before it counts pods."""
    if seen.expectations_met or plan.ending is not None:
        return None
    step = Step("decides again once it sees them")
    return Case("waits to see what it has written itself", _terminating(seen), [step])


def at_work(seen: Snapshot, plan: Plan, known: Evidence) -> Case | None:
    """Pods are to be created or removed right now."""
    match plan.work:
        case ScaleUp(members):
            text = f"creates {counted(len(members), 'pod')} now"
        case ScaleDown(pods):
            text = f"removes {counted(len(pods), 'surplus pod')} now"
        case _:
            return None
    since = max(filter(None, (seen.job.metadata.creation_timestamp, seen.job.status.start_time)), default=seen.now)
    if seen.job.status.start_time is not None or seen.now - since < _PATIENCE:
        return Case(text)
    return Case(
        "no controller has taken it up",
        [f"it was created {ago(seen.job.metadata.creation_timestamp, seen.now)}, and has no startTime"],
        [Step(f"a controller {text.removesuffix(' now').replace('creates', 'would create')}")],
        [_REMEDY_KCR if seen.job.spec.managed_by == lifecycle.KCR else _REMEDY_ANY],
    )


def running(seen: Snapshot, plan: Plan, _: Evidence) -> Case | None:
    """It waits for its pods."""
    active = plan.counts.active
    waiting = explain_pods.waiting_texts(active, _NAMED)
    if not active and seen.job.spec.parallelism == 0:
        return Case("has nothing to do: its parallelism is 0", _terminating(seen))
    if not active and (ends := plan.counts.terminating):
        steps = [Step("creates a replacement when the pod has ended")]
        return Case(f"waits for {counted(ends, 'terminating pod')} to end", _terminating(seen), steps)
    if not active:
        return Case("waits for a change")
    started = [pod for pod in active if pod.status.phase == "Running"]
    headline = (
        f"runs {counted(len(started), 'pod')}" if started else f"waits for {counted(len(active), 'pod')} to start"
    )
    steps = [Step("counts each pod that ends, and creates the next one that is wanted"), *_waits(seen, plan)]
    return Case(headline, [*waiting, *_terminating(seen)], steps)


# The first to hold is the headline, so order is contract. The last one always holds.
CASES: tuple[Rule, ...] = (
    finished, managed_by_another, being_deleted, unknown_mode, ending, suspended, complete,
    unobserved, refused, in_backoff, stuck, at_work, running,
)  # fmt: skip

# What a refusal's message has, the cause, and the remedy. The first that fits, the last one always.
REFUSALS: tuple[tuple[str, str, str], ...] = (
    ("exceeded quota", "a ResourceQuota is used up", "raise the quota, or delete what uses it"),
    ("failed quota", "a ResourceQuota needs values that they lack", "state requests and limits in the template"),
    ("failed calling webhook", "an admission webhook does not answer", "see its service and its failurePolicy"),
    ("admission webhook", "an admission webhook denies them", "change the pod template as it asks, or the webhook"),
    ("violates PodSecurity", "the namespace's Pod Security level denies them", "change their securityContext"),
    ("looking up service account", "their service account is not there", "create the one that the template names"),
    ("is invalid", "the pod template is invalid", "create the Job anew with a valid template"),
    ("is forbidden", "the API server forbids them", "grant what the message names to the controller's account"),
    ("", "the API server refuses them", "see the message"),
)  # fmt: skip
_REMEDY_KCR = "run it: kcr run --controllers job, or see whether the one that runs is ready: GET /readyz"
_REMEDY_ANY = (
    "see whether kube-controller-manager runs, or kcr with --take-over; kcr without it reconciles Jobs with "
    f"spec.managedBy: {lifecycle.KCR}"
)


def _waits(seen: Snapshot, plan: Plan) -> list[Step]:
    """Return when failed pods are replaced: of the Job as a whole, or of each index for itself."""
    limits, indexes = seen.limits, plan.counts.indexes

    def left(record: failures.Backoff) -> timedelta:
        return failures.time_left(record, seen.now, limits.backoff_base_seconds, limits.backoff_max_seconds)

    if seen.job.spec.backoff_limit_per_index is None or indexes is None:
        wait = left(plan.backoff)
        text = f"replaces what failed: {counted(plan.backoff.failures, 'failure')} in a row"
        return [Step(text, seen.now + wait)] if wait > timedelta() and plan.delayed else []
    waits = sorted((left(as_backoff(pod)), index, pod) for index, pod in indexes.delayed.items())
    return [
        Step(f"creates a pod of index {index} again: {counted(as_backoff(pod).failures, 'failure')}", seen.now + wait)
        for wait, index, pod in waits[:_NAMED]
        if wait > timedelta()
    ]


def _terminating(seen: Snapshot) -> list[str]:
    going = sorted(filter(is_terminating, seen.pods), key=lambda pod: str(pod.metadata.deletion_timestamp))
    return [explain_pods.terminating_text(pod, seen.now) for pod in going[:_NAMED]]


def _clauses(reason: str, message: str) -> list[str]:
    return [text] if (text := ": ".join(filter(None, (reason, message)))) else []
