"""Reading and setting conditions in a status, for any kind."""

from collections.abc import Iterable
from datetime import datetime

from kcr.api.meta import Condition, whole_seconds


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the first condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Return whether a condition of this type holds."""
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


def made(kind: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    """Return a new condition, probed and changed now."""
    moment = whole_seconds(now)
    return Condition(
        type=kind, status=status, reason=reason, message=message, last_probe_time=moment, last_transition_time=moment
    )


def ensure(conditions: tuple[Condition, ...], wanted: Condition) -> tuple[Condition, ...]:
    """Return the conditions with `wanted` among them; the very same tuple when nothing changes.

    One of the same type that says something else is replaced in place, times included. A condition
    that does not hold is not added where none was.

    Source: kubernetes/pkg/controller/job/job_controller.go, ensureJobConditionStatus.
    """
    for place, condition in enumerate(conditions):
        if condition.type != wanted.type:
            continue
        said = (condition.status, condition.reason, condition.message)
        if said == (wanted.status, wanted.reason, wanted.message):
            return conditions
        return (*conditions[:place], wanted, *conditions[place + 1 :])
    return conditions if wanted.status == "False" else (*conditions, wanted)
