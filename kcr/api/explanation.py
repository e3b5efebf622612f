"""Explanations of an object's state, as shown by `kcr explain`.

An explanation is a code and facts. Codes are ordered: of several explanations of one object, the one whose code ranks
highest has the headline, and the facts of the others follow. No reader of an explanation parses its text.
"""

import shlex
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum

import msgspec
from msgspec.structs import replace

from kcr.api.durations import human_duration
from kcr.api.meta import ObjectMeta, controller_of
from kcr.api.resources import ResourceType

_NO_FINALIZERS = '{"metadata":{"finalizers":null}}'


class Code(Enum):
    """The situation of an object, in the order of rank: a later one is more telling.

    A controller that fails or an event loop that is blocked outranks a status that was written before.
    """

    HEALTHY = "Healthy"  # nothing suggests trouble
    FINISHED = "Finished"  # finished well: nothing happens any more
    FAILED = "Failed"  # finished badly: nothing happens any more
    WAITING = "Waiting"  # for a time, or a step that comes by itself
    MANAGED_BY_ANOTHER = "ManagedByAnother"  # its spec names another controller
    RUNNING = "Running"  # its pods run, or are about to
    CREATING = "Creating"  # its due dependents are to be created
    NO_STATUS = "NoStatus"  # no controller has written a status
    NOT_READY = "NotReady"  # a condition says so
    NO_CONTROLLER = "NoController"  # something is due, and no controller does it
    TERMINATING = "Terminating"  # it has a deletionTimestamp
    PODS_NOT_READY = "PodsNotReady"  # pods do not start, crash, or are not ready
    SLOW_RECONCILE = "SlowReconcile"  # a reconcile takes long, or has no worker
    RECONCILE_ERROR = "ReconcileError"  # its reconciles fail
    HOT_LOOP = "HotLoop"  # it is reconciled without end
    REFUSED = "Refused"  # the API server refuses a write for it
    CONCURRENT_CONTROLLERS = "ConcurrentControllers"  # several controllers work on it
    EVENT_LOOP_BLOCKED = "EventLoopBlocked"  # the event loop of its controller is blocked
    PAUSED = "Paused"  # by its annotation
    NOT_FOUND = "NotFound"

    @property
    def rank(self) -> int:
        """Its place in the order; the highest rank has the headline."""
        return _RANKS[self]


_RANKS = {code: rank for rank, code in enumerate(Code)}


class Step(msgspec.Struct, frozen=True):
    """Something that happens next.

    Attributes:
        text: The step.
        at: When; None when it follows from something else that the text names.
    """

    text: str
    at: datetime | None = None


class Explanation(msgspec.Struct, frozen=True):
    """The wanted and the present state of an object, the next steps, and the reasons.

    Attributes:
        code: The situation that it is in.
        headline: The one thing to know, without the object's name: `waits 38s before it replaces a failed pod`.
        steps: The next steps, in the order of time; those without a time last.
        reasons: Facts that the headline follows from, the most telling first.
        remedies: The user's remedies; empty if none is needed.
        wanted: The wanted state, from the spec.
        present: The present state.
        webhook: The admission webhook that refuses the writes; empty for none.
    """

    code: Code
    headline: str
    steps: tuple[Step, ...] = ()
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    wanted: str = ""
    present: str = ""
    webhook: str = ""


# An explanation of these codes adds nothing to one that ranks higher.
_SILENT = frozenset({Code.HEALTHY, Code.NO_STATUS, Code.NO_CONTROLLER})


def merged(explanation: Explanation, other: Explanation) -> Explanation:
    """Return two explanations of one object as one: the headline of the higher rank, the facts of both.

    Args:
        explanation: Has the headline when both rank alike, and the desired and the present state.
        other: Another one.
    """
    webhook = explanation.webhook or other.webhook
    if other.code.rank <= explanation.code.rank:
        reasons = _distinct(explanation.reasons, (other.headline,), other.reasons)
        remedies = _distinct(explanation.remedies, other.remedies)
        return replace(explanation, reasons=reasons, remedies=remedies, webhook=webhook)
    adds = explanation.code not in _SILENT
    # A condition is no verb.
    verb = "is " * explanation.headline[:1].isupper()
    return replace(
        explanation,
        code=other.code,
        headline=other.headline,
        steps=explanation.steps if adds else (),
        reasons=_distinct(other.reasons, (f"it {verb}{explanation.headline}",) if adds else (), explanation.reasons),
        remedies=_distinct(other.remedies, explanation.remedies if adds else ()),
        webhook=webhook,
    )


