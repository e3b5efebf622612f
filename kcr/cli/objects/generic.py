"""Explains an object of any kind by the fields that all kinds share: metadata and the conditions of the status."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from kcr.api.conditions import conditions_of
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, deletion_case, owner_text
from kcr.api.meta import Condition
from kcr.api.unstructured import Unstructured

# Conditions that are good when they are False; of all others False is trouble.
# Source: cli-utils/pkg/kstatus (Stalled, Reconciling); core/v1 and apps/v1 types.go.
_BAD_WHEN_TRUE = frozenset(
    {
        "Stalled", "Reconciling", "Degraded", "Failed", "ReplicaFailure", "MemoryPressure", "DiskPressure",
        "PIDPressure", "NetworkUnavailable", "DisruptionTarget", "Terminating", "NamesNotAccepted",
    }
)  # fmt: skip
# The conditions that summarize an object, and its state when one is true; the first present one counts.
_SUMMARIES: Mapping[str, str] = {
    "Ready": "ready", "Available": "available", "Established": "established", "Complete": "complete",
    "Succeeded": "done",
}  # fmt: skip
# Counts of a status, in the order in which they are shown.
_COUNTS = (
    "replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "desiredNumberScheduled", "numberReady",
    "ready", "active",
)  # fmt: skip


class _Seen(NamedTuple):
    """An object, as its explanation needs it."""

    obj: Unstructured
    spec: Any
    status: Mapping[str, Any]
    conditions: tuple[Condition, ...]
    now: datetime

    @property
    def observed(self) -> int | None:
        """The generation that its controller has observed."""
        found = self.status.get("observedGeneration")
        return found if isinstance(found, int) else None

    def find(self, kind: str) -> Condition | None:
        return next((one for one in self.conditions if one.type == kind), None)


def explain_object(obj: Unstructured, now: datetime) -> Explanation:
    """Return why an object is where it is, as far as metadata, generation and conditions show it."""
    status = obj.get("status")
    seen = _Seen(obj, obj.get("spec"), status if isinstance(status, dict) else {}, conditions_of(obj), now)
    case = next(found for rule in _CASES if (found := rule(seen)) is not None)
    return replace(
        case,
        reasons=tuple(dict.fromkeys((*case.reasons, *_troubles(seen), *owner_text(obj.metadata)))),
        wanted=_wanted(seen),
        present=_present(seen),
    )


def _deleted(seen: _Seen) -> Explanation | None:
    return deletion_case(seen.obj.resource, seen.obj.metadata, seen.now)


def _stalled(seen: _Seen) -> Explanation | None:
    found = seen.find("Stalled")
    is_stalled = found is not None and found.status == "True"
    return Explanation(Code.NOT_READY, f"is stalled{_why(found)}") if found is not None and is_stalled else None


def _ended(seen: _Seen) -> Explanation | None:
    """A Pod, for example, that is not ready because it has ended."""
    return _phase(seen) if seen.status.get("phase") in ("Succeeded", "Failed") else None


def _unobserved(seen: _Seen) -> Explanation | None:
    observed, generation = seen.observed, seen.obj.metadata.generation or 0
    if observed is None or observed >= generation:
        return None
    return Explanation(
        Code.WAITING,
        f"waits for its controller, which has not observed generation {generation}",
        steps=(Step("its controller reconciles the latest spec"),),
        reasons=(f"status.observedGeneration is {observed}: the status is that of an earlier spec",),
        remedies=("see whether its controller runs, and whether it fails",),
    )


def _summary(seen: _Seen) -> Explanation | None:
    name = next((name for name in _SUMMARIES if seen.find(name) is not None), None)
    found = seen.find(name) if name is not None else None
    if name is None or found is None:
        return None
    word = _SUMMARIES[name]
    since = _since(found.last_transition_time, seen.now)
    if found.status == "True":
        return Explanation(Code.HEALTHY, f"has been {word} for {since}")
    return Explanation(Code.NOT_READY, f"has not been {word} for {since}{_why(found)}")


def _in_trouble(seen: _Seen) -> Explanation | None:
    bad = next(filter(_is_bad, seen.conditions), None)
    if bad is not None:
        since = _since(bad.last_transition_time, seen.now)
        return Explanation(Code.NOT_READY, f"{bad.type} has been {bad.status} for {since}{_why(bad)}")
    progressing = seen.find("Progressing")
    return None if progressing is None else Explanation(Code.WAITING, f"is progressing{_why(progressing)}")


def _phase(seen: _Seen) -> Explanation | None:
    phase = seen.status.get("phase")
    message = seen.status.get("message")
    if not isinstance(phase, str) or not phase:
        return None
    detail = f": {message}" if isinstance(message, str) and message else ""
    return Explanation(Code.HEALTHY, f"is in phase {phase}{detail}")


def _silent(seen: _Seen) -> Explanation:
    created = seen.obj.metadata.creation_timestamp
    if seen.spec is None or seen.status:
        return Explanation(Code.HEALTHY, f"has existed for {_since(created, seen.now)}, and nothing suggests trouble")
    return Explanation(
        Code.NO_STATUS,
        f"has no status: no controller has written one in {_since(created, seen.now)}",
        remedies=("see whether a controller of this kind runs; some kinds have none, and no status",),
    )


# The first to hold is the headline; the last one always holds.
_CASES: tuple[Callable[[_Seen], Explanation | None], ...] = (
    _deleted, _ended, _stalled, _unobserved, _summary, _in_trouble, _phase, _silent,
)  # fmt: skip


def _wanted(seen: _Seen) -> str:
    generation = seen.obj.metadata.generation
    parts = [f"generation {generation}"] if generation else []
    replicas = seen.spec.get("replicas") if isinstance(seen.spec, dict) else None
    return ", ".join([f"{replicas} replicas", *parts] if isinstance(replicas, int) else parts)


def _present(seen: _Seen) -> str:
    parts = [] if seen.observed is None else [f"observed generation {seen.observed}"]
    parts += [f"{name} {seen.status[name]}" for name in _COUNTS if isinstance(seen.status.get(name), int | str)]
    return ", ".join(parts)


def _troubles(seen: _Seen) -> Iterable[str]:
    """Yield the conditions that report trouble, and those that were set for an earlier spec."""
    generation = seen.obj.metadata.generation or 0
    for one in seen.conditions:
        late = one.observed_generation is not None and one.observed_generation < generation
        if _is_bad(one) or late:
            of = f", of generation {one.observed_generation}" if late else ""
            since = ago(one.last_transition_time, seen.now)
            yield f"condition {one.type} is {one.status}, {since}{of}{_why(one)}"


def _is_bad(one: Condition) -> bool:
    return one.status == ("True" if one.type in _BAD_WHEN_TRUE else "False") or one.status == "Unknown"


def _why(condition: Condition) -> str:
    text = ": ".join(filter(None, (condition.reason, " ".join(condition.message.split()))))
    return f": {text}" if text else ""


def _since(moment: datetime | None, now: datetime) -> str:
    return "an unknown time" if moment is None else human_duration(max(now - moment, timedelta()))