def merged_with_own(own: Explanation, outside: Explanation) -> Explanation:
    """Return a controller's explanation of an object, merged with the explanation from outside.

    A controller knows its own work best: its waits, its creates, and objects that it leaves alone. Problems of pods,
    refusals and other controllers are seen from outside as well, and rank as in `merged`.

    Args:
        own: The controller's explanation.
        outside: The one from the objects alone.
    """
    if (own.code, outside.code) in _SHARPER or outside.code is Code.CONCURRENT_CONTROLLERS:
        return outside
    if outside.code.rank > max(own.code.rank, Code.TERMINATING.rank):
        return merged(own, outside)
    if outside.code in (own.code, *_SILENT):
        return own
    return replace(own, reasons=(*own.reasons, f"from outside: {outside.headline}"))


# Pairs of a controller's code and one from outside of the same situation, of which the API server shows more: no cache
# has the warnings about pods, and no memory of a controller that has just started has the refusals.
_SHARPER = frozenset(
    {(Code.RUNNING, Code.PODS_NOT_READY), (Code.PODS_NOT_READY, Code.PODS_NOT_READY), (Code.CREATING, Code.REFUSED)}
)


def _distinct(*texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for part in texts for text in part if text))


def ordered(steps: list[Step]) -> tuple[Step, ...]:
    """Return steps in the order of time, those without a time last."""
    timed = sorted((step for step in steps if step.at is not None), key=lambda step: str(step.at))
    return (*timed, *(step for step in steps if step.at is None))


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, as `5m ago`; `at an unknown time` for None."""
    return "at an unknown time" if moment is None else f"{human_duration(max(now - moment, timedelta()))} ago"


def in_time(moment: datetime, now: datetime) -> str:
    """Return how long it is until a moment, as `in 5m`; `now` for less than a second and for the past."""
    return f"in {human_duration(moment - now)}" if moment - now >= timedelta(seconds=1) else "now"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 pod`, `2 pods`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def deletion_case(kind: ResourceType, metadata: ObjectMeta, now: datetime) -> Explanation | None:
    """Return why an object that was deleted is still there; None for one that was not deleted.

    Args:
        kind: Its kind.
        metadata: Its metadata.
        now: The moment to judge at.
    """
    moment, finalizers = metadata.deletion_timestamp, metadata.finalizers
    if moment is None:
        return None
    if moment > now:
        return Explanation(Code.TERMINATING, "is being deleted", steps=(Step("its grace period is over", moment),))
    headline = f"has been terminating for {human_duration(max(now - moment, timedelta()))}"
    if not finalizers:
        return Explanation(Code.TERMINATING, headline)
    noun = "finalizer" if len(finalizers) == 1 else "finalizers"
    first = finalizers[0].partition("/")[0]
    whose = f"see whether the controller of {first} runs, and what its log says"
    if first == "kubernetes.io":  # such as pvc-protection
        whose = f"see what uses it, such as a pod that has ended: {_kubectl(kind, metadata, 'describe')}"
    return Explanation(
        Code.TERMINATING,
        f"{headline}, and waits for its {noun} {', '.join(finalizers)}",
        steps=(Step(f"it is gone when {'its' if len(finalizers) == 1 else 'each'} controller has removed the {noun}"),),
        remedies=(
            whose,
            f"or give up what the {noun} {'guards' if len(finalizers) == 1 else 'guard'}: {unfinalize(kind, metadata)}",
        ),
    )


def unfinalize(kind: ResourceType, metadata: ObjectMeta) -> str:
    """Return the command that removes the finalizers of an object."""
    return f"{_kubectl(kind, metadata, 'patch')} --type=merge -p '{_NO_FINALIZERS}'"


def _kubectl(kind: ResourceType, metadata: ObjectMeta, verb: str) -> str:
    place = f" -n {metadata.namespace}" if metadata.namespace else ""
    # Names of some kinds have characters with a meaning to a shell, and a user copies the command into one.
    return f"kubectl{place} {verb} {kind.display} {shlex.quote(metadata.name)}"


def owner_text(metadata: ObjectMeta) -> Iterable[str]:
    """Yield a text about the controlling owner of an object, if there is one."""
    owner = controller_of(metadata)
    if owner is not None:
        command = f"kcr explain {shlex.quote(f'{owner.kind.lower()}/{owner.name}')}"
        yield f"it is controlled by {owner.kind} {owner.name}: {command}"
